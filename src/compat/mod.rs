//! The surfaces of other timers on this engine: what a program imports there has the same name
//! here, takes the same arguments and means the same.

pub mod delay_queue;
pub mod tokio;
