//! Whether memory that nobody uses for a while is slow to come back.
//!
//! On some virtual machines a page that was not touched for 0.1 s or so may take 0.15 ms at the
//! next touch, and the guest's kernel counts no fault: presumably the host has taken it. The memory
//! of timeouts is not touched while they wait. So W7 is up to ten times slower then, whatever timer
//! it is. Huge pages are spared.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
const PAGES: usize = 1_600;
const WAIT: Duration = Duration::from_millis(500);

/// Milliseconds that a look at each of 1,600 pages takes: at once, and after half a second.
pub(crate) fn looks_ms() -> [f64; 2] {
    let memory = vec![1u8; PAGES * PAGE];
    let look = || {
        let since = Instant::now();
        memory.iter().step_by(PAGE).for_each(|byte| _ = black_box(*byte));
        since.elapsed().as_secs_f64() * 1e3
    };
    look();
    let at_once = look();
    thread::sleep(WAIT);
    [at_once, look()]
}
