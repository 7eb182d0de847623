//! What Tourbillon promises, each sentence as a test through the public API. One file a theme.

#[path = "../common/mod.rs"]
mod common;

mod attacks;
mod attacks_again;
mod builder;
mod clock_failures;
mod clumps;
mod ending;
mod endings;
mod executors;
mod figures;
mod groups;
mod handles;
mod hooks;
mod keys;
mod limits;
mod outcomes;
mod panics;
mod pauses;
mod ranges;
mod series;
mod series_ends;
mod shutdown;
mod stepping;
mod threads;
mod time;
mod watchdog;
