//! One engine: its shared part, its owners, and the half of each shard that only the worker
//! touches.

mod backpressure;
mod batch;
mod chain;
mod core;
mod in_flight;
mod lifetime;
mod periodic;
mod shared;
#[cfg(all(test, not(loom)))]
mod tests;
mod turn;
mod unfired;

pub(crate) use batch::Batch;
pub(crate) use core::{Core, Limits, Turn};
pub(crate) use lifetime::{EngineRef, SharedRef};
#[cfg(loom)]
pub(crate) use periodic::PeriodicRun;
pub(crate) use periodic::Ran;
pub(crate) use shared::{PanicHook, Shared, SharedPlan};
pub(crate) use unfired::UnfiredList;
