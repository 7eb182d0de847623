//! The client: one thread on monoio, so that it is no slower than a server.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use monoio::io::{AsyncReadRent, AsyncReadRentExt, AsyncWriteRentExt};
use monoio::net::TcpStream;
use monoio::time::{sleep, timeout};
use monoio::{FusionDriver, RuntimeBuilder};

use crate::server::{LAST, LENGTH};

const WARM_UP: Duration = Duration::from_secs(1);
/// How long a server may take to close a connection that is idle for too long.
const PATIENCE: Duration = Duration::from_secs(2);
/// A connection that stops has sent at most this many messages.
const MOST: u32 = 16;

#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) connections: usize,
    pub(crate) idle_connections: usize,
    pub(crate) idle: Duration,
    /// Whether the server closes the connections that are idle.
    pub(crate) is_limited: bool,
    pub(crate) time: Duration,
}

/// The counts of one measurement.
pub(crate) struct Counted {
    pub(crate) requests: u64,
    pub(crate) time: Duration,
    /// The server's.
    pub(crate) processor_time: Duration,
}

struct State {
    requests: Cell<u64>,
    is_over: Cell<bool>,
    failure: RefCell<Option<anyhow::Error>>,
}

/// Sends the load, and reads the server's processor time at the begin and at the end.
pub(crate) fn send(address: SocketAddr, load: Load, processor_time: impl Fn() -> Result<Duration>) -> Result<Counted> {
    let mut runtime = RuntimeBuilder::<FusionDriver>::new().with_entries(4096).enable_timer().build()?;
    runtime.block_on(async {
        let state = Rc::new(State { requests: Cell::new(0), is_over: Cell::new(false), failure: RefCell::default() });
        let mut clients = Vec::with_capacity(load.connections);
        for at in 0..load.connections {
            let state = Rc::clone(&state);
            // Each sends at once, so that none is idle for too long while the others connect.
            let stream = connect(address).await?;
            clients.push(monoio::spawn(async move {
                let done = if at < load.idle_connections {
                    stops(stream, address, load, &state, at).await
                } else {
                    sends(stream, &state).await
                };
                done.unwrap_or_else(|error| state.fail(error));
            }));
        }
        sleep(WARM_UP).await;
        let (requests, spent, begun) = (state.requests.get(), processor_time()?, Instant::now());
        sleep(load.time).await;
        let counted = Counted {
            requests: state.requests.get() - requests,
            time: begun.elapsed(),
            processor_time: processor_time()? - spent,
        };
        state.is_over.set(true);
        for client in clients {
            client.await;
        }
        state.failure.take().map_or(Ok(counted), Err)
    })
}

impl State {
    fn fail(&self, error: anyhow::Error) {
        self.failure.borrow_mut().get_or_insert(error);
    }
}

async fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_addr(address).await.context("cannot connect to the server")?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn sends(mut stream: TcpStream, state: &State) -> Result<()> {
    let (mut message, mut answer) = (vec![b'm'; LENGTH], Vec::with_capacity(LENGTH));
    while !state.is_over.get() {
        (message, answer) = request(&mut stream, message, answer, state).await?;
    }
    Ok(())
}

/// Sends some messages, waits until the server closes the connection, and makes another.
async fn stops(mut stream: TcpStream, address: SocketAddr, load: Load, state: &State, seed: usize) -> Result<()> {
    let mut buffers = (vec![b'm'; LENGTH], Vec::with_capacity(LENGTH));
    let mut count = u32::try_from(seed)?;
    while !state.is_over.get() {
        // Another number each time, so that the connections don't stop together.
        count = count.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        for left in (0..=(count >> 16) % MOST).rev() {
            buffers.0[0] = if left == 0 { LAST } else { b'm' };
            buffers = request(&mut stream, buffers.0, buffers.1, state).await?;
        }
        let wait = if load.is_limited { load.idle + PATIENCE } else { load.idle };
        let closed = timeout(wait, stream.read(Vec::with_capacity(1))).await;
        ensure!(!load.is_limited || closed.is_ok(), "the server does not close a connection that is idle");
        stream = connect(address).await?;
    }
    Ok(())
}

async fn request(
    stream: &mut TcpStream,
    message: Vec<u8>,
    answer: Vec<u8>,
    state: &State,
) -> Result<(Vec<u8>, Vec<u8>)> {
    let (sent, message) = stream.write_all(message).await;
    sent.context("cannot send to the server")?;
    let (received, answer) = stream.read_exact(answer).await;
    received.context("the server does not answer")?;
    ensure!(answer == message, "the echo is another's");
    state.requests.set(state.requests.get() + 1);
    Ok((message, answer))
}
