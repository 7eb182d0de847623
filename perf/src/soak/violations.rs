//! Promises that were broken: shown at once, and counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// More than these are counted only.
const SHOWN: usize = 50;

/// All of a run.
#[derive(Debug)]
pub(crate) struct Violations {
    seed: u64,
    count: AtomicU64,
    kept: Mutex<Vec<String>>,
    quiet: bool,
}

impl Violations {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, count: AtomicU64::new(0), kept: Mutex::new(Vec::new()), quiet: cfg!(test) }
    }

    pub(crate) fn add(&self, what: &str) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < SHOWN {
            let text = format!("VIOLATION (seed {}): {what}", self.seed);
            if !self.quiet {
                eprintln!("{text}");
            }
            kept.push(text);
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn kept(&self) -> Vec<String> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
