//! Tests that move the clock by hand. No test waits, and each finds its timeouts fired or pending
//! for certain.
//!
//! ```toml
//! [dependencies]
//! tokio = { version = "1.49", features = ["macros", "rt"] }
//! tourbillon = { path = "../tourbillon", features = ["tokio"] }
//!
//! [dev-dependencies]
//! tourbillon = { path = "../tourbillon", features = ["test-util"] }
//! ```
//!
//! Each function but those under test is a test of yours with `#[test]` above it, or
//! `#[tokio::test(start_paused = true)]`. Here `main` calls them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tourbillon::compat::tokio as time;
use tourbillon::{ManualClock, ScheduleError, TimeoutGuard, Timer};

use time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// To be tested: a lease that ends after 30 seconds unless it is renewed.
struct Lease {
    idle: TimeoutGuard,
}

impl Lease {
    fn begin<F>(timer: &Timer, end: F) -> Result<Self, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        Ok(Self { idle: timer.schedule(30 * SECOND, end)?.cancel_on_drop() })
    }

    fn renew(&self) -> bool {
        self.idle.reset(30 * SECOND)
    }
}

/// To be tested: gives a peer five seconds.
async fn ask(peer: impl Future<Output = &'static str>) -> Option<&'static str> {
    time::timeout(5 * SECOND, peer).await.ok()
}

/// To be tested: tries until a peer answers, with pauses that grow. Returns how often.
async fn persist(timer: &Timer, mut answers: impl FnMut() -> bool) -> u32 {
    let mut tries = 1;
    while !answers() {
        timer.sleep(SECOND * tries).await;
        tries += 1;
    }
    tries
}

/// Returns a counter, and a task that counts its runs.
fn counter() -> (Arc<AtomicU32>, impl Fn() + Send + 'static) {
    let runs = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&runs);
    (runs, move || _ = count.fetch_add(1, Ordering::Relaxed))
}

fn a_lease_ends_unless_it_is_renewed() {
    let clock = ManualClock::new();
    let timer = Timer::builder().clock(clock.clone()).build().expect("the options make sense");
    let (ends, end) = counter();
    let lease = Lease::begin(&timer, end).expect("the engine is not shut down");
    clock.advance(20 * SECOND);
    assert!(lease.renew());
    clock.advance(30 * SECOND - Duration::from_nanos(1));
    assert_eq!(ends.load(Ordering::Relaxed), 0);
    // Returns when all that is due has run, on whichever thread.
    clock.advance(Duration::from_nanos(1));
    assert_eq!(ends.load(Ordering::Relaxed), 1);
    assert!(!lease.renew());
}

/// `advance` goes to the end at once, and a series has then missed all runs but one.
/// `advance_through` goes from deadline to deadline.
fn a_periodic_job_runs_as_often_as_it_would() {
    let clock = ManualClock::new();
    let timer = Timer::builder().clock(clock.clone()).build().expect("the options make sense");
    let (runs, job) = counter();
    let _job = timer.schedule_at_fixed_rate(SECOND, SECOND, job).expect("the engine is not shut down");
    clock.advance_through(60 * SECOND);
    assert_eq!(runs.load(Ordering::Relaxed), 60);
    clock.advance(60 * SECOND);
    assert_eq!(runs.load(Ordering::Relaxed), 61);
}

/// The futures of a `Timer` go by its clock. The task runs until it waits, and then the clock goes
/// to the next deadline. `advance_through` might pass a sleep that the task has not made yet.
#[tokio::main(flavor = "current_thread")] // #[tokio::test]
async fn a_client_persists_with_growing_pauses() {
    let clock = ManualClock::new();
    let timer = Timer::builder().clock(clock.clone()).build().expect("the options make sense");
    let (begun, its, mut peer) = (timer.now(), timer.clone(), [false, false, false, true].into_iter());
    let client = tokio::spawn(async move { persist(&its, || peer.next() == Some(true)).await });
    while !client.is_finished() {
        tokio::task::yield_now().await;
        clock.advance_to_next(&timer);
    }
    assert_eq!(client.await.expect("it does not panic"), 4);
    assert_eq!(timer.now() - begun, (1 + 2 + 3) * SECOND);
}

/// For a single step, wait until as many futures are pending as there should be.
#[tokio::main(flavor = "current_thread")] // #[tokio::test]
async fn three_clients_wait_a_second() {
    let clock = ManualClock::new();
    let timer = Timer::builder().clock(clock.clone()).build().expect("the options make sense");
    let clients = [(); 3].map(|()| tokio::spawn(timer.sleep(SECOND)));
    while timer.pending() < clients.len() {
        tokio::task::yield_now().await;
    }
    clock.advance(SECOND - Duration::from_nanos(1));
    assert_eq!(timer.pending(), 3);
    clock.advance(Duration::from_nanos(1));
    for client in clients {
        client.await.expect("it does not panic");
    }
}

/// An idle runtime goes to the next deadline by itself. Without the feature `test-util` this would
/// panic, as our futures would go by the real time.
#[tokio::main(flavor = "current_thread", start_paused = true)] // #[tokio::test(start_paused = true)]
async fn a_peer_has_five_seconds() {
    let begun = Instant::now();
    let peer = async |after| {
        time::sleep(after).await;
        "an answer"
    };
    assert_eq!(ask(peer(4 * SECOND)).await, Some("an answer"));
    assert_eq!(ask(peer(DAY)).await, None);
    assert_eq!(begun.elapsed(), 9 * SECOND);
}

fn main() {
    a_lease_ends_unless_it_is_renewed();
    a_periodic_job_runs_as_often_as_it_would();
    a_client_persists_with_growing_pauses();
    three_clients_wait_a_second();
    a_peer_has_five_seconds();
    println!("five tests have passed, and two and a half minutes of their clocks");
}
