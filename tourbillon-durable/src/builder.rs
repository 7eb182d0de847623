//! The options, and the start.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tourbillon::Timer;

use crate::clock::{SystemClock, WallClock};
use crate::due::{Due, Outcome};
use crate::error::{OpenError, StartError};
use crate::handlers::{Handlers, Lease, Runners, Surroundings};
use crate::inbox::Inbox;
use crate::stats::Counters;
use crate::store::{Owner, Store};
use crate::timers::DurableTimer;
use crate::window::Window;
use crate::writer::{Limits, Parts, Writer};

/// The options of a [`DurableTimer`]. [`DurableTimer::open`] makes it, and [`start`](Self::start)
/// starts it.
///
/// ```
/// use std::time::Duration;
/// use tourbillon_durable::{DurableTimer, Outcome};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("timeouts.db");
/// # let path = path.to_str().unwrap();
/// let timer = tourbillon::Timer::new()?;
/// let timers = DurableTimer::open(path)?
///     .handler("close_order", |due| {
///         println!("{} was not paid in time", due.key());
///         Outcome::Done
///     })
///     .threads(4)
///     .max_attempts(5)
///     .start(&timer)?;
/// timers.schedule("order:42", Duration::from_secs(1800), "close_order", b"")?.wait()?;
/// # Ok(())
/// # }
/// ```
pub struct Builder {
    store: Opened,
    handlers: Handlers,
    /// The first name that was refused.
    refused_name: Option<String>,
    threads: usize,
    window: Duration,
    window_capacity: usize,
    lease: Duration,
    max_attempts: u32,
    queue_capacity: usize,
    overdue_per_second: u32,
    wall: Arc<dyn WallClock>,
}

/// A store that no writer has yet.
struct Opened(Option<Box<dyn Store>>);

impl Drop for Opened {
    /// Closes it on a thread of its own: a PostgreSQL client waits by a runtime, which an async
    /// caller's thread would refuse with a panic.
    fn drop(&mut self) {
        let Some(store) = self.0.take() else { return };
        thread::scope(|scope| drop(scope.spawn(|| drop(store))));
    }
}

impl DurableTimer {
    /// Opens a store, makes or migrates its tables, and returns the options.
    ///
    /// `location` is the path of an SQLite file, which is made if it is not there, or the URL of a
    /// PostgreSQL database: `postgres://user:password@host:port/database`. The connection to
    /// PostgreSQL is not encrypted; see [`connect`](Self::connect) for one that is. Blocks.
    ///
    /// A file belongs to one process, and a lock on the file `<path>-lock` beside it says so. That
    /// file stays, and means nothing without a lock. Any number of processes share a database.
    ///
    /// # Errors
    ///
    /// [`OpenError::InUse`] if the file belongs to somebody, [`OpenError::NewerSchema`] if a later
    /// version of this crate has written it, and [`OpenError::Store`] for all that the store says.
    pub fn open(location: &str) -> Result<Builder, OpenError> {
        if location.starts_with("postgres://") || location.starts_with("postgresql://") {
            return open_postgres(location);
        }
        // Not a path, and with a password in it perhaps.
        if location.contains("://") {
            return Err(OpenError::Store {
                location: without_password(location),
                reason: "a URL begins with postgres:// or postgresql://, and all else is the path of a file".to_owned(),
            });
        }
        if location.is_empty() || location.starts_with(':') || location.starts_with("file:") {
            return Err(OpenError::Store {
                location: format!("{location:?}"),
                reason: "it is no path of a file: SQLite would keep it in memory, or unlocked".to_owned(),
            });
        }
        open_sqlite(location)
    }

    /// Opens a PostgreSQL database by a function that connects to it: with TLS, for example. With
    /// the feature `postgres`.
    ///
    /// It is called for two connections now, and again whenever one was lost. Let it set timeouts
    /// for the connect, for what TCP has sent (`tcp_user_timeout`) and for silence (`keepalives`),
    /// as `open` does: a server that goes without a word would else hold everything up, and a
    /// [`stop`](Self::stop) too.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    #[cfg(feature = "postgres")]
    pub fn connect(
        connect: impl FnMut() -> Result<postgres::Client, postgres::Error> + Send + 'static,
    ) -> Result<Builder, OpenError> {
        let store = crate::store::postgres::PostgresStore::open("PostgreSQL", Box::new(connect))?;
        Ok(Builder::new(Box::new(store)))
    }
}

