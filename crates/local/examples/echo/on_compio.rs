//! The server on compio.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use anyhow::{Result, bail};
use compio::buf::BufResult;
use compio::io::{AsyncRead, AsyncWriteExt};
use compio::net::{TcpListener, TcpStream};
use compio::runtime::Runtime;
use compio::time::timeout;
use tourbillon_local::LocalTimer;

use crate::Timers;
use crate::limits::{Limit, Read};
use crate::server::{Book, Listener, Server, Stream, echo};

pub(crate) fn serve(server: &Server) -> Result<()> {
    let runtime = Runtime::new()?;
    let idle = server.idle;
    match server.timers {
        Timers::None => runtime.block_on(async { listen(server).await?.accept_unlimited().await }),
        Timers::Runtime => runtime.block_on(async { listen(server).await?.accept(|_| Timeouts(idle)).await }),
        Timers::RuntimeReset => bail!("compio has no timer that can be reset"),
        ours => {
            let (timer, mut driver) = LocalTimer::builder().build()?;
            let served = async { listen(server).await?.accept_with(&timer, ours, idle).await };
            tourbillon_local::compio::block_on(&runtime, &mut driver, served)
        }
    }
}

async fn listen(server: &Server) -> Result<Sockets> {
    let listener = TcpListener::bind(server.listen).await?;
    server.listens(listener.local_addr()?);
    Ok(Sockets { listener, book: server.book.clone() })
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
            compio::runtime::spawn(echo(stream, limit, self.book.clone())).detach();
        }
    }
}

impl Stream for TcpStream {
    async fn read(&mut self, buffer: Vec<u8>) -> Read {
        let BufResult(read, buffer) = AsyncRead::read(self, buffer).await;
        (read, buffer)
    }

    async fn write_all(&mut self, buffer: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        let BufResult(written, buffer) = AsyncWriteExt::write_all(self, buffer).await;
        (written, buffer)
    }
}

struct Timeouts(Duration);

impl Limit for Timeouts {
    async fn read(&mut self, read: impl Future<Output = Read>) -> Option<Read> {
        timeout(self.0, read).await.ok()
    }
}
