//! The engine's own source files, compiled a second time against loom and checked here. They are
//! not copies: the text is the same.
//!
//! The crate is empty without `--cfg loom`. `scripts/loom` runs the models, and the mutants that
//! show that the models can fail.
#![cfg(loom)]
// The main crate lints the engine's files. Here much of them is unused, and nothing is public.
#![allow(dead_code, unreachable_pub, missing_docs, missing_debug_implementations)]

#[path = "../../src/arena/mod.rs"]
mod arena;
#[path = "../../src/count/mod.rs"]
mod count;
#[path = "../../src/engine/mod.rs"]
mod engine;
#[path = "../../src/entry/mod.rs"]
mod entry;
#[path = "../../src/events.rs"]
mod events;
#[path = "../../src/executor/mod.rs"]
mod executor;
#[path = "../../src/future/mod.rs"]
mod future;
#[path = "../../src/sys/memory.rs"]
mod memory;
#[path = "../../src/panics.rs"]
mod panics;
#[path = "../../src/shard/mod.rs"]
mod shard;
#[path = "../../src/sync.rs"]
mod sync;
#[path = "../../src/sys/mod.rs"]
mod sys;
#[path = "../../src/thread/mod.rs"]
mod thread;
#[path = "../../src/time/mod.rs"]
mod time;
#[path = "../../src/timer/mod.rs"]
mod timer;
#[path = "../../src/wheel/mod.rs"]
mod wheel;
#[path = "../../src/worker/mod.rs"]
mod worker;

pub use executor::*;
pub use future::*;
pub use time::*;
pub use timer::*;
pub use worker::*;

#[cfg(test)]
mod models;
