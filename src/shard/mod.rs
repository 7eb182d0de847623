//! The part of a shard that any thread may touch: inbox, cancelled queue, moved queue, doorbell.
//!
//! The worker's half is [`Core`](crate::engine::Core). `README.md` here states the protocols
//! between the two halves and proves each of them.

mod inbox;
mod number;
mod queue;
mod remote;

pub(crate) use number::{MOST_SHARDS, Number};
pub(crate) use queue::{SideQueue, Taken, WAKE_DEPTH};
pub(crate) use remote::{Command, EngineAddress, Remote, Takes, Waker};
