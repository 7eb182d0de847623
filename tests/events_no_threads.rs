//! A worker that can't be started is reported once. The test limits the address space of the
//! process, so this binary has one test.

#![cfg(target_os = "linux")]

mod common;
#[path = "common/listener.rs"]
mod listener;
#[path = "common/no_threads.rs"]
mod no_threads;

use std::time::Duration;

use tourbillon::{Inline, Timer, WorkerState};
use tracing::Level;

use common::{Runs, eventually};
use listener::Listener;
use no_threads::without_threads;

#[test]
fn a_worker_that_can_not_be_started_is_reported_once() {
    let listener = Listener::of_all();
    let timer = Timer::builder().shards(1).executor(Inline).build().expect("the options make sense");
    let runs = Runs::new(10);
    without_threads(|| {
        (0..10).for_each(|id| timer.schedule_detached(Duration::ZERO, runs.task(id)).expect("accepted"));
        assert_eq!(timer.health().shards[0].worker, WorkerState::CannotStart);
    });
    let heard = listener.heard();
    assert_eq!(heard.len(), 1, "each schedule has tried, and only the first has reported that: {heard:?}");
    assert_eq!(heard[0].level, Level::ERROR);
    assert!(heard[0].text.contains("shard=0") && heard[0].text.contains("os error"), "{heard:?}");
    _ = timer.health();
    eventually("there are threads again", || runs.total() == 10);
    runs.assert_each_ran_once();
    assert_eq!(listener.heard().len(), 1);
}
