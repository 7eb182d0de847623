//! What a drain does with periodic timeouts.

use tourbillon::{Inline, Timeout, Timer};

use crate::common::{HOUR, MS, Times, assert_counters_reconcile, in_time};
use crate::shutdown_with::{begin_to_drain, on_workers};

#[test]
fn in_a_drain_no_run_of_a_periodic_timeout_begins_and_all_are_handed_back() {
    for (kind, builder) in [("inline", Timer::builder().executor(Inline)), ("a pool", Timer::builder())] {
        let (timer, clock) = on_workers(builder);
        let periodic_runs = Times::on(&clock);
        let noting = || {
            let runs = periodic_runs.clone();
            move || runs.note()
        };
        let fixed_rate = timer.schedule_at_fixed_rate(MS, MS, noting()).expect("accepted");
        let fixed_delay = timer.schedule_with_fixed_delay(2 * MS, MS, noting()).expect("accepted");
        let next = noting();
        let repeating = timer.schedule_repeating(HOUR, move || {
            next();
            None
        });
        let cancelled = timer.schedule_at_fixed_rate(MS, MS, noting()).expect("accepted");
        clock.advance(MS);
        assert_eq!(periodic_runs.count(), 2, "{kind}");
        let draining = begin_to_drain(&timer, 10 * MS);
        clock.advance(2 * MS);
        // It has come due in the drain, and is still pending.
        assert!(cancelled.is_pending() && cancelled.cancel(), "{kind}");
        clock.advance(8 * MS);
        let left = in_time("a drain", || draining.join().expect("no panic")).expect("the first");
        assert_eq!((left.len(), periodic_runs.count()), (3, 2), "{kind}");
        let handles = [fixed_rate, fixed_delay, repeating.expect("accepted")];
        assert!(handles.iter().all(Timeout::is_cancelled), "{kind}");
        assert_counters_reconcile(&timer.stats());
    }
}
