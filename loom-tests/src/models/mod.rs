//! One file a protocol; each test is named after what it promises.

mod check;
mod memory;
mod rig;

mod cancelled;
mod close;
mod doorbell;
mod groups;
mod handles;
mod inbox;
mod kept;
mod limit;
mod pause;
mod pool;
mod queue;
mod recycle;
mod series;
mod sleep;
mod stakes;
mod state;
mod worker;
