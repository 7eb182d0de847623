//! The systems of `tourbillon-perf compare`, by the very same files.

#![allow(dead_code, reason = "`perf`, whose files these are, uses the rest")]

#[path = "../../../src/compare/recorder.rs"]
pub(crate) mod recorder;
pub(crate) mod systems;
