//! A server that answers with the path of the request after a millisecond, or never.

use std::io::Result;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::http;

/// A request for this path is never answered.
pub(crate) const STALL: &str = "/stall";

pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    /// One for each connection that was closed: the time between its last answer, or its beginning,
    /// and its end.
    pub(crate) unused: UnboundedReceiver<Duration>,
}

impl Upstream {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (ended, unused) = unbounded_channel();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("there are enough files");
                tokio::spawn(serve(stream, ended.clone()));
            }
        });
        Self { address, unused }
    }
}

async fn serve(stream: TcpStream, ended: UnboundedSender<Duration>) {
    let mut since = Instant::now();
    // An error is the proxy's end.
    let _ = answers(BufReader::new(stream), &mut since).await;
    let _ = ended.send(since.elapsed());
}

async fn answers(mut stream: BufReader<TcpStream>, since: &mut Instant) -> Result<()> {
    while let Some((first, _)) = http::head(&mut stream).await? {
        let path = first.split(' ').nth(1).unwrap_or_default();
        if path == STALL {
            // A body stays unread. Without one, nothing comes until the proxy has closed it.
            if stream.get_ref().peek(&mut [0]).await? > 0 {
                std::future::pending::<()>().await;
            }
            return Ok(());
        }
        // So that the proxy has to wait.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len());
        stream.write_all(answer.as_bytes()).await?;
        *since = Instant::now();
    }
    Ok(())
}
