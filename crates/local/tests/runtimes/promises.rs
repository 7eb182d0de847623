//! The promises, for any runtime.

use std::cell::{Cell, RefCell};
use std::future::{Future, pending};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use futures_lite::future::yield_now;
use tourbillon::Clock;
use tourbillon_local::{LocalBuilder, LocalTimer, Refusal};

/// A delay that no test waits for.
pub(crate) const LONG: Duration = Duration::from_secs(3_600);
/// How long something may take that comes at once on a machine with nothing else to do.
const PATIENCE: Duration = Duration::from_secs(60);

/// A runtime of one thread.
pub(crate) trait Host {
    /// Runs `main` with an engine, and ends the engine and the runtime.
    fn run(builder: LocalBuilder, main: impl AsyncFnOnce(LocalTimer));

    fn spawn(task: impl Future<Output = ()> + 'static);

    /// The runtime's own.
    fn sleep(delay: Duration) -> impl Future<Output = ()>;
}

/// Counts how often it is read: once in each turn, and once by each call with a delay.
#[derive(Clone, Default)]
struct CountedClock(Arc<AtomicUsize>);

impl Clock for CountedClock {
    fn now(&self) -> Instant {
        self.0.fetch_add(1, Ordering::Relaxed);
        Instant::now()
    }
}

pub(crate) fn sleeps_and_limits_end_and_never_early<H: Host>() {
    H::run(LocalTimer::builder(), async |timer| {
        let ended = Rc::new(Cell::new(0));
        for number in 0..50_u32 {
            let (timer, ended) = (timer.clone(), Rc::clone(&ended));
            H::spawn(async move {
                let (delay, begun) = (Duration::from_micros(237) * number, Instant::now());
                timer.sleep(delay).await;
                assert!(begun.elapsed() >= delay);
                let (limit, begun) = (Duration::from_micros(731) * number, Instant::now());
                assert!(timer.timeout(limit, pending::<()>()).await.is_err());
                assert!(begun.elapsed() >= limit);
                assert_eq!(timer.timeout(LONG, async { number }).await, Ok(number));
                ended.set(ended.get() + 1);
            });
        }
        wait_until::<H>(|| ended.get() == 50).await;
        assert_eq!(timer.pending(), 0);
    });
}

pub(crate) fn a_task_that_is_not_send_runs_on_its_own_thread<H: Host>() {
    H::run(LocalTimer::builder(), async |timer| {
        let threads: Rc<RefCell<Vec<ThreadId>>> = Rc::default();
        for delay in [0, 1, 5].map(Duration::from_millis) {
            let list = Rc::clone(&threads);
            timer.schedule_detached(delay, move || list.borrow_mut().push(thread::current().id())).expect("room");
            let (timer, list) = (timer.clone(), Rc::clone(&threads));
            H::spawn(async move {
                timer.sleep(delay).await;
                list.borrow_mut().push(thread::current().id());
            });
        }
        wait_until::<H>(|| threads.borrow().len() == 6).await;
        assert_eq!(*threads.borrow(), [thread::current().id(); 6]);
    });
}

pub(crate) fn an_earlier_timeout_wakes_a_loop_that_sleeps<H: Host>() {
    H::run(LocalTimer::builder(), async |timer| {
        timer.schedule_detached(LONG, || ()).expect("room");
        // The loop goes to sleep with an hour to go.
        H::sleep(Duration::from_millis(20)).await;
        let has_slept = Rc::new(Cell::new(false));
        let sleeps = Rc::clone(&has_slept);
        H::spawn(async move {
            timer.sleep(Duration::from_millis(5)).await;
            sleeps.set(true);
        });
        wait_until::<H>(|| has_slept.get()).await;
    });
}

pub(crate) fn a_reset_to_earlier_wakes_a_loop_that_sleeps<H: Host>() {
    H::run(LocalTimer::builder(), async |timer| {
        let ran = Rc::new(Cell::new(false));
        let runs = Rc::clone(&ran);
        let timeout = timer.schedule(LONG, move || runs.set(true)).expect("room");
        H::sleep(Duration::from_millis(20)).await;
        assert!(timeout.reset(Duration::from_millis(5)));
        wait_until::<H>(|| ran.get()).await;
    });
}

/// Waits by the runtime's own timer.
async fn wait_until<H: Host>(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "it does not come");
        H::sleep(Duration::from_millis(1)).await;
    }
}

pub(crate) fn a_loop_with_nothing_due_is_not_woken<H: Host>() {
    let clock = CountedClock::default();
    H::run(LocalTimer::builder().clock(clock.clone()), async |timer| {
        let turns_of_a_second = async || {
            // For what still has to be done.
            H::sleep(Duration::from_millis(20)).await;
            let before = clock.0.load(Ordering::Relaxed);
            H::sleep(Duration::from_secs(1)).await;
            clock.0.load(Ordering::Relaxed) - before
        };
        // The runtime wakes for its own timer, and some of them a few times.
        let turns = turns_of_a_second().await;
        assert!(turns <= 5, "{turns} turns, and nothing is pending");
        let far = timer.schedule(LONG, || ()).expect("room");
        let turns = turns_of_a_second().await;
        assert!(turns <= 8, "{turns} turns, and nothing is due for an hour");
        assert!(far.cancel());
    });
}

pub(crate) fn the_end_of_the_loop_ends_the_engine<H: Host>() {
    let witness = Rc::new(());
    let mut left = None;
    H::run(LocalTimer::builder(), async |timer| {
        let captured = Rc::clone(&witness);
        let timeout = timer.schedule(LONG, move || drop(captured)).expect("room");
        H::sleep(Duration::from_millis(5)).await;
        left = Some((timer, timeout));
    });
    // Nothing is left if the runtime can't run here.
    if let Some((timer, timeout)) = left {
        assert!(timeout.is_cancelled());
        assert_eq!((Rc::strong_count(&witness), timer.pending()), (1, 0));
        let refused = timer.schedule(LONG, || ()).expect_err("the engine has ended");
        assert_eq!(refused.kind(), Refusal::Shutdown);
    }
}

pub(crate) fn timeouts_that_exceed_a_turn_run_in_the_next_ones<H: Host>() {
    H::run(LocalTimer::builder().expiry_limit(10), async |timer| {
        for _ in 0..95 {
            timer.schedule_detached(Duration::from_millis(2), || ()).expect("room");
        }
        wait_until::<H>(|| timer.pending() == 0).await;
        assert_eq!(timer.fired(), 95);
    });
}

pub(crate) async fn fires_while_a_task_never_rests<H: Host>(timer: LocalTimer) {
    let fired = Rc::new(Cell::new(false));
    let seen = Rc::clone(&fired);
    timer.schedule_detached(Duration::from_millis(5), move || fired.set(true)).expect("room");
    let ended = Rc::new(Cell::new(false));
    let ends = Rc::clone(&ended);
    H::spawn(async move {
        while !seen.get() {
            yield_now().await;
        }
        ends.set(true);
    });
    wait_until::<H>(|| ended.get()).await;
}