impl Builder {
    fn new(store: Box<dyn Store>) -> Self {
        Self {
            store: Opened(Some(store)),
            handlers: Handlers::default(),
            refused_name: None,
            threads: 8,
            window: Duration::from_secs(30),
            window_capacity: 200_000,
            lease: Duration::from_secs(60),
            max_attempts: 20,
            queue_capacity: 100_000,
            overdue_per_second: 5_000,
            wall: Arc::new(SystemClock),
        }
    }

    /// Runs `handler` for each timeout that was scheduled with this `name`, on one of the
    /// [`threads`](Self::threads). It may block.
    ///
    /// A timeout may run more than once: after a crash, and after a lease has ended. So a handler
    /// does what may be done twice, or passes its fencing token on: see [`Due`].
    ///
    /// A handler that schedules needs a [`DurableTimer`], which holds the handler. So the last
    /// handle is never dropped: give it one by a `OnceLock`, and call [`stop`](DurableTimer::stop).
    ///
    /// Names are in the rows. A timeout whose handler no process has waits for one, without a word.
    /// So keep a handler for as long as rows have its name. A name is 1 to 255 bytes without
    /// control characters. The last handler of a name wins.
    #[must_use]
    pub fn handler(mut self, name: &str, handler: impl Fn(Due) -> Outcome + Send + Sync + 'static) -> Self {
        self.check_name(name);
        self.handlers.insert(name, Some(Arc::new(handler)));
        self
    }

    /// Lets this process schedule timeouts with this `name`, whose handler other processes have.
    ///
    /// Those learn of such a timeout by their next scan. So it may be late by half of their
    /// [`window`](Self::window).
    #[must_use]
    pub fn elsewhere(mut self, name: &str) -> Self {
        self.check_name(name);
        if self.handlers.name(name).is_none() {
            self.handlers.insert(name, None);
        }
        self
    }

    /// How many threads run handlers. By default 8.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// How long before its deadline a timeout is loaded into the wheel. By default 30 s.
    ///
    /// Each half of it the store is asked once for what comes up. So a longer window asks less, and
    /// holds more in memory.
    #[must_use]
    pub fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// How many timeouts are in the wheel at most, but for those that are due within a second while
    /// handlers keep up. By default 200,000, of some 250 bytes each.
    #[must_use]
    pub fn window_capacity(mut self, timeouts: usize) -> Self {
        self.window_capacity = timeouts;
        self
    }

    /// How long this process may be silent before others take its timeouts over. By default 60 s.
    ///
    /// Others notice by their next scan, half of their [`window`](Self::window) later at most. The
    /// lease is renewed when half of it is over. A shorter one finds a dead process sooner, and
    /// takes a process that is only slow for dead more often.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How many times a timeout is tried before it becomes a dead letter. By default 20. A process
    /// that dies in a run has tried.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// How many calls may wait to be written. By default 100,000. Their payloads may take 64 MiB,
    /// whatever this says. More is refused with [`Refused::QueueFull`](crate::Refused::QueueFull).
    #[must_use]
    pub fn queue_capacity(mut self, calls: usize) -> Self {
        self.queue_capacity = calls;
        self
    }

    /// How many timeouts a second are run of those that came up while no process was there. By
    /// default 5,000. So a restart does not run all of them at once.
    #[must_use]
    pub fn overdue_per_second(mut self, timeouts: u32) -> Self {
        self.overdue_per_second = timeouts;
        self
    }

    /// Goes by another wall clock than the system's: for tests.
    #[must_use]
    pub fn clock(mut self, clock: impl WallClock) -> Self {
        self.wall = Arc::new(clock);
        self
    }

