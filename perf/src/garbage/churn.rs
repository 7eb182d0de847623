//! Threads that cancel the oldest of their live timeouts for each new one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tourbillon::{Timeout, Timer};

const DELAY: Duration = Duration::from_secs(1_000);

/// How often a thread looks whether it is over.
const STEPS: u64 = 64;

/// The engine must not have memory for more timeouts than this, beyond those that are live. 16,384
/// cancelled timeouts may wait, and as many again may be in the worker's hands. A chunk of 32,768
/// may just have been begun. The rest is for 64 timeouts a thread and 20 ms while the worker gets
/// no processor.
const SLACK: usize = 2 * 16_384 + 32_768 + 16_384;

/// How many threads, each with how many live timeouts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Churn {
    pub(crate) producers: usize,
    pub(crate) live: usize,
    /// Whether they reset each timeout to an earlier deadline before they cancel it.
    pub(crate) resets: bool,
}

/// What came of it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Outcome {
    /// Timeouts that were scheduled, and as many cancelled, but for those that are live.
    pub(crate) steps: u64,
    /// The longest that a schedule took.
    pub(crate) longest: Duration,
    /// Cancels that answered false, though nothing was due.
    pub(crate) lost: u64,
}

impl Churn {
    pub(crate) fn live(self) -> usize {
        self.producers * self.live
    }

    /// For how many timeouts the engine may have memory. A queued reset takes two entries: that of
    /// the timeout, and the node that names it.
    pub(crate) fn bound(self) -> usize {
        self.live() + if self.resets { 2 * SLACK } else { SLACK }
    }

    /// Goes on until `is_over`, and calls `watch` meanwhile. What is live is cancelled in the end.
    pub(crate) fn run(self, timer: &Timer, is_over: &AtomicBool, watch: impl FnOnce()) -> Outcome {
        thread::scope(|scope| {
            let producers: Vec<_> =
                (0..self.producers).map(|_| scope.spawn(move || self.go_round(timer, is_over))).collect();
            watch();
            let outcomes = producers.into_iter().filter_map(|producer| producer.join().ok());
            outcomes.fold(Outcome::default(), |sum, one| Outcome {
                steps: sum.steps + one.steps,
                longest: sum.longest.max(one.longest),
                lost: sum.lost + one.lost,
            })
        })
    }

    fn go_round(self, timer: &Timer, is_over: &AtomicBool) -> Outcome {
        let mut ring: VecDeque<Timeout> = VecDeque::with_capacity(self.live + 1);
        let mut outcome = Outcome::default();
        while !is_over.load(Ordering::Relaxed) {
            for _ in 0..STEPS {
                let begin = Instant::now();
                let Ok(timeout) = timer.schedule(DELAY, || ()) else { return outcome };
                outcome.longest = outcome.longest.max(begin.elapsed());
                ring.push_back(timeout);
                if ring.len() > self.live
                    && let Some(oldest) = ring.pop_front()
                {
                    let is_lost = self.resets && !oldest.reset(DELAY / 2);
                    outcome.lost += u64::from(is_lost || !oldest.cancel());
                }
            }
            outcome.steps += STEPS;
        }
        outcome.lost += ring.iter().filter(|timeout| !timeout.cancel()).count() as u64;
        outcome
    }
}
