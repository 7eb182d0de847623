//! A handle that cancels when it is dropped.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;

use super::timeout::Timeout;

impl Timeout {
    /// Makes a guard that cancels the timeout when it is dropped. The call neither blocks nor
    /// allocates.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::{Timer, TimeoutGuard};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// struct Connection {
    ///     idle: TimeoutGuard,
    /// }
    ///
    /// let timer = Timer::new()?;
    /// let idle = timer.schedule(Duration::from_secs(30), || println!("idle"))?.cancel_on_drop();
    /// let connection = Connection { idle };
    /// assert!(connection.idle.reset(Duration::from_secs(30)));
    /// drop(connection); // whichever way it ends, nothing fires
    /// assert_eq!(timer.pending(), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn cancel_on_drop(self) -> TimeoutGuard {
        TimeoutGuard { timeout: ManuallyDrop::new(self) }
    }
}

/// A [`Timeout`] that cancels its timeout when it is dropped. It has all methods of the handle.
///
/// ```
/// use std::time::Duration;
/// use tourbillon::Timer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// let guard = timer.schedule(Duration::from_secs(1), || println!("slow"))?.cancel_on_drop();
/// assert!(guard.is_pending());
/// drop(guard);
/// assert_eq!(timer.pending(), 0);
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping a TimeoutGuard cancels the timeout"]
pub struct TimeoutGuard {
    timeout: ManuallyDrop<Timeout>,
}

impl TimeoutGuard {
    /// Returns the plain handle, which does not cancel when it is dropped.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// let guard = timer.schedule(Duration::from_secs(1), || println!("slow"))?.cancel_on_drop();
    /// let timeout = guard.into_timeout(); // from here on it fires also if nobody holds it
    /// assert!(timeout.is_pending());
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_timeout(self) -> Timeout {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the guard is never dropped, so the handle is taken out once.
        unsafe { ManuallyDrop::take(&mut this.timeout) }
    }
}

impl Deref for TimeoutGuard {
    type Target = Timeout;

    fn deref(&self) -> &Timeout {
        &self.timeout
    }
}

impl Drop for TimeoutGuard {
    fn drop(&mut self) {
        // SAFETY: this destructor runs once, so the handle is taken out once.
        let timeout = unsafe { ManuallyDrop::take(&mut self.timeout) };
        timeout.cancel_owned();
    }
}

impl fmt::Debug for TimeoutGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TimeoutGuard").field(&*self.timeout).finish()
    }
}
