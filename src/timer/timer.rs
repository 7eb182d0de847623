//! The timer itself: how a user makes one, and what it is made of.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::builder::Builder;
use super::engine::{Engine, Owner};
use super::error::BuildError;
use super::schedule::Target;

/// A timer engine: schedule a timeout, reset it, cancel it, from any thread.
///
/// Clones are cheap and share one engine. When the last clone is dropped, and no
/// [`Sleep`](crate::Sleep), [`TimeoutFuture`](crate::TimeoutFuture) or
/// [`Interval`](crate::Interval) of the engine is left, the workers stop, and pending timeouts are
/// dropped unrun. The drop does not wait for the workers. [`shutdown`](Self::shutdown) hands the
/// pending timeouts back.
///
/// A pending task that has captured a `Timer` or a [`Group`](crate::Group) of its own engine keeps
/// that engine alive until the task has run or is cancelled.
///
/// ```
/// use std::time::Duration;
/// use tourbillon::Timer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// let idle = timer.schedule(Duration::from_secs(30), || println!("idle for 30 s: closing"))?;
/// // At every packet:
/// if !idle.reset(Duration::from_secs(30)) {
///     return Ok(()); // it has just fired, and closes the connection: stop serving
/// }
/// // On close:
/// idle.cancel();
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Timer {
    pub(super) engine: Arc<Owner>,
}

/// The global engine of the process.
static GLOBAL: OnceLock<Timer> = OnceLock::new();

impl Timer {
    /// Returns a builder with the defaults.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().shards(2).tick_duration(Duration::from_micros(100)).build()?;
    /// assert_eq!(timer.shards(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Makes an engine with the defaults: see [`Builder`].
    ///
    /// The call allocates, and does not block. It starts no thread.
    ///
    /// ```
    /// use tourbillon::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// let same = timer.clone(); // for another thread, or another part of the program
    /// assert_eq!((timer.pending(), same.pending()), (0, 0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns [`BuildError::Wheels`] if there is no memory for the wheels, some 1 MB a shard.
    /// Every system can provide all other defaults.
    pub fn new() -> Result<Self, BuildError> {
        Self::builder().build()
    }

    /// Returns the global engine of the process.
    ///
    /// The first call makes the engine with the defaults, unless
    /// [`Builder::build_global`](crate::Builder::build_global) has made it before. It is never
    /// dropped. It is for code that needs a timer now and then and has none at hand. Its threads
    /// start with its first timeout. They do not keep the process from ending.
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
        GLOBAL.get().or_else(|| Timer::new().ok().map(|timer| GLOBAL.get_or_init(|| timer)))
    }

    /// Makes this engine the global one. Gives it back if there is one already.
    pub(super) fn set_global(self) -> Result<&'static Timer, Timer> {
        GLOBAL.set(self)?;
        Ok(Self::global())
    }

    pub(super) fn is_global(&self) -> bool {
        GLOBAL.get().is_some_and(|global| Arc::ptr_eq(&global.engine, &self.engine))
    }

    pub(super) fn new_on(engine: Arc<Engine>) -> Self {
        Self { engine: Arc::new(Owner::of(engine)) }
    }

    #[inline]
    pub(super) fn target(&self) -> Target<'_> {
        Target::of(&self.engine.shared)
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut this = f.debug_struct("Timer");
        this.field("shards", &self.shards()).field("is_shutdown", &self.is_shutdown());
        if !self.engine.shared.is_forked() {
            this.field("pending", &self.pending());
        }
        this.finish()
    }
}
