//! A TCP echo server that closes idle connections: mio for the sockets, Tourbillon for the
//! timeouts. Each read pushes its connection's timeout out. A timeout that fires tells the event
//! loop which connection to close.
//!
//! ```toml
//! [dependencies]
//! mio = { version = "1", features = ["net", "os-poll"] }
//! tourbillon = { path = "../tourbillon" }
//! ```
//!
//! With an address and idle seconds it serves until it is stopped: `-- 127.0.0.1:7007 2`, and `nc
//! 127.0.0.1 7007`. Without them it runs a busy and a silent client of its own, and shows which of
//! the two the server closes. When it runs out of descriptors (`ulimit -n 20`) it serves the
//! connections it has, and accepts again when descriptors are free.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use tourbillon::{TimeoutGuard, Timer};

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);
/// How long the server waits for descriptors or memory before it tries again.
const PAUSE: Duration = Duration::from_millis(50);

struct Connection {
    stream: TcpStream,
    /// Cancelled when the connection is dropped.
    idle: TimeoutGuard,
    last_heard: Instant,
}

struct Server {
    poll: Poll,
    listener: TcpListener,
    timer: Timer,
    idle_after: Duration,
    connections: HashMap<Token, Connection>,
    next: usize,
    expired: Receiver<Token>,
    /// Each timeout calls this when it fires.
    on_expiry: Arc<dyn Fn(Token) + Send + Sync>,
    /// Fires when the server is to accept again. It exists while clients wait and descriptors have
    /// run out.
    retry: Option<TimeoutGuard>,
}

impl Server {
    fn new(address: SocketAddr, idle_after: Duration) -> Result<Self, Box<dyn std::error::Error>> {
        let poll = Poll::new()?;
        let mut listener = TcpListener::bind(address)?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let (send, expired): (Sender<Token>, _) = channel();
        // The task names the connection, or the listener, and wakes the loop, which owns them all.
        let on_expiry = Arc::new(move |token| {
            if send.send(token).is_ok() {
                let _ = waker.wake();
            }
        });
        let (timer, connections, next) = (Timer::new()?, HashMap::new(), WAKER.0 + 1);
        Ok(Self { poll, listener, timer, idle_after, connections, next, expired, on_expiry, retry: None })
    }

    /// Serves until `until`, or for ever if that is `None`.
    fn run(&mut self, until: Option<Instant>) -> Result<(), Box<dyn std::error::Error>> {
        let mut events = Events::with_capacity(1024);
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(());
            }
            match self.poll.poll(&mut events, left) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error.into()),
                _ => {}
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept(),
                    WAKER => {}
                    token => self.echo(token),
                }
            }
            // A token that arrives meanwhile wakes the next round.
            for token in self.expired.try_iter().collect::<Vec<_>>() {
                match token {
                    LISTENER => self.accept(),
                    token => self.reap(token),
                }
            }
        }
    }

    /// Accepts all clients that wait. The poller reports a client once: it does not report again
    /// what this call leaves in the queue.
    fn accept(&mut self) {
        loop {
            match self.listener.accept() {
                Ok((stream, peer)) => {
                    if let Err(error) = self.open(stream) {
                        println!("{peer} can't be served: {error}");
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.retry = None;
                    return;
                }
                // A client has gone, or descriptors have run out. Neither ends the server.
                Err(error) => {
                    self.accept_later(&error);
                    return;
                }
            }
        }
    }

    fn accept_later(&mut self, error: &io::Error) {
        if self.retry.is_none() {
            println!("trying to accept every {PAUSE:?} from now on: {error}");
        }
        let on_expiry = Arc::clone(&self.on_expiry);
        match self.timer.schedule(PAUSE, move || on_expiry(LISTENER)) {
            Ok(retry) => self.retry = Some(retry.cancel_on_drop()),
            // There is no memory for a timeout either: the loop tries again in its next round.
            Err(_) => (self.on_expiry)(LISTENER),
        }
    }

    fn open(&mut self, mut stream: TcpStream) -> Result<(), Box<dyn std::error::Error>> {
        let token = Token(self.next);
        self.next += 1;
        self.poll.registry().register(&mut stream, token, Interest::READABLE)?;
        let on_expiry = Arc::clone(&self.on_expiry);
        let idle = self.timer.schedule(self.idle_after, move || on_expiry(token))?.cancel_on_drop();
        println!("{token:?} opened");
        self.connections.insert(token, Connection { stream, idle, last_heard: Instant::now() });
        Ok(())
    }

    fn echo(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let mut buffer = [0; 4096];
        loop {
            match connection.stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => {
                    // An idle timeout costs one compare-and-swap a packet. False means that the
                    // timeout has just fired. It tells the loop to close the connection, so the
                    // server does not answer a packet that came too late.
                    if !connection.idle.reset(self.idle_after) {
                        return;
                    }
                    connection.last_heard = Instant::now();
                    if connection.stream.write_all(&buffer[..n]).is_err() {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => break,
            }
        }
        println!("{token:?} closed by its peer");
        self.connections.remove(&token);
    }

    fn reap(&mut self, token: Token) {
        if let Some(connection) = self.connections.remove(&token) {
            println!("{token:?} closed: nothing came for {:.2?}", connection.last_heard.elapsed());
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [address, seconds] = arguments.as_slice() {
        return Server::new(address.parse()?, Duration::from_secs_f64(seconds.parse()?))?.run(None);
    }
    if !arguments.is_empty() {
        return Err("give an address and the idle seconds, such as 127.0.0.1:7007 2, or nothing".into());
    }
    let mut server = Server::new("127.0.0.1:0".parse()?, Duration::from_millis(300))?;
    let address = server.listener.local_addr()?;
    let silent = std::thread::spawn(move || -> io::Result<Duration> {
        let begun = Instant::now();
        let mut stream = std::net::TcpStream::connect(address)?;
        // Returns when the server closes.
        let end = stream.read(&mut [0; 16])?;
        assert_eq!(end, 0, "the silent one is sent nothing");
        Ok(begun.elapsed())
    });
    let busy = std::thread::spawn(move || -> io::Result<()> {
        let mut stream = std::net::TcpStream::connect(address)?;
        for _ in 0..20 {
            stream.write_all(b"tick")?;
            stream.read_exact(&mut [0; 4])?;
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    });
    server.run(Some(Instant::now() + Duration::from_millis(1500)))?;
    busy.join().expect("the busy client does not panic")?;
    let closed_after = silent.join().expect("the silent client does not panic")?;
    assert!(closed_after >= Duration::from_millis(300));
    println!("the busy client was served for 1 s; the silent one was closed after {closed_after:.2?}");
    Ok(())
}
