//! The interface of Cloudflare's `pingora-timeout` on [Tourbillon](tourbillon), for services that
//! are built with Pingora.
//!
//! One line in the service's own `Cargo.toml` puts it in the place of the original, in all of
//! Pingora's crates at once:
//!
//! ```toml
//! [patch.crates-io]
//! pingora-timeout = { path = "../tourbillon/crates/pingora-timeout" }
//! ```
//!
//! It has the version of the release whose interface it has, because Cargo takes a patch only where
//! its version is asked for. A `Cargo.lock` that names another release of the original keeps it:
//! `cargo update -p pingora-timeout` lets go of that. Cargo warns of a patch that it does not use.
//!
//! `integrations/pingora-proxy` is a proxy that is all Pingora's. `scripts/pingora` builds it with
//! and without that line, tests each of its limits, and compares the two under load.
//!
//! ```
//! use std::time::Duration;
//! use pingora_timeout::{sleep, timeout};
//!
//! # pollster::block_on(async {
//! assert_eq!(timeout(Duration::from_secs(5), async { "answer" }).await.unwrap(), "answer");
//! let slow = sleep(Duration::from_secs(60));
//! assert!(timeout(Duration::from_millis(5), slow).await.is_err());
//! # });
//! ```
//!
//! # What is different
//!
//! * **A limit that is over in time is gone at once.** The original keeps it until its deadline,
//!   because others may share its slot of 10 ms.
//! * **Deadlines are a millisecond's**, and no thread wakes while nothing is due. The original
//!   looks each 10 ms. The shortest time is a millisecond, also if zero is asked for.
//! * **A limit makes no allocation.** The original makes two for each that has to wait, and more
//!   for the first of its slot. [`ToTimeout::timeout`] still boxes, and so does a limit by Tokio.
//! * **A [`TimerManager`](timer::TimerManager) of one's own fires its timers.** The original's does
//!   not: nothing outside of that crate can turn it.
//! * **[`Duration::MAX`](std::time::Duration::MAX) is for ever.** The original panics.
//!
//! Limits above [a threshold](fast_timeout::set_fast_timeout_to_tokio_threshold) are Tokio's, as
//! they are with the original. This engine has no need of that, and `None` switches it off, or
//! `fast_timeout_to_tokio_threshold_seconds: null` in a service's configuration.
//!
//! # After a fork
//!
//! A service that becomes a daemon forks. The child gets an engine of its own at its first limit,
//! whether the parent has used one or not, and whether [`fast_timeout::pause_for_fork`] was called
//! or not. That holds on Linux and macOS. A limit that was pending at the fork goes over to the
//! child's engine when it is polled next. Until then nothing wakes it.

mod delay;
mod engine;
pub mod fast_timeout;
mod limit;
pub mod timer;

pub use fast_timeout::{fast_sleep as sleep, fast_timeout as timeout};
pub use limit::{Elapsed, Timeout, ToTimeout, TokioTimeout, tokio_timeout};

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
