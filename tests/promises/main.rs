//! Tourbillon's promises, each sentence as a test through the public API. One file a theme.

#[path = "../common/mod.rs"]
mod common;
#[cfg(target_os = "linux")]
#[path = "../common/policy.rs"]
mod policy;

mod advance_to_next;
mod api;
mod blocked;
mod builder;
mod bursts;
mod cancel_owned;
mod clock_failures;
mod combinations;
mod drain_periodic;
mod drops;
mod executors;
mod finer;
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
mod reentry;
mod reset_many;
mod reusable;
mod shutdown;
mod shutdown_async;
mod shutdown_with;
mod stats;
mod steps;
#[cfg(target_os = "linux")]
mod threads;
mod time;
mod until_it_begins;
mod waits;
mod watchdog;

/// Returns the number of the shard of a key.
fn shard_of(timer: &tourbillon::Timer, key: &(impl std::hash::Hash + ?Sized)) -> usize {
    let shown = format!("{:?}", timer.shard_for(key));
    let number = shown.chars().filter(char::is_ascii_digit).collect::<String>();
    number.parse().expect("a shard shows its number")
}
