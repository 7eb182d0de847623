//! Workers that are pinned to a core which another thread takes: a busy thread of a real-time
//! policy keeps all others from its core.

#![cfg(target_os = "linux")]

mod common;
#[path = "common/hog.rs"]
mod hog;

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use tourbillon::{Builder, Inline, Pinning, Timer};

use common::{MS, PATIENCE, allowed_cores, cores_in, threads_named};
use hog::Hog;

/// Returns an engine whose worker runs and is pinned, and its core. Returns `None` if there are too
/// few cores for that.
fn pinned(builder: Builder) -> Option<(Timer, usize)> {
    let timer = builder.build().expect("the options make sense");
    let (send, receive) = channel();
    timer.schedule_detached(Duration::ZERO, move || send.send(()).expect("the test waits")).expect("accepted");
    receive.recv_timeout(PATIENCE).expect("it fires");
    let core = pinned_to(&timer);
    if core.is_none() {
        println!("SKIPPED: there is no core to pin a worker to");
    }
    Some((timer, core?))
}

fn pinned_to(timer: &Timer) -> Option<usize> {
    timer.stats().shards[0].pinned_to
}

#[test]
fn a_pinned_worker_stays_where_it_is_though_another_thread_takes_its_core() {
    for (name, pinning) in [("auto", Pinning::Auto), ("given", Pinning::Cores(vec![allowed_cores()[0]]))] {
        let builder = Timer::builder().thread_name(name).shards(1).executor(Inline).pinning(pinning);
        let Some((timer, core)) = pinned(builder) else { return };
        let _beat = timer.schedule_with_fixed_delay(20 * MS, 20 * MS, || ()).expect("accepted");
        let Some(_hog) = Hog::on(core) else { return };
        let (turns, start) = (timer.stats().turns, Instant::now());
        // Long enough for the worker to have been kept from its core, and to have run, which the
        // system allows now and then.
        while timer.stats().turns < turns + 3 && start.elapsed() < PATIENCE {
            thread::sleep(50 * MS);
            drop(timer.health());
        }
        assert_eq!(pinned_to(&timer), Some(core));
        let worker = threads_named(&format!("{name}-0")).pop().expect("it runs");
        assert_eq!(cores_in(worker.field("Cpus_allowed_list")), [core]);
    }
}
