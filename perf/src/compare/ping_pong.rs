//! The way of a cache line from one core to another and back.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

use crossbeam_utils::CachePadded;

const ROUNDS: u32 = 100_000;

/// Nanoseconds of a round trip between two threads on two cores; `None` on one core.
pub(crate) fn round_trip() -> Option<f64> {
    let cores = core_affinity::get_core_ids()?;
    let (&here, &there) = (cores.first()?, cores.get(1)?);
    let ball = CachePadded::new(AtomicU32::new(0));
    let ball = &ball;
    // Both in threads of their own, so that the pinning ends with them.
    thread::scope(|scope| {
        scope.spawn(move || {
            core_affinity::set_for_current(there);
            for round in 0..ROUNDS {
                wait_for(ball, 2 * round + 1);
                ball.store(2 * round + 2, Ordering::Release);
            }
        });
        let server = scope.spawn(move || {
            core_affinity::set_for_current(here);
            let mut since = Instant::now();
            for round in 0..ROUNDS {
                ball.store(2 * round + 1, Ordering::Release);
                wait_for(ball, 2 * round + 2);
                if round == 0 {
                    // The first waits for the other thread to start.
                    since = Instant::now();
                }
            }
            since.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS - 1)
        });
        server.join().ok()
    })
}

fn wait_for(ball: &AtomicU32, value: u32) {
    let mut spins = 0u32;
    while ball.load(Ordering::Acquire) != value {
        spins = spins.wrapping_add(1);
        // Where the pinning was refused both may sit on one core, and then spinning ends nothing.
        if spins.is_multiple_of(1 << 14) {
            thread::yield_now();
        }
        std::hint::spin_loop();
    }
}
