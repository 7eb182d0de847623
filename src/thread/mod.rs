//! One thread's part of an engine: its free entries, its tombstones, its counts, its references.

mod local;
mod sharded_ref;
mod state;
mod tombstones;

pub(crate) use local::Local;
pub(crate) use sharded_ref::{LocalRefs, ShardedRef};
pub(crate) use state::ThreadState;
