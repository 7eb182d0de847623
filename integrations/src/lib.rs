//! Tourbillon in real servers: see `tests` and `examples` beside this. Here is what the servers share.

mod accept;

pub use accept::{Listener, accept, accept_blocking};
