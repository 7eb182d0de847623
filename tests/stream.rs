//! An interval is a stream of its ticks.

mod common;

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use futures_util::stream::{self, Stream, StreamExt};
use tourbillon::{MissedTicks, Timer};

use common::{MS, driven, in_time, settle};

#[test]
fn a_stream_of_ticks_has_each_when_it_is_due_and_none_before() {
    let (timer, mut driver, clock) = driven();
    let mut ticks = timer.interval(10 * MS);
    let mut context = Context::from_waker(Waker::noop());
    let first = clock.now();
    assert_eq!(ticks.size_hint(), (0, None), "it ends with its engine, whenever that is");
    for tick in 0..100 {
        assert_eq!(ticks.poll_next_unpin(&mut context), Poll::Ready(Some(first + 10 * tick * MS)));
        clock.advance(9 * MS);
        settle(&mut driver, &clock);
        assert_eq!(ticks.poll_next_unpin(&mut context), Poll::Pending, "never early");
        clock.advance(MS);
        settle(&mut driver, &clock);
    }
}

#[test]
fn a_stream_makes_up_for_missed_ticks_as_its_interval_is_told() {
    let (timer, mut driver, clock) = driven();
    let mut ticks = timer.interval(10 * MS);
    ticks.set_missed_ticks(MissedTicks::Burst);
    let mut context = Context::from_waker(Waker::noop());
    clock.advance(35 * MS);
    settle(&mut driver, &clock);
    let ready = std::iter::from_fn(|| matches!(ticks.poll_next_unpin(&mut context), Poll::Ready(_)).then_some(()));
    assert_eq!(ready.count(), 4, "at 0, 10, 20 and 30 ms");
}

#[test]
fn a_stream_goes_with_the_combinators_of_others_on_a_clock_that_runs() {
    in_time("three ticks", || {
        pollster::block_on(async {
            let timer = Timer::new().expect("the defaults make sense");
            let begun = Instant::now();
            let numbered = timer.interval_at(begun + 5 * MS, 5 * MS).zip(stream::iter(1_u32..)).take(3);
            let mut numbered = pin!(numbered);
            let mut last = 0;
            while let Some((due, number)) = numbered.next().await {
                assert!(due >= begun + 5 * number * MS && Instant::now() >= due, "never early");
                last = number;
            }
            assert_eq!(last, 3);
        });
    });
}

#[test]
fn a_stream_ends_when_its_engine_is_shut_down() {
    let (timer, _driver, _clock) = driven();
    let mut context = Context::from_waker(Waker::noop());
    let mut ticks = timer.interval(10 * MS);
    assert!(ticks.poll_next_unpin(&mut context).is_ready());
    assert_eq!(ticks.poll_next_unpin(&mut context), Poll::Pending);
    drop(timer.shutdown().expect("the first"));
    for _ in 0..3 {
        assert_eq!(ticks.poll_next_unpin(&mut context), Poll::Ready(None));
    }
    assert!(ticks.ended_by_shutdown());
}
