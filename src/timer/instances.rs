//! How many engines live: many at a time are a mistake that is easily made, and dear.

// Process-wide, and nothing that a protocol depends on: not through `sync`.
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::events::many_engines;

/// More than so many engines at a time are said to be too many, once. (The number, and the idea, are Netty's.)
const MANY: usize = 64;

static LIVING: AtomicUsize = AtomicUsize::new(0);
static TOLD: AtomicBool = AtomicBool::new(false);

/// Counts one engine as long as it is there.
#[derive(Debug)]
pub(super) struct Instance;

impl Instance {
    pub(super) fn begin() -> Self {
        let living = LIVING.fetch_add(1, Ordering::Relaxed) + 1;
        if living > MANY && !TOLD.swap(true, Ordering::Relaxed) {
            many_engines(living, MANY);
        }
        Self
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        LIVING.fetch_sub(1, Ordering::Relaxed);
    }
}
