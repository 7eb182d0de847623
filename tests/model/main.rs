//! The whole engine, on a manual clock, against a model (`testkit::oracle`). A random program of
//! schedules, resets, cancels, drops and clock jumps runs over months of simulated time, and the
//! two must agree after every step.

#[path = "../common/mod.rs"]
mod common;
mod programs;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use testkit::oracle::{Pair, Step};
use tourbillon::Timer;

use common::driven_by;
use programs::{builders, ends, steps};

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("seeds"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_engine_does_what_a_sorted_map_does(
        (builder, options) in builders(), program in prop::collection::vec(steps(), 1..250),
        is_settled in any::<bool>(), end in ends(),
    ) {
        let mut pair = Pair::new(builder, options);
        for step in program {
            pair.step(step);
            pair.check();
            pair.check_counts();
        }
        if is_settled {
            pair.step(Step::Settle);
        }
        pair.end(end);
    }

    #[test]
    fn turned_only_when_it_asks_for_it_the_engine_is_on_time_and_asks_no_oftener_than_it_must(
        levels in 1..4_usize, bits in 2..7_u32,
        delays in prop::collection::vec((0..u64::MAX, 0..u64::MAX, any::<bool>()), 1..80),
    ) {
        let (timer, mut driver, clock) = driven_by(Timer::builder().levels(levels).ticks_per_wheel(1 << bits));
        // Within some rounds of the last level: the worker looks at a timeout once in each round.
        let most = 8 << (bits * u32::try_from(levels).expect("few"));
        let late = Arc::new(Mutex::new(Vec::new()));
        for (first, second, reset) in &delays {
            let delay = Duration::from_millis(first % most);
            let (late, own, due) = (Arc::clone(&late), clock.clone(), Arc::new(Mutex::new(clock.now() + delay)));
            let deadline = Arc::clone(&due);
            let task = move || {
                let by = own.now() - *deadline.lock().expect("no panic");
                late.lock().expect("no panic").push(by);
            };
            let timeout = timer.schedule(delay, task).expect("accepted");
            if *reset {
                let delay = Duration::from_millis(second % most);
                prop_assert!(timeout.reset(delay));
                *due.lock().expect("no panic") = clock.now() + delay;
            }
        }
        let mut turns = 0;
        while let Some(at) = driver.next_wakeup() {
            clock.advance(at.saturating_duration_since(clock.now()));
            driver.turn();
            turns += 1;
        }
        let late = late.lock().expect("no panic");
        prop_assert_eq!(late.len(), delays.len(), "all have fired");
        prop_assert!(late.iter().all(Duration::is_zero), "on time: {:?}", late);
        let (count, rounds) = (delays.len(), 8);
        prop_assert!(turns <= 2 * count * (levels + rounds) + 2, "{} turns for {} timeouts", turns, count);
    }
}
