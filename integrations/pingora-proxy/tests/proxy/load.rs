//! A thousand connections at once, of whose requests a hundredth stalls.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::BufReader;
use tokio::net::TcpStream;

use crate::EARLY;
use crate::http::{bad_gateway, get};
use crate::process::{Proxy, is_a_timeout};
use crate::upstream::{STALL, Upstream};

const CONNECTIONS: usize = 1_000;
/// Of each connection.
const REQUESTS: usize = 20;
/// One in so many stalls.
const STALLS: usize = 100;
/// Long enough for an answer on a machine that is busy.
const READ: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn under_load_each_request_gets_its_own_answer_and_each_stall_its_limit() {
    rlimit::increase_nofile_limit(u64::MAX).expect("enough files");
    let upstream = Upstream::start().await;
    let proxy = Proxy::start(upstream.address, &["--read", &READ.as_millis().to_string()]);
    let clients: Vec<_> = (0..CONNECTIONS).map(|at| tokio::spawn(client(proxy.address, at))).collect();
    let mut waits = Vec::new();
    for client in clients {
        waits.extend(client.await.expect("a client's assertions hold"));
    }
    assert_eq!(waits.len(), CONNECTIONS * REQUESTS / STALLS);
    waits.sort_unstable();
    let (first, median, last) = (waits[0], waits[waits.len() / 2], waits[waits.len() - 1]);
    println!("{} stalls ended after {first:.1?}, {median:.1?} and {last:.1?} (least, median, most)", waits.len());
    assert!(first + EARLY >= READ, "a limit of {READ:?} was up after {first:?}");

    let log = proxy.end();
    let (timeouts, others): (Vec<_>, Vec<_>) = log.iter().partition(|line| is_a_timeout(line, "ReadTimedout"));
    assert_eq!((timeouts.len(), others), (waits.len(), Vec::new()));
}

/// Returns how long each stalled request took.
async fn client(proxy: SocketAddr, at: usize) -> Vec<Duration> {
    let connect = async || BufReader::new(TcpStream::connect(proxy).await.expect("the proxy listens"));
    let mut stream = connect().await;
    let mut waits = Vec::new();
    for number in (at * REQUESTS)..((at + 1) * REQUESTS) {
        // One of each fifth connection, and not always the same.
        if number % STALLS == at % REQUESTS {
            waits.push(bad_gateway(stream, STALL).await);
            stream = connect().await;
        } else {
            let path = format!("/{number}");
            assert_eq!(get(&mut stream, &path).await.expect("an answer"), (200, path));
        }
    }
    waits
}
