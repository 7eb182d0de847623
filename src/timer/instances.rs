//! Counts the engines of the process. Many engines at a time are a common and costly mistake.

// Process-wide statistics, which no protocol depends on. So they do not come through `sync`.
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::events::many_engines;

/// The engine warns, once, when more than this many engines exist at a time. The number and the
/// idea are Netty's.
const MANY: usize = 64;

static LIVING: AtomicUsize = AtomicUsize::new(0);
static TOLD: AtomicBool = AtomicBool::new(false);

/// Counts an engine that begins.
pub(super) fn begin() {
    let living = LIVING.fetch_add(1, Ordering::Relaxed) + 1;
    if living > MANY && !TOLD.swap(true, Ordering::Relaxed) {
        many_engines(living, MANY);
    }
}

/// Counts it no more.
pub(super) fn end() {
    LIVING.fetch_sub(1, Ordering::Relaxed);
}
