//! `shard_for`: all timeouts of one key live on one shard, and expire in the order of their ticks.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tourbillon::{Inline, Timer};

use crate::common::{MS, Random, assert_counters_reconcile, driven_by, on_workers, settle};
use crate::shard_of;

#[test]
fn a_key_has_the_same_shard_each_time_on_each_thread_and_in_each_engine() {
    let make = || driven_by(Timer::builder().shards(7));
    let ((timer, _driver, _clock), (other, _other_driver, _other_clock)) = (make(), make());
    for key in 0..1_000_u32 {
        let index = shard_of(&timer, &key);
        assert!(index < timer.shards());
        assert_eq!((shard_of(&timer, &key), shard_of(&other, &key)), (index, index));
    }
    let elsewhere = thread::scope(|scope| scope.spawn(|| shard_of(&timer, "a name")).join().expect("no panic"));
    assert_eq!(shard_of(&timer, "a name"), elsewhere);
    assert_eq!(shard_of(&timer, &"a name".to_owned()), elsewhere, "keys that are equal hash the same");
    assert_eq!(shard_of(&timer, &[1_u8, 2][..]), shard_of(&timer, &vec![1_u8, 2]));
}

#[test]
fn keys_are_spread_over_all_shards() {
    for shards in [1, 2, 3, 8, 64] {
        let (timer, _driver, _clock) = driven_by(Timer::builder().shards(shards));
        let mut counts = vec![0_usize; shards];
        for key in 0..10_000_u64 {
            counts[shard_of(&timer, &key)] += 1;
        }
        let share = 10_000 / shards;
        assert!(counts.iter().all(|&count| count > share / 2 && count < 2 * share), "{counts:?}");
    }
}

#[test]
fn every_way_to_schedule_on_a_shard_goes_to_that_shard_from_any_thread() {
    let (timer, mut driver, clock) = driven_by(Timer::builder().shards(4));
    let mut expected = [0_u64; 4];
    for key in 0..40_u32 {
        let (timer, now) = (&timer, clock.now());
        let schedule = move || {
            let shard = timer.shard_for(&key);
            drop(shard.schedule(MS, || ()).expect("accepted"));
            drop(shard.schedule_at(now + MS, || ()).expect("accepted"));
            shard.schedule_detached(MS, || ()).expect("accepted");
        };
        thread::scope(|scope| scope.spawn(schedule).join().expect("no panic"));
        expected[shard_of(timer, &key)] += 3;
    }
    let counted = |of: fn(&tourbillon::ShardStats) -> u64| timer.stats().shards.iter().map(of).collect::<Vec<_>>();
    assert_eq!(counted(|shard| shard.scheduled), expected);
    clock.advance(MS);
    assert_eq!(settle(&mut driver, &clock), 120);
    assert_eq!(counted(|shard| shard.fired), expected);
    assert_counters_reconcile(&timer.stats());
}

#[test]
fn with_inline_the_timeouts_of_one_key_run_in_the_order_of_their_ticks() {
    let (timer, clock) = on_workers(Timer::builder().shards(3).executor(Inline));
    let ran: Arc<Mutex<Vec<(u32, u64)>>> = Arc::default();
    let mut random = Random::new(1);
    for n in 0..3_000_u32 {
        let (key, ms) = (n % 10, 1 + random.below(5_000) as u64);
        let ran = Arc::clone(&ran);
        let task = move || ran.lock().expect("no panic").push((key, ms));
        timer.shard_for(&key).schedule_detached(Duration::from_millis(ms), task).expect("accepted");
    }
    clock.advance(5_000 * MS);
    let ran = ran.lock().expect("no panic");
    assert_eq!(ran.len(), 3_000);
    for key in 0..10 {
        let ticks: Vec<_> = ran.iter().filter(|(of, _)| *of == key).map(|(_, ms)| ms).collect();
        assert!(ticks.is_sorted(), "key {key}");
    }
}

#[test]
fn no_two_workers_run_the_timeouts_of_one_key() {
    let (timer, clock) = on_workers(Timer::builder().shards(4).executor(Inline));
    let seen: Vec<Arc<Mutex<BTreeSet<String>>>> = (0..20).map(|_| Arc::default()).collect();
    for n in 0..2_000_usize {
        let saw = Arc::clone(&seen[n % 20]);
        let task = move || {
            let name = thread::current().name().unwrap_or_default().to_owned();
            saw.lock().expect("no panic").insert(name);
        };
        timer.shard_for(&(n % 20)).schedule_detached(Duration::from_millis(n as u64 % 50), task).expect("accepted");
    }
    clock.advance(50 * MS);
    assert!(seen.iter().all(|threads| threads.lock().expect("no panic").len() == 1), "{seen:?}");
    let all: BTreeSet<_> = seen.iter().flat_map(|threads| threads.lock().expect("no panic").clone()).collect();
    assert!(all.len() > 1, "but different keys are on different ones: {all:?}");
}
