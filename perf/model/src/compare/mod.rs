//! The systems of `tourbillon-perf compare`, by the very same files.

#![allow(dead_code, reason = "`perf`, whose files these are, uses the rest")]

#[path = "../../../src/compare/ping_pong.rs"]
pub(crate) mod ping_pong;
#[path = "../../../src/compare/recorder.rs"]
pub(crate) mod recorder;
#[path = "../../../src/compare/statistics.rs"]
pub(crate) mod statistics;
pub(crate) mod systems;
