//! One file a protocol; each test is named after what it promises.

mod check;
mod memory;
mod rig;

mod cancelled;
mod close;
mod doorbell;
mod handles;
mod inbox;
mod limit;
mod pool;
mod queue;
mod recycle;
mod state;
mod worker;