    /// Starts the threads, and loads what comes up. The `timer` is the engine whose wheel it uses;
    /// the rest of the program may use it as well. If that is shut down, nothing comes up any more.
    ///
    /// # Errors
    ///
    /// [`StartError::Option`] if an option can't work, and [`StartError::Thread`] if the system
    /// gives no thread.
    pub fn start(self, timer: &Timer) -> Result<DurableTimer, StartError> {
        self.check()?;
        let inbox = Arc::new(Inbox::new(self.queue_capacity));
        let handlers = Arc::new(self.handlers.clone());
        let counters = Arc::new(Counters::new());
        let name = "tb-durable".to_owned();
        let (spare, wall) = (Arc::clone(&inbox), Arc::clone(&self.wall));
        let parts = self.parts(timer, &inbox, &handlers, &counters)?;
        let writer = thread::Builder::new().name(name).spawn(move || Writer::new(parts).run())?;
        Ok(DurableTimer::new(spare, handlers, counters, wall, writer))
    }

    fn parts(
        mut self,
        timer: &Timer,
        inbox: &Arc<Inbox>,
        handlers: &Arc<Handlers>,
        counters: &Arc<Counters>,
    ) -> Result<Parts, StartError> {
        let store = self.store.0.as_mut().expect("only this takes it");
        store.set_clock(Arc::clone(&self.wall)).map_err(|failure| StartError::Option {
            option: "clock",
            value: format!("refused with {failure:?}"),
            right: "the store takes it once",
        })?;
        let lease = Arc::new(Lease::default());
        let surroundings = Surroundings {
            inbox: Arc::clone(inbox),
            lease: Arc::clone(&lease),
            wall: Arc::clone(&self.wall),
            counters: Arc::clone(counters),
        };
        let runners = Runners::start(self.threads, &surroundings)?;
        Ok(Parts {
            store: self.store.0.take().expect("only this takes it"),
            inbox: Arc::clone(inbox),
            window: Window::new(timer.clone(), Arc::clone(inbox), self.window_capacity),
            handlers: Arc::clone(handlers),
            runners,
            lease,
            owner: Owner { id: fastrand::i64(1..), lease: self.lease, handlers: self.handlers.here() },
            wall: self.wall,
            timer: timer.clone(),
            counters: Arc::clone(counters),
            limits: Limits {
                window: self.window,
                max_attempts: self.max_attempts,
                threads: self.threads,
                // Enough for the shortest runs, and not so many that a crash repeats a crowd.
                max_running: (2 * self.threads).max(1_024),
                overdue_per_second: self.overdue_per_second,
            },
        })
    }

    fn check_name(&mut self, name: &str) {
        if (name.is_empty() || name.len() > 255 || name.chars().any(char::is_control)) && self.refused_name.is_none() {
            self.refused_name = Some(name.to_owned());
        }
    }

    fn check(&self) -> Result<(), StartError> {
        let option = |option, value: String, right| Err(StartError::Option { option, value, right });
        if let Some(name) = &self.refused_name {
            return option("handler", format!("{name:?}"), "a name has 1 to 255 bytes, and no control characters");
        }
        if self.threads == 0 || self.threads > 4_096 {
            return option("threads", self.threads.to_string(), "1 to 4,096");
        }
        if self.window < Duration::from_millis(100) || self.window > Duration::from_secs(3_600) {
            return option("window", format!("{:?}", self.window), "100 ms to 1 h");
        }
        if self.window_capacity == 0 {
            return option("window_capacity", "0".to_owned(), "1 or more");
        }
        if self.lease < Duration::from_secs(2) || self.lease > Duration::from_secs(86_400) {
            return option("lease", format!("{:?}", self.lease), "2 s to 1 day");
        }
        if self.max_attempts == 0 {
            return option("max_attempts", "0".to_owned(), "1 or more");
        }
        if self.queue_capacity == 0 {
            return option("queue_capacity", "0".to_owned(), "1 or more");
        }
        if self.overdue_per_second == 0 || self.overdue_per_second > 1_000_000 {
            return option("overdue_per_second", self.overdue_per_second.to_string(), "1 to 1,000,000");
        }
        Ok(())
    }
}

#[cfg(feature = "sqlite")]
fn open_sqlite(path: &str) -> Result<Builder, OpenError> {
    let store = crate::store::sqlite::SqliteStore::open(path.as_ref())?;
    Ok(Builder::new(Box::new(store)))
}

