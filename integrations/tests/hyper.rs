//! The engine as hyper's timer: a real server and a real client, on sockets. Their runtime has no
//! timer: code that asks Tokio for one panics.

#[path = "../../tests/common/mod.rs"]
mod common;
#[path = "hyper/flush.rs"]
mod flush;
#[path = "hyper/http_2.rs"]
mod http_2;
#[path = "hyper/limits.rs"]
mod limits;

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::rt::{Sleep as HyperSleep, Timer as HyperTimer};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tourbillon::{ManualClock, Sleep, Timer};

use common::{HOUR, MS, PATIENCE, driven, in_time, on_workers};

const LIMIT: Duration = Duration::from_millis(200);
const NS: Duration = Duration::from_nanos(1);

/// Runs the work on a runtime that has sockets and no timer.
fn without_tokios_timer(what: &str, work: impl Future<Output = ()> + Send + 'static) {
    in_time(what, || {
        tokio::runtime::Builder::new_current_thread().enable_io().build().expect("sockets").block_on(work)
    });
}

/// Lets the other tasks run until `is_so` returns true.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        tokio::task::yield_now().await;
    }
}

fn server(timer: &Timer, limit: Duration) -> http1::Builder {
    let mut server = http1::Builder::new();
    server.timer(timer.clone()).header_read_timeout(limit);
    server
}

async fn hello(_request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    Ok(Response::new("hello".to_owned()))
}

/// A connection: the client's end, and the server's.
async fn connection() -> (TcpStream, TokioIo<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let client = TcpStream::connect(listener.local_addr().expect("it is bound")).await.expect("it listens");
    let (served, _) = listener.accept().await.expect("a client");
    (client, TokioIo::new(served))
}

/// Sends a request, and reads the answer to its last byte.
async fn ask(client: &mut TcpStream, path: &str) {
    client.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).await.expect("the server reads");
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\nhello") {
        assert_ne!(client.read_buf(&mut answer).await.expect("the server answers"), 0, "closed: {answer:?}");
    }
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
}

#[test]
fn a_connection_that_sends_half_a_header_is_closed() {
    without_tokios_timer("a server", async {
        let timer = Timer::new().expect("defaults");
        let (mut client, served) = connection().await;
        client.write_all(b"GET / HTTP/1.1\r\nHost: ").await.expect("the server reads");
        let begun = Instant::now();
        let error = server(&timer, LIMIT).serve_connection(served, service_fn(hello)).await.expect_err("half a header");
        let took = begun.elapsed();
        assert!(error.is_timeout() && took >= LIMIT, "{error} after {took:?}");
        client.read_to_end(&mut Vec::new()).await.expect("closed");
        let stats = timer.stats();
        assert_eq!((stats.scheduled, stats.fired), (1, 1), "it was this engine that counted");
    });
}

#[test]
fn half_a_header_is_given_its_time_to_the_last_nanosecond_of_the_engines_clock() {
    without_tokios_timer("a server", async {
        let (timer, clock) = on_workers(Timer::builder());
        clock.advance(HOUR); // hyper reckons from the engine's time, not from the system's
        let (mut client, served) = connection().await;
        client.write_all(b"GET / HTTP/1.1\r\nHost: ").await.expect("the server reads");
        let ends = tokio::spawn(server(&timer, LIMIT).serve_connection(served, service_fn(hello)));
        until("the server waits for the rest", || timer.pending() == 1).await;
        clock.advance(LIMIT - NS);
        assert_eq!((timer.stats().fired, timer.pending()), (0, 1));
        clock.advance(NS);
        assert_eq!((timer.stats().fired, timer.pending()), (1, 0));
        assert!(ends.await.expect("no panic").expect_err("half a header").is_timeout());
    });
}

#[test]
fn a_connection_is_kept_while_whole_requests_come_in_time() {
    without_tokios_timer("a server", async {
        let (timer, clock) = on_workers(Timer::builder());
        let (mut client, served) = connection().await;
        let sleeper = timer.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            // The header's time does not count what comes after the header.
            let pause = if request.uri().path() == "/slow" { 5 * LIMIT } else { Duration::ZERO };
            let pause = sleeper.sleep(pause);
            async move {
                pause.await;
                hello(request).await
            }
        });
        let ends = tokio::spawn(server(&timer, LIMIT).serve_connection(served, service));
        for _ in 0..3 {
            ask(&mut client, "/").await;
            until("the server waits for the next request", || timer.pending() == 1).await;
            clock.advance(LIMIT - MS);
        }
        let asked = timer.stats().scheduled;
        let slow = tokio::spawn(async move {
            ask(&mut client, "/slow").await;
            client
        });
        until("the request is being served", || timer.stats().scheduled == asked + 1 && timer.pending() == 1).await;
        clock.advance(5 * LIMIT);
        let mut client = slow.await.expect("an answer");
        until("the server waits for the next request", || timer.pending() == 1).await;
        assert!(!ends.is_finished());
        clock.advance(LIMIT);
        client.read_to_end(&mut Vec::new()).await.expect("closed");
        assert!(ends.await.expect("no panic").expect_err("no request came").is_timeout());
    });
}

