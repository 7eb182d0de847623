//! What any thread may touch of a shard: inbox, cancelled queue, reset queue, doorbell.
//!
//! The worker's half is [`Core`](crate::engine::Core). The protocols between the two halves are in `README.md` here, each with
//! its proof.

mod coalescer;
mod inbox;
mod remote;
mod side_queue;
mod stack;

pub(crate) use remote::{Command, Remote, Wake};
#[cfg(all(test, not(loom)))]
pub(crate) use stack::LOOK_DEPTH;
pub(crate) use stack::{Taken, WAKE_DEPTH};
