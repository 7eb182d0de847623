//! Tourbillon's promises, each sentence as a test through the public API. One file a theme.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/policy.rs"]
mod policy;

mod advance_to_next;
mod api;
mod blocked;
mod boot_clock;
mod builder;
mod bursts;
mod cancel_owned;
mod clock_failures;
mod combinations;
mod drain_periodic;
mod drops;
mod every;
mod executors;
mod finer;
mod groups;
mod handles;
mod hooks;
mod keys;
mod lateness;
mod limits;
mod order;
mod outcomes;
mod panics;
mod pauses;
mod pending;
mod periodic;
mod periodic_ends;
mod ranges;
mod reentry;
mod reset_many;
mod reusable;
mod shutdown;
mod shutdown_async;
mod shutdown_with;
mod stats;
mod threads;
mod time;
mod until_it_begins;
mod waits;
mod watchdog;
