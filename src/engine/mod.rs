//! One engine: its shared part, its owners, and the half of each shard that only the worker
//! touches.

mod arrivals;
mod backpressure;
mod batch;
mod core;
mod due;
mod in_flight;
mod lifetime;
mod runs;
mod shared;
#[cfg(all(test, not(loom)))]
mod tests;
mod turn;
mod unfired;

pub(crate) use batch::{Batch, PART};
pub(crate) use core::{Core, Limits, TurnResult};
pub(crate) use due::Due;
pub(crate) use lifetime::{EngineRef, SharedRef};
pub(crate) use shared::{PanicHook, Shared, SharedPlan};
pub(crate) use unfired::UnfiredList;
