//! The way of a cache line from one core to another and back.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

use crossbeam_utils::CachePadded;

const ROUNDS: u32 = 100_000;

/// Nanoseconds of a round trip between two threads on two cores; `None` on one core.
pub(crate) fn round_trip() -> Option<f64> {
    round_trip_with(ROUNDS, |_| 0)
}

/// The same over so many rounds. Each thread does `work` with what it has received before it sends
/// the ball back, and sends what that returns with it, which has to be nothing.
pub(crate) fn round_trip_with(rounds: u32, work: impl Fn(u32) -> u32 + Sync) -> Option<f64> {
    let cores = core_affinity::get_core_ids()?;
    let (&here, &there) = (cores.first()?, cores.get(1)?);
    let ball = CachePadded::new(AtomicU32::new(0));
    let (ball, work) = (&ball, &work);
    // Both in threads of their own, so that the pinning ends with them.
    thread::scope(|scope| {
        scope.spawn(move || {
            core_affinity::set_for_current(there);
            for round in 0..rounds {
                let received = wait_for(ball, 2 * round + 1);
                ball.store(2 * round + 2 + work(received), Ordering::Release);
            }
        });
        let server = scope.spawn(move || {
            core_affinity::set_for_current(here);
            let (mut since, mut received) = (Instant::now(), 0);
            for round in 0..rounds {
                ball.store(2 * round + 1 + work(received), Ordering::Release);
                received = wait_for(ball, 2 * round + 2);
                if round == 0 {
                    // The first waits for the other thread to start.
                    since = Instant::now();
                }
            }
            since.elapsed().as_secs_f64() * 1e9 / f64::from(rounds - 1)
        });
        server.join().ok()
    })
}

fn wait_for(ball: &AtomicU32, value: u32) -> u32 {
    let mut spins = 0u32;
    loop {
        let received = ball.load(Ordering::Acquire);
        if received == value {
            // The compiler knows it, and shall not.
            return black_box(received);
        }
        spins = spins.wrapping_add(1);
        // Where the pinning was refused both may sit on one core, and then spinning ends nothing.
        if spins.is_multiple_of(1 << 14) {
            thread::yield_now();
        }
        std::hint::spin_loop();
    }
}