/// Starts a server that answers all connections, and reports each connection that ends.
async fn server_of_many() -> (Uri, Arc<AtomicUsize>, UnboundedReceiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address: SocketAddr = listener.local_addr().expect("it is bound");
    let accepted = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&accepted);
    let (ended, ends) = unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::Relaxed);
            let ended = ended.clone();
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(hello));
            tokio::spawn(async move {
                connection.await.expect("the client ends it in good order");
                let _ = ended.send(());
            });
        }
    });
    (format!("http://{address}/").parse().expect("an address"), accepted, ends)
}

fn client(timer: &Timer, idle: Duration) -> Client<HttpConnector, Empty<Bytes>> {
    let mut client = Client::builder(TokioExecutor::new());
    client.pool_idle_timeout(idle).pool_timer(timer.clone()).timer(timer.clone());
    client.build_http()
}

async fn get(client: &Client<HttpConnector, Empty<Bytes>>, uri: &Uri) {
    let answer = client.get(uri.clone()).await.expect("an answer");
    assert_eq!(answer.collect().await.expect("its body").to_bytes(), "hello");
}

#[test]
fn an_idle_connection_of_a_pool_is_closed() {
    without_tokios_timer("a client", async {
        let timer = Timer::new().expect("defaults");
        let (uri, accepted, mut ends) = server_of_many().await;
        let client = client(&timer, LIMIT);
        let asked = Instant::now();
        get(&client, &uri).await;
        ends.recv().await.expect("the client closes it");
        let took = asked.elapsed();
        assert!(took >= LIMIT, "closed after {took:?}");
        assert!(timer.stats().fired >= 1, "it was this engine that counted");
        get(&client, &uri).await;
        assert_eq!(accepted.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn a_connection_of_a_pool_is_used_again_until_it_has_been_idle_for_its_time() {
    without_tokios_timer("a client", async {
        let (timer, clock) = on_workers(Timer::builder());
        let (uri, accepted, mut ends) = server_of_many().await;
        let client = client(&timer, LIMIT);
        get(&client, &uri).await;
        // The pool checks for idle connections from its first one on.
        until("the connection is in the pool", || timer.pending() == 1).await;
        clock.advance(LIMIT - NS);
        assert_eq!(timer.stats().fired, 0);
        get(&client, &uri).await;
        assert_eq!(accepted.load(Ordering::Relaxed), 1, "the same connection");
        // The connection soon returns to the pool, and is idle from then on. The pool checks once
        // in each `LIMIT`.
        while ends.try_recv().is_err() {
            clock.advance(LIMIT);
            tokio::task::yield_now().await;
        }
        get(&client, &uri).await;
        assert_eq!(accepted.load(Ordering::Relaxed), 2);
    });
}

/// A sleep of some other timer.
struct Never;

impl Future for Never {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl HyperSleep for Never {}

#[test]
fn a_reset_moves_our_sleep_where_it_is_and_replaces_any_other() {
    let (timer, mut driver, clock) = driven();
    let hypers: &dyn HyperTimer = &timer;
    clock.advance(HOUR);
    assert_eq!(hypers.now(), clock.now());
    let mut context = Context::from_waker(std::task::Waker::noop());
    let mut sleep = hypers.sleep(5 * MS);
    let place = |sleep: &Pin<Box<dyn HyperSleep>>| (&raw const **sleep).cast::<()>();
    let before = place(&sleep);
    assert!(sleep.as_mut().poll(&mut context).is_pending());
    hypers.reset(&mut sleep, clock.now() + 10 * MS);
    assert_eq!((place(&sleep), timer.stats().scheduled), (before, 1), "the same, moved");
    clock.advance(10 * MS - NS);
    driver.turn();
    assert!(sleep.as_mut().poll(&mut context).is_pending());
    clock.advance(NS);
    driver.turn();
    assert!(sleep.as_mut().poll(&mut context).is_ready());

    let mut other: Pin<Box<dyn HyperSleep>> = Box::pin(Never);
    hypers.reset(&mut other, clock.now() + MS);
    assert!(other.is::<Sleep>());
    assert!(other.as_mut().poll(&mut context).is_pending());
    clock.advance(MS);
    driver.turn();
    assert!(other.as_mut().poll(&mut context).is_ready());
}
