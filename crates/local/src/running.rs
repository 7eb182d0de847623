//! The guard of an engine that a task turns.

use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

use crate::LocalTimer;

use crate::turning::Turning;

/// An engine that a task of a runtime turns. It is the [`LocalTimer`], of which tasks take clones.
///
/// **Its drop ends the engine**, as that of a [`LocalDriver`](crate::LocalDriver) does: the
/// pending tasks are dropped unrun, the futures that sleep are ended, and new timeouts are refused.
/// A task of the engine may drop it. Then the engine ends after the turn. So keep it in the future
/// that the runtime blocks on.
#[must_use = "dropping it ends the engine"]
pub struct Running {
    timer: LocalTimer,
    turning: Rc<Turning>,
}

impl Running {
    pub(crate) fn new(timer: LocalTimer, turning: Rc<Turning>) -> Self {
        Self { timer, turning }
    }
}

impl Deref for Running {
    type Target = LocalTimer;

    fn deref(&self) -> &LocalTimer {
        &self.timer
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.turning.end();
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Running").field(&self.timer).finish()
    }
}
