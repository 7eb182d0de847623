//! Timeouts that survive the process: keyed, resettable, and milliseconds late. An order that is
//! closed after 30 minutes, a session that ends tomorrow, a check in a year.
//!
//! ```
//! use std::time::Duration;
//! use tourbillon::Timer;
//! use tourbillon_durable::{DurableTimer, Outcome};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("timeouts.db");
//! # let path = path.to_str().unwrap();
//! let timer = Timer::new()?;
//! let timers = DurableTimer::open(path)? // or "postgres://…"
//!     .handler("close_order", |due| {
//!         println!("{} was not paid in time", due.key());
//!         Outcome::Done
//!     })
//!     .start(&timer)?;
//! // Returns once it is on disk.
//! timers.schedule("order:42", Duration::from_secs(1800), "close_order", b"")?.wait()?;
//! // The customer is still there; then the customer has paid.
//! timers.reset("order:42", Duration::from_secs(1800))?.wait()?;
//! timers.cancel("order:42")?.wait()?;
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//!
//! ```text
//! callers             writer (one thread)                     store             handlers
//! ───────             ───────────────────                     ─────             ────────
//! schedule ─► inbox ─► a turn:
//! reset               1 claim what has come up ─────────────► (fsync) ────────► threads
//! cancel              2 commit the ends of runs and           fsync                │
//!    ▲                  the calls of all callers ───────────►                      │
//!    └──── answers ◄──────┘ arm what comes up soon                                 │
//!                     3 each 15 s: take what comes up in                           │
//!                       the next 30 s into the wheel ◄─────── rows                 │
//!                     4 each 250 ms: what others have                              │
//!                       committed within those 30 s ◄──────── rows                 │
//!                     5 renew the lease                                            │
//!          inbox ◄── the engine's wheel: it has come up                            │
//!          inbox ◄───────────────────────────────────── ended: delete, or retry ◄──┘
//! ```
//!
//! A timeout that is due beyond the window is on disk only. One that is due inside it is in the
//! wheel of one process, which owns its row. A process that schedules a timeout inside the window
//! writes its row as owned by itself. So nobody has to be told. A look each 250 ms finds timeouts
//! that others commit into the window, such as those of a [transaction of your own](transaction).
//!
//! # Guarantees
//!
//! 1. **An answered write is on disk.** [`Commit::wait`] returns after the fsync of its commit.
//! 2. **Never early** by the wall clock of the process that runs it. If the clock jumps, a timeout
//!    is late at worst.
//! 3. **At least once, and once for each claim.** A (key, generation, attempt) is handed to at most
//!    one handler. A second attempt is made after a retry, a panic, a crash, or the end of a lease.
//!    Timeouts that were claimed when their process died run one at a time afterwards, until it is
//!    known which run ends processes. The numbers hold as long as the store keeps what it has
//!    committed. After a power loss SQLite may give the last claims once more with the same
//!    numbers, and so may PostgreSQL after a failover to a replica that was behind.
//! 4. **One owner.** A process that was silent for its lease loses its timeouts to the others. If
//!    it comes back, the ends of its runs match no row.
//! 5. **A true [`cancel`](DurableTimer::cancel) is final.** No claim of that timeout comes after
//!    it.
//! 6. **The last write of a key wins.** A key has one row.
//! 7. **One holds up no other.** A row that somebody has locked or that can't be read, a call that
//!    the store can't carry out, a handler that hangs: the others go on.
//! 8. **An answer in time.** A call has its answer within [`Builder::commit_timeout`], whatever the
//!    store does.
//!
//! It does not promise an order among timeouts, nor a bound on lateness.
//!
//! # Seeing
//!
//! An [`Operator`] lists, counts and cancels timeouts beside the processes that run them: what is
//! overdue, what has no handler, what a customer has, and what is dead. The program
//! `tourbillon-durable`, with the feature `cli`, does so from a shell.
//!
//! # What it leaves out
//!
//! Cron expressions, workflows, priorities, a user interface. A payload is at most 1 MiB; better it
//! is a name.

#[cfg(not(any(feature = "postgres", feature = "sqlite")))]
compile_error!("tourbillon-durable needs a store: the feature `sqlite` or `postgres`");

mod builder;
mod clock;
mod commit;
mod due;
mod error;
mod events;
mod handlers;
mod inbox;
#[cfg(feature = "metrics")]
pub mod metrics;
mod migrations;
#[cfg(all(test, feature = "sqlite"))]
mod model;
mod open;
mod operator;
mod options;
mod panics;
mod retry;
mod stats;
mod store;
mod timers;
pub mod transaction;
mod window;
mod writer;

pub use builder::Builder;
pub use clock::WallClock;
pub use commit::Commit;
pub use due::{DeadLetter, Due, Outcome, Pending, Scheduled};
pub use error::{CommitError, OpenError, Refused, StartError};
pub use events::Event;
pub use handlers::RunFuture;
pub use migrations::{Dialect, migrations};
pub use operator::{Cancelled, DeadLetterRow, Filter, HandlerRow, Operator, OperatorError, ProcessRow, TimeoutRow};
pub use options::HandlerOptions;
pub use retry::RetryPolicy;
pub use stats::Stats;
pub use timers::DurableTimer;

/// The program of the README compiles.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../README.md")]
struct Readme;
