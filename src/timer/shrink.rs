//! Memory that no timeout uses goes back to the system.

use super::Timer;

impl Timer {
    /// Gives memory that no timeout uses back to the system, and returns how many bytes. Use it
    /// after a spike.
    ///
    /// Memory goes back by pages, usually of 64 timeouts. A page stays as long as one of its
    /// timeouts is pending, or has a handle, or is one of the free entries that each thread keeps
    /// (up to 192, and a worker 128 more). Memory that
    /// [`Builder::capacity`](crate::Builder::capacity) reserved stays, too. The engine takes the
    /// memory again when it needs it. Timeouts that are scheduled during the call may take new
    /// memory.
    ///
    /// The call takes some nanoseconds for each free entry. It takes no lock, and allocates two
    /// bytes for each page of the engine. It does nothing on systems other than Linux. It does
    /// nothing in a child process that was forked off after the engine was made.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// // ... at night, when the day's connections have gone:
    /// println!("{} bytes given back", timer.shrink());
    /// # Ok(())
    /// # }
    /// ```
    pub fn shrink(&self) -> usize {
        self.engine.shared.shrink()
    }
}
