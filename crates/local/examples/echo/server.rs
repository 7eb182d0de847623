//! The code that the servers share: the echo, and the record of how late timeouts were.

use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tourbillon_local::LocalTimer;

use crate::Timers;
use crate::limits::{Limit, Read, SleepLimit, TaskLimit, TimeoutLimit, Unlimited};

/// Of each message.
pub(crate) const LENGTH: usize = 64;
/// The first byte of a message after which the client sends nothing more.
pub(crate) const LAST: u8 = b'L';
/// The first byte of a message that ends the server. Under Valgrind 3.19 no signal does, while the
/// server waits in `io_uring_enter`.
const QUIT: u8 = b'Q';

pub(crate) struct Server {
    pub(crate) listen: SocketAddr,
    pub(crate) timers: Timers,
    pub(crate) idle: Duration,
    pub(crate) book: Book,
}

impl Server {
    pub(crate) fn new(listen: SocketAddr, timers: Timers, idle: Duration, reports: bool) -> Self {
        let server = Self { listen, timers, idle, book: Book { idle, late_ns: Arc::default() } };
        if reports {
            pin(0);
            server.book.report_at_the_end();
        }
        server
    }

    /// Tells the parent where it listens.
    pub(crate) fn listens(&self, address: SocketAddr) {
        println!("{address}");
    }
}

/// Takes the core with this number among those that this process may use, if there are two.
pub(crate) fn pin(number: usize) {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    if let (Some(core), 2..) = (cores.get(number), cores.len()) {
        core_affinity::set_for_current(*core);
    }
}

/// How late the timeouts were that have fired.
#[derive(Clone)]
pub(crate) struct Book {
    idle: Duration,
    /// Negative if early.
    late_ns: Arc<Mutex<Vec<i64>>>,
}

impl Book {
    fn has_ended(&self, idle_since: Instant) {
        let late = i64::try_from(idle_since.elapsed().as_nanos()).unwrap_or(i64::MAX)
            - i64::try_from(self.idle.as_nanos()).unwrap_or(i64::MAX);
        self.late_ns.lock().unwrap_or_else(PoisonError::into_inner).push(late);
    }

    /// Ends the process with standard input.
    fn report_at_the_end(&self) {
        let late_ns = Arc::clone(&self.late_ns);
        thread::spawn(move || {
            let ended = io::stdin().read_to_end(&mut Vec::new());
            let late_ns = late_ns.lock().unwrap_or_else(PoisonError::into_inner);
            println!("{}", serde_json::to_string(&*late_ns).unwrap_or_default());
            std::process::exit(i32::from(ended.is_err()));
        });
    }
}

/// A connection of a runtime.
pub(crate) trait Stream {
    /// Reads into an empty buffer that has room for a message.
    async fn read(&mut self, buffer: Vec<u8>) -> Read;

    async fn write_all(&mut self, buffer: Vec<u8>) -> (io::Result<()>, Vec<u8>);
}

/// Sends back what it reads, until the client ends or is idle for too long. The limit is dropped
/// before the connection is closed.
pub(crate) async fn echo(mut stream: impl Stream, mut limit: impl Limit, book: Book) {
    let mut buffer = Vec::with_capacity(LENGTH);
    let mut idle_since = None;
    loop {
        buffer.clear();
        let Some((read, full)) = limit.read(stream.read(buffer)).await else {
            if let Some(since) = idle_since {
                book.has_ended(since);
            }
            return;
        };
        let Ok(1..) = read else { return };
        let is_last = match full[0] {
            LAST => true,
            QUIT => std::process::exit(0),
            _ => false,
        };
        let (Ok(()), empty) = stream.write_all(full).await else { return };
        buffer = empty;
        idle_since = is_last.then(Instant::now);
    }
}

/// The listener of a runtime.
pub(crate) trait Listener {
    /// Serves each connection in a task of its own. `limit` makes its limit, from its socket.
    async fn accept<L: Limit + 'static>(&self, limit: impl Fn(RawFd) -> L) -> Result<()>;

    async fn accept_unlimited(&self) -> Result<()> {
        self.accept(|_| Unlimited).await
    }

    /// Serves with one of the ways to use Tourbillon.
    async fn accept_with(&self, timer: &LocalTimer, timers: Timers, idle: Duration) -> Result<()> {
        match timers {
            Timers::Tourbillon => self.accept(|fd| TaskLimit::new(timer, idle, fd)).await,
            Timers::TourbillonSleep => self.accept(|_| SleepLimit::new(timer, idle)).await,
            Timers::TourbillonTimeout => self.accept(|_| TimeoutLimit::new(timer, idle)).await,
            Timers::None | Timers::Runtime | Timers::RuntimeReset => bail!("{timers:?} are not Tourbillon's"),
        }
    }
}
