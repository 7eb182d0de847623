//! A handle as a pointer, for languages that know only those.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use super::timeout::Timeout;

impl Timeout {
    /// Turns the handle into a pointer, which code in another language can keep.
    ///
    /// The pointer is opaque: nobody may read through it. [`from_raw`](Self::from_raw) makes the
    /// handle again. A pointer that is never given back leaks the 64 bytes of the timeout. The call
    /// neither blocks nor allocates.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::{Timeout, Timer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// let raw = timer.schedule(Duration::from_secs(30), || println!("idle"))?.into_raw();
    /// // SAFETY: the pointer comes from `into_raw`, and is used up here.
    /// let idle = unsafe { Timeout::from_raw(raw) };
    /// assert!(idle.cancel());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "a pointer that does not go back to `from_raw` leaks the timeout's memory"]
    pub fn into_raw(self) -> NonNull<()> {
        ManuallyDrop::new(self).handle.address().cast()
    }

    /// Makes the handle again from its pointer. The call neither blocks nor allocates.
    ///
    /// To use a handle without taking it over, wrap the result in a [`ManuallyDrop`]. Several
    /// threads may do so at a time, as they may share a `&Timeout`.
    ///
    /// # Safety
    /// The pointer comes from [`into_raw`](Self::into_raw). At most one of the handles that are
    /// made from it is dropped or used by value, and nothing uses the pointer or another such
    /// handle from then on.
    pub unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: `into_raw` took the address from a handle, and did not drop it. The caller makes
        // sure that only one handle gives up what that one owned.
        unsafe { Self::new(raw.cast()) }
    }
}