#[cfg(not(feature = "sqlite"))]
fn open_sqlite(path: &str) -> Result<Builder, OpenError> {
    Err(OpenError::NoSuchStore { location: path.to_owned(), feature: "sqlite" })
}

#[cfg(feature = "postgres")]
fn open_postgres(url: &str) -> Result<Builder, OpenError> {
    let mut config: postgres::Config = url.parse().map_err(|error: postgres::Error| OpenError::Store {
        location: without_password(url),
        reason: error.to_string(),
    })?;
    give_up_on_silence(&mut config);
    let store = crate::store::postgres::PostgresStore::open(
        &without_password(url),
        Box::new(move || config.connect(postgres::NoTls)),
    )?;
    Ok(Builder::new(Box::new(store)))
}

#[cfg(not(feature = "postgres"))]
fn open_postgres(url: &str) -> Result<Builder, OpenError> {
    Err(OpenError::NoSuchStore { location: without_password(url), feature: "postgres" })
}

/// A server whose machine has gone says nothing. Without this the system waits for it for a quarter
/// of an hour, or for ever; nothing would be written, and a stop would not end.
#[cfg(feature = "postgres")]
fn give_up_on_silence(config: &mut postgres::Config) {
    const SILENCE: Duration = Duration::from_secs(20);
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(SILENCE / 4);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(SILENCE);
    }
    if config.get_keepalives_idle() == postgres::Config::new().get_keepalives_idle() {
        config.keepalives_idle(SILENCE / 4).keepalives_interval(SILENCE / 4).keepalives_retries(3);
    }
}

/// What may stand in a log: what is before a password, and between its place and the options. A
/// password may hold an `@` or a `?` that is not escaped. Then too much goes.
fn without_password(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
    let place = if options.contains('@') { "" } else { place.rsplit_once('@').map_or(place, |(_, place)| place) };
    format!("{scheme}://{place}")
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("handlers", &self.handlers)
            .field("threads", &self.threads)
            .field("window", &self.window)
            .field("window_capacity", &self.window_capacity)
            .field("lease", &self.lease)
            .field("max_attempts", &self.max_attempts)
            .field("queue_capacity", &self.queue_capacity)
            .field("overdue_per_second", &self.overdue_per_second)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_in_an_error() {
        for url in [
            "postgres://app:secret@db:5432/app?password=secret",
            "postgres://app:se@cret@db:5432/app",
            "postgres://db:5432/app?user=app&password=secret",
        ] {
            assert_eq!(without_password(url), "postgres://db:5432/app");
        }
        for url in ["postgres://db/app?user=app&password=se@cret", "postgres://app:sec?ret@db:5432/app"] {
            assert_eq!(without_password(url), "postgres://");
        }
    }

    #[test]
    #[cfg(feature = "postgres")]
    fn a_silent_server_is_given_up_after_what_its_url_says_or_seconds() {
        let configured = |options: &str| {
            let mut config = format!("postgres://db/app{options}").parse().unwrap();
            give_up_on_silence(&mut config);
            config
        };
        let config = configured("");
        let seconds = Duration::from_secs;
        assert_eq!(
            (config.get_connect_timeout(), config.get_tcp_user_timeout()),
            (Some(&seconds(5)), Some(&seconds(20)))
        );
        assert_eq!((config.get_keepalives_idle(), config.get_keepalives_retries()), (seconds(5), Some(3)));
        let config = configured("?connect_timeout=7&tcp_user_timeout=8&keepalives_idle=9");
        assert_eq!(
            (config.get_connect_timeout(), config.get_tcp_user_timeout()),
            (Some(&seconds(7)), Some(&seconds(8)))
        );
        assert_eq!((config.get_keepalives_idle(), config.get_keepalives_retries()), (seconds(9), None));
    }

    #[test]
    fn what_is_no_path_of_a_file_is_refused_without_its_password() {
        for location in
            ["mysql://app:secret@db/app", "Postgres://app:secret@db/app", "", ":memory:", "file:a?mode=memory"]
        {
            let error = DurableTimer::open(location).expect_err("no file would be kept").to_string();
            assert!(!error.contains("secret") && error.contains("path of a file"), "{error}");
        }
    }
}
