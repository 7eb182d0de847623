//! Tourbillon's promises, each sentence as a test through the public API. One file a theme.

#[path = "../common/mod.rs"]
mod common;

mod builder;
mod bursts;
mod clock_failures;
mod ending;
mod endings;
mod executors;
mod figures;
mod groups;
mod handles;
mod hooks;
mod interplay;
mod keys;
mod limits;
mod outcomes;
mod panics;
mod pauses;
mod ranges;
mod reentry;
mod series;
mod series_ends;
mod shutdown;
mod stepping;
mod threads;
mod time;
mod watchdog;
