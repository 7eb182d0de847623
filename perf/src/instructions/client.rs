//! A fixed number of requests, one after the other on each connection.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Echo,
    Http,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Load<'a> {
    pub(super) kind: Kind,
    /// What is asked for, if it is HTTP.
    pub(super) path: &'a str,
    pub(super) connections: usize,
    /// Of all connections together.
    pub(super) requests: usize,
}

/// Returns when all are answered.
pub(super) fn send(address: SocketAddr, load: Load<'_>) -> Result<()> {
    let runtime = Builder::new_current_thread().enable_io().build().context("no tokio runtime")?;
    runtime.block_on(async {
        let mut clients = Vec::with_capacity(load.connections);
        for at in 0..load.connections {
            let stream = TcpStream::connect(address).await.context("cannot connect to the server")?;
            stream.set_nodelay(true)?;
            // The first few make one more if it does not come out even.
            let requests = load.requests / load.connections + usize::from(at < load.requests % load.connections);
            clients.push(match load.kind {
                Kind::Echo => tokio::spawn(echo(stream, requests)),
                Kind::Http => tokio::spawn(http(stream, load.path.to_owned(), requests)),
            });
        }
        for client in clients {
            client.await.context("a client panicked")??;
        }
        Ok(())
    })
}

async fn echo(mut stream: TcpStream, requests: usize) -> Result<()> {
    let message = [7; 64];
    let mut answer = [0; 64];
    for _ in 0..requests {
        stream.write_all(&message).await?;
        stream.read_exact(&mut answer).await?;
        ensure!(answer == message, "the echo is another's");
    }
    Ok(())
}

async fn http(stream: TcpStream, path: String, requests: usize) -> Result<()> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    for _ in 0..requests {
        let request = Request::get(path.as_str()).header("host", "localhost").body(Empty::<Bytes>::new())?;
        let answer = sender.send_request(request).await.context("no answer")?;
        ensure!(answer.status().is_success(), "the server answers {}", answer.status());
        let body = answer.into_body().collect().await?.to_bytes();
        ensure!(!body.is_empty(), "the answer is empty");
        sender.ready().await.context("the server closed the connection")?;
    }
    drop(sender);
    connection.await.context("a client panicked")?.context("the connection ended in an error")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{ServerTimers, serve};

    #[test]
    fn each_server_answers_every_request() {
        for (kind, http) in [(Kind::Echo, false), (Kind::Http, true)] {
            for timers in [ServerTimers::Tourbillon, ServerTimers::Tokio, ServerTimers::None] {
                let (_serving, address) =
                    serve(timers, http, "127.0.0.1:0".parse().expect("an address"), Some(1)).expect("a server");
                send(address, Load { kind, path: "/", connections: 3, requests: 10 }).expect("answers");
            }
        }
    }
}
