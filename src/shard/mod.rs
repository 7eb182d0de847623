//! The part of a shard that any thread may touch: inbox, cancelled queue, moved queue, doorbell.
//!
//! The worker's half is [`Core`](crate::engine::Core). `README.md` here states the protocols
//! between the two halves and proves each of them.

mod inbox;
mod number;
mod remote;
mod side_queue;
mod stack;

pub(crate) use number::{MOST_SHARDS, Number};
pub(crate) use remote::{Command, EngineAddress, Remote, Takes, Wake};
pub(crate) use side_queue::SideQueue;
pub(crate) use stack::{Taken, WAKE_DEPTH};
