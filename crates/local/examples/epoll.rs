//! The event loop of a thread-per-core server on raw epoll, with timers of its own thread, whose
//! tasks need not be `Send`. The loop reads the time once a round, and counts all of that round's
//! timeouts from it.

#[cfg(target_os = "linux")]
mod epoll {
    use std::io;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::time::Duration;

    use libc::{EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLLIN, epoll_create1, epoll_ctl, epoll_event, epoll_wait};

    pub(crate) struct Epoll(OwnedFd);

    impl Epoll {
        pub(crate) fn new() -> io::Result<Self> {
            // SAFETY: it takes no pointer.
            let fd = check(unsafe { epoll_create1(EPOLL_CLOEXEC) })?;
            // SAFETY: the descriptor is new, and nobody else has it.
            Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
        }

        pub(crate) fn watch(&self, socket: &impl AsRawFd, id: u64) -> io::Result<()> {
            let mut event = epoll_event { events: EPOLLIN.cast_unsigned(), u64: id };
            // SAFETY: the event is a live local variable.
            check(unsafe { epoll_ctl(self.0.as_raw_fd(), EPOLL_CTL_ADD, socket.as_raw_fd(), &raw mut event) }).map(drop)
        }

        /// Waits for sockets, for at most `limit`, and returns which can be read.
        pub(crate) fn wait(&self, limit: Option<Duration>) -> io::Result<impl Iterator<Item = u64> + use<>> {
            let mut events = [epoll_event { events: 0, u64: 0 }; 64];
            // Rounded up: a wait that ends too soon would be followed by another.
            let up = |limit: Duration| limit.as_nanos().div_ceil(1_000_000).try_into().unwrap_or(i32::MAX);
            // SAFETY: the array has room for 64 events.
            let ready = unsafe { epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), 64, limit.map_or(-1, up)) };
            let ready = check(ready).or_else(|error| match error.kind() {
                io::ErrorKind::Interrupted => Ok(0),
                _ => Err(error),
            })?;
            Ok(events.into_iter().take(usize::try_from(ready).unwrap_or(0)).map(|event| event.u64))
        }
    }

    fn check(result: i32) -> io::Result<i32> {
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
    }
}

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use std::cell::RefCell;
    use std::collections::HashMap;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::rc::Rc;
    use std::thread;
    use std::time::{Duration, Instant};

    use tourbillon_local::{LocalTimeout, LocalTimer};

    const IDLE: Duration = Duration::from_millis(50);

    struct Connection {
        stream: UnixStream,
        idle: LocalTimeout,
    }

    let epoll = epoll::Epoll::new()?;
    let (timer, mut driver) = LocalTimer::builder().tick_duration(Duration::from_micros(100)).build()?;
    // Not `Send`: no lock, and no channel back from the tasks.
    let connections: Rc<RefCell<HashMap<u64, Connection>>> = Rc::default();

    let begun = timer.now();
    for id in 1..=3 {
        let (stream, mut client) = UnixStream::pair()?;
        stream.set_nonblocking(true)?;
        epoll.watch(&stream, id)?;
        let closes = Rc::clone(&connections);
        let close = move || {
            closes.borrow_mut().remove(&id);
            println!("connection {id} was idle for {IDLE:?}: closed after {:.2?}", begun.elapsed());
        };
        let idle = timer.schedule_at(begun + IDLE, close)?;
        connections.borrow_mut().insert(id, Connection { stream, idle });
        // Some packets, and then silence.
        thread::spawn(move || {
            for _ in 0..id * 3 {
                client.write_all(b"packet").expect("the server is there");
                thread::sleep(Duration::from_millis(10));
            }
            // Until the server closes it.
            let _ = client.read_to_end(&mut Vec::new());
        });
    }

    while !connections.borrow().is_empty() {
        let limit = driver.next_wakeup().map(|at| at.saturating_duration_since(Instant::now()));
        let ready = epoll.wait(limit)?;
        // Once a round, however many sockets are ready.
        let now = timer.now();
        for id in ready {
            let mut connections = connections.borrow_mut();
            let Some(Connection { stream, idle }) = connections.get_mut(&id) else { continue };
            let mut packet = [0; 64];
            match stream.read(&mut packet) {
                Ok(length @ 1..) if idle.reset_at(now + IDLE) => stream.write_all(&packet[..length])?,
                Ok(_) => drop(connections.remove(&id)),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        driver.turn();
    }
    println!("{} pending, {} fired", timer.pending(), timer.fired());
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("epoll is Linux's");
}
