//! `tourbillon::compat::tokio` beside `tokio::time`: each program runs with both, by a clock that
//! stands still, and must tell the same.

#[path = "common/other_thread.rs"]
mod other_thread;

use std::fmt::Write;
use std::future::{Future, pending};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

use tokio::runtime::Builder;
use tokio::task::{JoinSet, LocalSet, spawn_blocking, yield_now};
use tokio::time::{Duration, Instant, MissedTickBehavior};

use other_thread::wait_for_a_thread;

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);
const CASES: u64 = 200;

/// The events that a program notes.
#[derive(Clone)]
struct Tale(Arc<Mutex<String>>, Instant);

impl Tale {
    fn begin() -> Self {
        Self(Arc::default(), Instant::now())
    }

    /// Notes an event, and when it happens.
    fn note(&self, event: impl std::fmt::Debug) {
        let mut tale = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(tale, "{event:?} after {:?}", self.1.elapsed()).expect("there is memory");
    }

    fn end(&self) -> String {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Numbers that look random, and are the same for both.
struct Numbers(u64);

impl Numbers {
    fn of(case: u64) -> Self {
        Self(case.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u32::try_from(self.0 % u64::from(bound)).expect("it is below the bound")
    }
}

fn stopped() -> tokio::runtime::Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime")
}

fn no_waker() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// Lets all that an advance has woken run: with Tokio's timers that takes a turn more than with
/// ours.
async fn settle() {
    for _ in 0..3 {
        yield_now().await;
    }
}

/// Makes a test of each program. It has one of the two under the name of `time`.
macro_rules! beside {
    ($(async fn $program:ident($time:ident, $tale:ident: &Tale) $body:block)*) => {$(
        #[test]
        fn $program() {
            let theirs = {
                use ::tokio::time as $time;
                stopped().block_on(async {
                    let $tale = &Tale::begin();
                    $body
                    $tale.end()
                })
            };
            let ours = {
                use ::tourbillon::compat::tokio as $time;
                stopped().block_on(async {
                    let $tale = &Tale::begin();
                    $body
                    $tale.end()
                })
            };
            for (line, (theirs, ours)) in theirs.lines().zip(ours.lines()).enumerate() {
                assert_eq!(ours, theirs, "line {line}");
            }
            assert_eq!(ours.len(), theirs.len());
        }
    )*};
}

beside! {
    async fn sleeps_of_many_tasks_end_in_the_same_order(time, tale: &Tale) {
        let (mut set, mut numbers) = (JoinSet::new(), Numbers::of(7));
        for task in 0..500 {
            let (tale, slept) = (tale.clone(), numbers.below(2_000) * MS);
            set.spawn(async move {
                time::sleep(slept).await;
                tale.note(task);
            });
        }
        while set.join_next().await.is_some() {}
    }

    async fn a_sleep_is_moved_in_the_same_way_whatever_came_before(time, tale: &Tale) {
        for case in 0..CASES {
            let (mut numbers, start) = (Numbers::of(case), Instant::now());
            let mut sleep = Box::pin(time::sleep(numbers.below(50) * MS));
            for _ in 0..8 {
                match numbers.below(4) {
                    0 => tale.note(sleep.as_mut().poll(&mut no_waker())),
                    1 => {
                        time::advance(numbers.below(30) * MS).await;
                        settle().await;
                    }
                    2 => sleep.as_mut().reset(start + numbers.below(100) * MS),
                    _ => tale.note(sleep.deadline() - start),
                }
            }
            sleep.as_mut().await;
            tale.note(("ready", sleep.is_elapsed()));
        }
    }

    async fn an_interval_ticks_in_the_same_way_whatever_is_missed(time, tale: &Tale) {
        for (case, behavior) in (0..CASES).flat_map(|case| {
            [MissedTickBehavior::Burst, MissedTickBehavior::Delay, MissedTickBehavior::Skip].map(|it| (case, it))
        }) {
            let (mut numbers, start) = (Numbers::of(case), Instant::now());
            let period = 1 + numbers.below(40);
            let first = start + numbers.below(40) * MS - numbers.below(40) * MS;
            let mut beat = time::interval_at(first, period * MS);
            beat.set_missed_tick_behavior(behavior);
            for _ in 0..20 {
                match numbers.below(10) {
                    0..=2 => {
                        let due = beat.tick().await;
                        tale.note((due.duration_since(first), first.duration_since(due)));
                    }
                    3 | 4 => match beat.poll_tick(&mut no_waker()) {
                        Poll::Ready(due) => tale.note((due.duration_since(first), first.duration_since(due))),
                        Poll::Pending => tale.note("not yet"),
                    },
                    5 | 6 => {
                        time::advance(numbers.below(3 * period) * MS).await;
                        settle().await;
                    }
                    7 => time::sleep(numbers.below(2 * period) * MS).await,
                    8 => beat.reset_after(numbers.below(50) * MS),
                    _ => match numbers.below(4) {
                        0 => beat.reset(),
                        1 => beat.reset_immediately(),
                        _ => beat.reset_at(start + numbers.below(100) * MS),
                    },
                }
            }
        }
    }

    async fn limits_within_limits_end_alike(time, tale: &Tale) {
        let start = Instant::now();
        tale.note(time::timeout(100 * MS, time::timeout(50 * MS, pending::<()>())).await.is_ok());
        tale.note(time::timeout(50 * MS, time::timeout(100 * MS, pending::<()>())).await.is_ok());
        tale.note(time::timeout(50 * MS, time::timeout(50 * MS, pending::<()>())).await.is_ok());
        tale.note(time::timeout(50 * MS, time::sleep(50 * MS)).await);
        tale.note(time::timeout(Duration::ZERO, yield_now()).await);
        tale.note(time::timeout(Duration::MAX, time::sleep(MS)).await);
        tale.note(time::timeout_at(start, pending::<()>()).await);
        tale.note(time::timeout_at(start, async { "at once" }).await);
        let later = time::timeout(50 * MS, pending::<()>());
        time::sleep(30 * MS).await;
        tale.note(later.await);
        let (send, mut receive) = tokio::sync::mpsc::channel(1);
        tokio::spawn(async move {
            for message in 0..8 {
                time::sleep(message % 4 * 10 * MS).await;
                send.send(message).await.expect("it is received");
            }
        });
        while let Some(message) = time::timeout(25 * MS, receive.recv()).await.unwrap_or(Some(99)) {
            tale.note(message);
        }
    }

    async fn branches_of_a_select_are_taken_alike(time, tale: &Tale) {
        let (mut one, mut other) = (time::interval(7 * MS), time::interval(11 * MS));
        let mut end = Box::pin(time::sleep(300 * MS));
        let mut idle = Box::pin(time::sleep(5 * MS));
        loop {
            tokio::select! {
                biased;
                () = &mut end => break,
                due = one.tick() => tale.note(("one", due - tale.1)),
                due = other.tick() => tale.note(("other", due - tale.1)),
                () = &mut idle => tale.note("idle"),
            }
            idle.as_mut().reset(Instant::now() + 3 * MS);
        }
    }

    async fn a_clock_that_stands_still_goes_on_alike(time, tale: &Tale) {
        time::timeout(HOUR, settle()).await.expect("in time");
        let aborted = tokio::spawn(time::sleep(HOUR));
        settle().await;
        aborted.abort();
        wait_for_a_thread().await;
        tale.note("all deadlines have gone");
        time::timeout(HOUR, spawn_blocking(|| thread::sleep(20 * MS))).await.expect("in time").expect("no panic");
        tale.note("a blocking task");
        for hours in [1, 100, 10_000] {
            time::sleep(hours * HOUR).await;
            tale.note(hours);
        }
        let local = LocalSet::new();
        for task in [3, 1, 2] {
            let tale = tale.clone();
            local.spawn_local(async move {
                time::sleep(task * MS).await;
                tale.note(task);
            });
        }
        local.await;
        time::resume();
        time::sleep(MS).await;
        time::pause();
        let before = Instant::now();
        time::advance(HOUR).await;
        assert_eq!(before.elapsed(), HOUR);
    }
}
