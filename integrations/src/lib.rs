//! Tourbillon in real servers: see `tests` and `examples` beside this directory. Each adapter has a
//! test against the real thing. This library holds what the example `server` shares with tests.
//!
//! Each example runs with `cargo run -p tourbillon-integrations --example NAME`. Each but `server`
//! is one file that can be copied: at its head are the dependencies to copy with it.
//!
//! | example | what it shows |
//! |---|---|
//! | `server` | axum on hyper. Request deadlines, idle connections and a periodic job are in one engine. A page shows rates, the lateness of the last minute, health, panics and the wheel; `scripts/page` looks at it in a headless browser |
//! | `hyper_server` | hyper's timeouts on the engine |
//! | `axum_timeout` | a `TimeoutLayer` on an axum router, which answers 504 and an error in JSON |
//! | `axum_limits` | an axum router whose connections have limits for the header, for being idle, and for a request |
//! | `client_limit` | an HTTP client with a limit for each request, and its body |
//! | `tonic_deadline` | a gRPC server and a client whose late calls end with DEADLINE_EXCEEDED |
//! | `quic_idle` | QUIC connections that time out |
//! | `prometheus` | the engine's metrics for Prometheus. The recorder is installed first |
//! | `graceful_shutdown` | what ends on ctrl-c, in which order and within which time |
//! | `events` | what an operator reads in a log |

mod accept;

pub use accept::{Listener, accept};
