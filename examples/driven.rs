//! The event loop of a thread-per-core server, which turns its timer itself: no worker thread, no
//! executor. Other threads may still schedule. A deadline that is earlier than the loop's next
//! wake-up wakes the loop.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token, Waker};
use tourbillon::Timer;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(64);
    let waker = Arc::new(Waker::new(poll.registry(), Token(0))?);

    let (timer, mut driver) = Timer::builder().tick_duration(Duration::from_micros(100)).build_driven()?;
    let wake = Arc::clone(&waker);
    driver.on_earlier(move || _ = wake.wake());

    // Another thread, which does not know that the loop sleeps for 10 s.
    timer.schedule_detached(Duration::from_secs(10), || unreachable!("the loop ends before"))?;
    let producer = timer.clone();
    let other = std::thread::spawn(move || {
        for n in 1..=3 {
            std::thread::sleep(Duration::from_millis(20));
            let asked = Instant::now();
            producer
                .schedule_detached(Duration::from_millis(5), move || {
                    println!("timeout {n} of 5 ms ran on the loop's thread after {:.2?}", asked.elapsed());
                })
                .expect("not shut down");
        }
    });

    let mut fired = 0;
    while fired < 3 {
        // Sleeps until the next deadline, and no longer.
        let sleep = driver.next_wakeup().map(|at| at.saturating_duration_since(Instant::now()));
        poll.poll(&mut events, sleep)?;
        // ... serve sockets here ...
        fired += driver.turn();
    }
    other.join().expect("the other thread does not panic");
    println!("{} still pending: handed back by shutdown: {}", timer.pending(), timer.shutdown()?.len());
    Ok(())
}
