//! Each limit alone.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream};

use crate::EARLY;
use crate::http::{answer, bad_gateway, get};
use crate::process::{Proxy, is_a_timeout};
use crate::upstream::{STALL, Upstream};

/// For what must come at all, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

async fn connect(proxy: &Proxy) -> BufReader<TcpStream> {
    BufReader::new(TcpStream::connect(proxy.address).await.expect("the proxy listens"))
}

/// Asserts that `since` is a limit ago, or longer.
fn assert_is_up(since: Instant, limit: Duration) {
    let elapsed = since.elapsed();
    assert!(elapsed + EARLY >= limit && elapsed < limit + PATIENCE, "{elapsed:?} for a limit of {limit:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_answered_in_time_meets_no_limit() {
    let upstream = Upstream::start().await;
    let proxy = Proxy::start(upstream.address, &[]);
    let mut client = connect(&proxy).await;
    for at in 0..100 {
        let path = format!("/{at}");
        assert_eq!(get(&mut client, &path).await.expect("an answer"), (200, path));
    }
    assert_eq!(proxy.end(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_stalls_is_a_bad_gateway_when_the_read_limit_is_up() {
    let upstream = Upstream::start().await;
    let proxy = Proxy::start(upstream.address, &["--read", "300"]);
    let client = connect(&proxy).await;
    let since = Instant::now();
    bad_gateway(client, STALL).await;
    assert_is_up(since, Duration::from_millis(300));
    let log = proxy.end();
    assert!(log.len() == 1 && is_a_timeout(&log[0], "ReadTimedout"), "{log:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_does_not_read_is_a_bad_gateway_when_the_write_limit_is_up() {
    let upstream = Upstream::start().await;
    let proxy = Proxy::start(upstream.address, &["--write", "300"]);
    let (read, mut write) = TcpStream::connect(proxy.address).await.expect("the proxy listens").into_split();
    let since = Instant::now();
    let sender = tokio::spawn(async move {
        // More than all buffers on the way take.
        let head = format!("POST {STALL} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n");
        let _ = write.write_all(head.as_bytes()).await;
        // The proxy closes it in the middle.
        while write.write_all(&[7; 65_536]).await.is_ok() {}
        write
    });
    let first = first_line(read).await;
    assert!(first.starts_with("HTTP/1.1 502"), "{first}");
    assert_is_up(since, Duration::from_millis(300));
    sender.await.expect("it does not panic");
    let log = proxy.end();
    assert!(log.iter().any(|line| is_a_timeout(line, "WriteTimedout")), "{log:?}");
}

/// By bytes: the connection may end in a reset, with the answer before it.
async fn first_line(mut read: tokio::net::tcp::OwnedReadHalf) -> String {
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        line.push(read.read_u8().await.expect("an answer"));
    }
    String::from_utf8(line).expect("a status line")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_does_not_accept_is_a_bad_gateway_when_the_connect_limit_is_up() {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
    let listener = socket.listen(1).expect("it listens");
    let address = listener.local_addr().expect("an address");
    // Fills the backlog, and then the kernel drops what comes.
    let mut waiting = Vec::new();
    while let Ok(connected) = tokio::time::timeout(Duration::from_millis(300), TcpStream::connect(address)).await {
        waiting.push(connected.expect("a place in the backlog"));
    }
    let proxy = Proxy::start(address, &["--connect", "300"]);
    let client = connect(&proxy).await;
    let since = Instant::now();
    bad_gateway(client, "/").await;
    assert_is_up(since, Duration::from_millis(300));
    let log = proxy.end();
    assert!(log.iter().any(|line| is_a_timeout(line, "ConnectTimedout")), "{log:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_to_the_upstream_is_closed_when_the_idle_limit_is_up() {
    let mut upstream = Upstream::start().await;
    let proxy = Proxy::start(upstream.address, &["--idle", "500"]);
    let mut client = connect(&proxy).await;
    for _ in 0..3 {
        assert_eq!(get(&mut client, "/used").await.expect("an answer").0, 200);
    }
    let unused = tokio::time::timeout(PATIENCE, upstream.unused.recv()).await.expect("in time").expect("it ends");
    assert!(unused + EARLY >= Duration::from_millis(500), "closed after {unused:?}");
    // The client's stays, and gets another.
    assert_eq!(get(&mut client, "/again").await.expect("an answer").0, 200);
    assert_eq!(proxy.end(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_silent_is_closed_when_the_keep_alive_is_up() {
    let upstream = Upstream::start().await;
    let proxy = Proxy::start(upstream.address, &["--keep-alive", "1"]);
    let mut client = connect(&proxy).await;
    let since = Instant::now();
    assert_eq!(get(&mut client, "/").await.expect("an answer").0, 200);
    let end = tokio::time::timeout(PATIENCE, answer(&mut client)).await.expect("in time");
    assert!(end.is_err(), "an answer to nothing");
    assert_is_up(since, Duration::from_secs(1));
    assert_eq!(proxy.end(), Vec::<String>::new());
}
