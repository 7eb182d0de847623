//! The global engine of the process.

use std::sync::{Arc, OnceLock};

use super::timer::Timer;
use crate::sys::fork;

/// The global engine of one process, and those of its forked children.
#[derive(Default)]
struct Global {
    timer: OnceLock<Timer>,
    /// That of a child, in the child. A child has no use for its parent's: the threads are not
    /// there, and a thread of the parent may have been making it during the fork.
    child: OnceLock<Box<Global>>,
}

/// That of the first process which asked for it.
static FIRST: Global = Global { timer: OnceLock::new(), child: OnceLock::new() };

impl Global {
    /// Returns that of this process.
    fn here() -> &'static OnceLock<Timer> {
        let child = |global: &'static Self, _| &**global.child.get_or_init(Box::default);
        &(0..fork::ancestors()).fold(&FIRST, child).timer
    }
}

impl Timer {
    /// Returns the global engine of the process.
    ///
    /// The first call makes the engine with the defaults, unless
    /// [`Builder::build_global`](crate::Builder::build_global) has made it before. It is never
    /// dropped. It is for code that needs a timer now and then and has none at hand; `compat` and
    /// the free functions, such as [`sleep`](crate::sleep), use it. Its threads start with its
    /// first timeout, so a call before a fork is harmless. They do not keep the process from
    /// ending. Call this again in a forked child: it has a global engine of its own, with the
    /// defaults unless it has called `build_global`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timeout = Timer::global().schedule(Duration::from_secs(5), || println!("too late"))?;
    /// assert!(timeout.cancel());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// Panics if the first call finds no memory for the wheels: see [`new`](Self::new).
    pub fn global() -> &'static Timer {
        Self::try_global().expect("memory for the wheels of the process's own timer")
    }

    /// Returns the global engine, or `None` if there is no memory for it.
    pub(crate) fn try_global() -> Option<&'static Timer> {
        let here = Global::here();
        here.get().or_else(|| Timer::new().ok().map(|timer| here.get_or_init(|| timer)))
    }

    /// Makes this engine the global one. Gives it back if there is one already.
    pub(super) fn set_global(self) -> Result<&'static Timer, Timer> {
        Global::here().set(self)?;
        Ok(Self::global())
    }

    pub(super) fn is_global(&self) -> bool {
        Global::here().get().is_some_and(|global| Arc::ptr_eq(&global.owner, &self.owner))
    }
}
