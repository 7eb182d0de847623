//! What Tourbillon promises, each sentence as a test through the public API. One file a theme.

#[path = "../common/mod.rs"]
mod common;

mod builder;
mod clumps;
mod ending;
mod executors;
mod handles;
mod limits;
mod outcomes;
mod panics;
mod shutdown;
mod threads;
mod time;
