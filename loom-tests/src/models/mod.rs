//! One file a protocol. Each test is named after what it promises.

mod cancelled;
mod check;
mod claim;
mod close;
mod doorbell;
mod given_up;
mod handles;
mod inbox;
mod ledger;
mod limit;
mod memory;
mod periodic;
mod pool;
mod queue;
mod recycle;
mod refs;
mod rig;
mod sleep;
mod state;
mod tombstones;
mod within_a_tick;
mod worker;
