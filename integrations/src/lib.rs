//! Tourbillon in real servers: see `tests` and `examples` beside this directory. This library holds
//! what the servers share.
//!
//! Each adapter has a test against the real thing. Each example runs with `cargo run --release -p
//! tourbillon-integrations --example NAME`:
//!
//! | example | what it shows |
//! |---|---|
//! | `server` | axum on hyper. Request deadlines, idle connections and a periodic job are in one engine. A page shows rates, the lateness of the last minute, health and panics; `scripts/page` looks at it in a headless browser |
//! | `hyper_server` | hyper's timeouts on the engine |
//! | `axum_timeout` | a `TimeoutLayer` on an axum router |
//! | `axum_limits` | an axum router whose connections have limits for the header, for being idle, and for a request |
//! | `quic_idle` | QUIC connections that time out |
//! | `prometheus` | the engine's metrics for Prometheus. The recorder is installed first |
//! | `graceful_shutdown` | what ends on ctrl-c, in which order and within which time |
//! | `events` | what an operator reads in a log |

mod accept;
mod start;

pub use accept::{Listener, accept, accept_blocking};
pub use start::start;
