//! The server on glommio.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Result, anyhow};
use futures_lite::{AsyncReadExt, AsyncWriteExt};
use glommio::net::{TcpListener, TcpStream};
use glommio::timer::{Timer as GlommioTimer, timeout};
use glommio::{GlommioError, LocalExecutorBuilder};
use tourbillon_local::LocalTimer;

use crate::Timers;
use crate::limits::{Limit, Read, first};
use crate::server::{Book, LENGTH, Listener, Server, Stream, echo};

pub(crate) fn serve(server: &Server) -> Result<()> {
    let executor = LocalExecutorBuilder::default().make().map_err(told)?;
    executor.run(async {
        let listener = TcpListener::bind(server.listen).map_err(told)?;
        server.listens(listener.local_addr().map_err(told)?);
        let listener = Sockets { listener, book: server.book.clone() };
        let idle = server.idle;
        match server.timers {
            Timers::None => listener.accept_unlimited().await,
            Timers::Runtime => listener.accept(|_| Timeouts(idle)).await,
            Timers::RuntimeReset => listener.accept(|_| Resets { timer: GlommioTimer::new(idle), idle }).await,
            ours => {
                let timer = tourbillon_local::glommio::start(LocalTimer::builder())?;
                listener.accept_with(&timer, ours, idle).await
            }
        }
    })
}

/// glommio's errors are not `Sync`.
fn told(error: GlommioError<()>) -> anyhow::Error {
    anyhow!("{error}")
}

struct Sockets {
    listener: TcpListener,
    book: Book,
}

impl Listener for Sockets {
    async fn accept<L: Limit + 'static>(&self, limit: impl Fn(RawFd) -> L) -> Result<()> {
        loop {
            let stream = self.listener.accept().await.map_err(told)?;
            stream.set_nodelay(true).map_err(told)?;
            let limit = limit(stream.as_raw_fd());
            glommio::spawn_local(echo(stream, limit, self.book.clone())).detach();
        }
    }
}

impl Stream for TcpStream {
    async fn read(&mut self, mut buffer: Vec<u8>) -> Read {
        buffer.resize(LENGTH, 0);
        let read = AsyncReadExt::read(self, &mut buffer).await;
        buffer.truncate(*read.as_ref().unwrap_or(&0));
        (read, buffer)
    }

    async fn write_all(&mut self, buffer: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        let written = AsyncWriteExt::write_all(self, &buffer).await;
        (written, buffer)
    }
}

struct Timeouts(Duration);

impl Limit for Timeouts {
    async fn read(&mut self, read: impl Future<Output = Read>) -> Option<Read> {
        // Its error is the limit's or the future's.
        timeout(self.0, async { Ok(read.await) }).await.ok()
    }
}

struct Resets {
    timer: GlommioTimer,
    idle: Duration,
}

impl Limit for Resets {
    async fn read(&mut self, read: impl Future<Output = Read>) -> Option<Read> {
        self.timer.reset(self.idle);
        first(read, Pin::new(&mut self.timer)).await
    }
}
