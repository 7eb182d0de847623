//! Timers for one thread: of an event loop, or of a runtime that has one for each core. Tasks and
//! futures need not be `Send`, nothing is shared, and a `cancel` takes the timeout out of its slot
//! at once. It is [`Timer`](tourbillon::Timer) without a thread, on [`tourbillon_wheel`].
//!
//! [`LocalTimer`] schedules, and the loop turns the [`LocalDriver`]. With these features the loop
//! is a runtime's own, so there is no other thread, no lock, and no wait but the runtime's:
//!
//! | runtime | feature | how |
//! |---|---|---|
//! | monoio | `monoio` | `monoio::start` spawns a task that turns the engine |
//! | compio | `compio` | `compio::block_on` is the runtime's loop with the turn in it |
//! | glommio | `glommio`, on Linux | `glommio::start` spawns a task that turns the engine |
//!
#![cfg_attr(
    feature = "compio",
    doc = "
```
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tourbillon_local::LocalTimer;

# fn main() -> Result<(), Box<dyn std::error::Error>> {
let runtime = compio::runtime::Runtime::new()?;
let (timer, mut driver) = LocalTimer::builder().build()?;
let closed = Rc::new(Cell::new(false)); // not `Send`
let closes = Rc::clone(&closed);
tourbillon_local::compio::block_on(&runtime, &mut driver, async move {
    let idle = timer.schedule(Duration::from_millis(2), move || closes.set(true))?;
    assert!(idle.reset(Duration::from_millis(5))); // at each packet
    timer.sleep(Duration::from_millis(20)).await;
    Ok::<(), Box<dyn std::error::Error>>(())
})?;
assert!(closed.get());
# Ok(())
# }
```
"
)]
//! # What it costs
//!
//! A round of the loop with nothing due makes no system call and allocates nothing. An engine with
//! nothing pending wakes nobody.
//!
//! A call touches the timeout's own entry and a cell of the wheel, and no other timeout. It
//! allocates if the task captures more than 24 bytes, and now and then for entries and cells.
//!
//! compio's loop waits for the engine's next wake-up as it waits for the runtime's own timers. It
//! reads the clock for it twice a round, and once more in a round that turns it. monoio and glommio
//! don't lend their loops. There a task waits for **one** timer of the runtime, until the engine's
//! next wake-up. An earlier timeout wakes the task. So the runtime's timer is set once for each
//! wake-up of the engine, however many timeouts are pending, and no `reset` to a later deadline
//! touches it.
//!
//! # Lateness
//!
//! With compio a timeout is as late as with any loop that turns its engine: see
//! [`LocalDriver`]. With the others the runtime's timer comes first:
//!
//! * monoio's has a resolution of a millisecond, and rounds up. And monoio looks at its timers only
//!   when no task is ready to run. A task that wakes itself without end keeps all timers from
//!   firing, monoio's and these.
//! * glommio looks at its timers in each round of its loop. A task that does not yield delays them.
//!
//! # The end
//!
//! compio: the caller has the [`LocalDriver`], whose drop ends the engine.
//! monoio and glommio: the drop of `Running`. It ends with the future that has called `start`, if
//! it is a local variable there, and so with the runtime. These two runtimes don't drop a task that
//! waits when they end. So a driver inside a task would never be dropped.
//!
//! # Echo servers
//!
//! `examples/echo` has an echo server with an idle timeout for each runtime, and measures it with
//! the runtime's timers and with these.

#![deny(unsafe_code)]

mod builder;
#[cfg(feature = "compio")]
pub mod compio;
mod driver;
mod engine;
mod error;
#[cfg(all(feature = "glommio", target_os = "linux"))]
pub mod glommio;
mod limit;
#[cfg(feature = "monoio")]
pub mod monoio;
#[cfg(any(feature = "monoio", all(feature = "glommio", target_os = "linux")))]
mod running;
mod slab;
mod sleep;
mod task;
mod ticks;
mod timeout;
mod timer;
#[cfg(any(feature = "monoio", all(feature = "glommio", target_os = "linux")))]
mod turning;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use builder::LocalBuilder;
pub use driver::LocalDriver;
pub use error::ScheduleError;
pub use limit::{Elapsed, LocalTimeoutFuture};
#[cfg(any(feature = "monoio", all(feature = "glommio", target_os = "linux")))]
pub use running::Running;
pub use sleep::LocalSleep;
pub use timeout::LocalTimeout;
pub use timer::LocalTimer;
pub use tourbillon::{BuildError, Refusal};
