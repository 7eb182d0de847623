//! The user's handlers, and what runs them.

mod futures;
mod lease;
mod run;
mod runners;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use self::futures::RunFuture;
pub(crate) use self::futures::{AsyncHandler, Polled};
pub(crate) use self::lease::Lease;
pub(crate) use self::run::{Run, Surroundings, is_runner};
pub(crate) use self::runners::Runners;
use crate::due::{Due, Outcome};
use crate::retry::RetryPolicy;

/// The user's function of a handler: it blocks a thread, or is async.
#[derive(Clone)]
pub(crate) enum Call {
    Blocks(Arc<dyn Fn(Due) -> Outcome + Send + Sync>),
    Waits(Arc<AsyncHandler>),
}

/// A handler of this process.
pub(crate) struct Handler {
    pub(crate) call: Call,
    /// So many runs of it go on at the same time.
    pub(crate) limit: usize,
    /// Claimed rows that may run or wait for their turn, however short the runs are.
    pub(crate) max_running: usize,
    pub(crate) max_attempts: u32,
    pub(crate) retry: RetryPolicy,
    pub(crate) paused: AtomicBool,
}

impl Handler {
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::SeqCst)
    }
}

/// The names that may be scheduled.
#[derive(Default)]
pub(crate) struct Handlers {
    /// `None` for those of other processes.
    by_name: BTreeMap<Arc<str>, Option<Arc<Handler>>>,
    /// Whether a handler was paused or resumed, and the writer does not know yet.
    switched: AtomicBool,
}

impl Handlers {
    pub(crate) fn insert(&mut self, name: &str, handler: Option<Handler>) {
        self.by_name.insert(name.into(), handler.map(Arc::new));
    }

    /// Returns the name as it is kept, if it may be scheduled.
    pub(crate) fn name(&self, name: &str) -> Option<Arc<str>> {
        self.by_name.get_key_value(name).map(|(name, _)| Arc::clone(name))
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.by_name.keys().map(ToString::to_string).collect()
    }

    /// Those that run in this process, with their names.
    pub(crate) fn here(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<Handler>)> {
        self.by_name.iter().filter_map(|(name, handler)| Some((name, handler.as_ref()?)))
    }

    /// The names of those that this process has and that are not paused.
    pub(crate) fn not_paused(&self) -> Vec<String> {
        self.here().filter(|(_, handler)| !handler.is_paused()).map(|(name, _)| name.to_string()).collect()
    }

    /// Pauses a handler or has it go on. Returns whether it was paused before, or `None` if this
    /// process has no such handler.
    pub(crate) fn pause(&self, name: &str, paused: bool) -> Option<bool> {
        let before = self.get(name)?.paused.swap(paused, Ordering::SeqCst);
        self.switched.store(true, Ordering::SeqCst);
        Some(before)
    }

    /// Whether a handler was paused or resumed since the last call.
    pub(crate) fn take_switched(&self) -> bool {
        self.switched.swap(false, Ordering::SeqCst)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Handler>> {
        self.by_name.get(name)?.as_ref()
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
