//! The server on monoio.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::time::{Duration, Instant};

use anyhow::Result;
use monoio::io::{AsyncReadRent, AsyncWriteRentExt};
use monoio::net::{TcpListener, TcpStream};
use monoio::time::{Sleep, sleep, timeout};
use monoio::{FusionDriver, RuntimeBuilder};
use tourbillon_local::LocalTimer;

use crate::Timers;
use crate::limits::{Limit, Read, first};
use crate::server::{Book, Listener, Server, Stream, echo};

pub(crate) fn serve(server: &Server) -> Result<()> {
    let mut runtime = RuntimeBuilder::<FusionDriver>::new().with_entries(4096).enable_timer().build()?;
    runtime.block_on(async {
        let listener = Sockets { listener: TcpListener::bind(server.listen)?, book: server.book.clone() };
        server.listens(listener.listener.local_addr()?);
        let idle = server.idle;
        match server.timers {
            Timers::None => listener.accept_unlimited().await,
            Timers::Runtime => listener.accept(|_| Timeouts(idle)).await,
            Timers::RuntimeReset => listener.accept(|_| Resets { sleep: Box::pin(sleep(idle)), idle }).await,
            ours => {
                let timer = tourbillon_local::monoio::start(LocalTimer::builder())?;
                listener.accept_with(&timer, ours, idle).await
            }
        }
    })
}

struct Sockets {
    listener: TcpListener,
    book: Book,
}

impl Listener for Sockets {
    async fn accept<L: Limit + 'static>(&self, limit: impl Fn(RawFd) -> L) -> Result<()> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            stream.set_nodelay(true)?;
            let limit = limit(stream.as_raw_fd());
            drop(monoio::spawn(echo(stream, limit, self.book.clone())));
        }
    }
}

impl Stream for TcpStream {
    async fn read(&mut self, buffer: Vec<u8>) -> Read {
        AsyncReadRent::read(self, buffer).await
    }

    async fn write_all(&mut self, buffer: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        let (written, buffer) = AsyncWriteRentExt::write_all(self, buffer).await;
        (written.map(drop), buffer)
    }
}

struct Timeouts(Duration);

impl Limit for Timeouts {
    async fn read(&mut self, read: impl Future<Output = Read>) -> Option<Read> {
        timeout(self.0, read).await.ok()
    }
}

struct Resets {
    sleep: Pin<Box<Sleep>>,
    idle: Duration,
}

impl Limit for Resets {
    async fn read(&mut self, read: impl Future<Output = Read>) -> Option<Read> {
        self.sleep.as_mut().reset((Instant::now() + self.idle).into());
        first(read, self.sleep.as_mut()).await
    }
}
