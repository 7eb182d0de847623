//! The limits of a server's connections, on sockets and on a clock that the test moves.

use std::future::pending;
use std::sync::Mutex;

use http_body_util::Full;
use http_body_util::channel::{Channel, Sender};
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{StatusCode, header};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::task::JoinHandle;
use tourbillon_hyper::{LimitStats, Limits};

use super::*;

const HEADER: Duration = Duration::from_secs(2);
pub(super) const IDLE: Duration = Duration::from_secs(10);
const REQUEST: Duration = Duration::from_secs(5);

pub(super) fn limits(timer: &Timer) -> Limits {
    Limits::new(timer.clone()).header(HEADER).idle(IDLE).request(REQUEST, StatusCode::GATEWAY_TIMEOUT)
}

/// Runs the work with an engine, the clock that moves it, and these limits.
pub(super) fn with_limits<W>(work: impl FnOnce(Timer, ManualClock, Limits) -> W + Send + 'static)
where
    W: Future<Output = ()> + Send,
{
    without_tokios_timer("a server", async {
        let (timer, clock) = on_workers(Timer::builder());
        work(timer.clone(), clock, limits(&timer)).await;
    });
}

/// Returns how many headers, idle connections and requests the limits have ended.
pub(super) fn ended(limits: &Limits) -> (u64, u64, u64) {
    let LimitStats { header, idle, request, .. } = limits.stats();
    (header, idle, request)
}

type Served = JoinHandle<hyper::Result<()>>;

/// Answers `/` at once, `/{ms}` after as many milliseconds, `/never` never, and `/body` when the
/// whole body of the request has come.
async fn answer(timer: Timer, request: Request<Incoming>) -> hyper::Result<Response<String>> {
    match request.uri().path().trim_start_matches('/') {
        "" => {}
        "never" => pending().await,
        "body" => _ = request.into_body().collect().await?,
        ms => timer.sleep(ms.parse().map(Duration::from_millis).expect("milliseconds")).await,
    }
    Ok(Response::new("hello".to_owned()))
}

/// Serves one connection. Returns the client's end, once the server waits for it.
async fn served(timer: &Timer, limits: &Limits) -> (TcpStream, Served) {
    let (client, stream) = connection().await;
    let own = timer.clone();
    let (io, service) = limits.apply(stream, service_fn(move |request| answer(own.clone(), request)));
    let connection = tokio::spawn(http1::Builder::new().serve_connection(io, service));
    until("the server waits for a header", || timer.pending() == 1).await;
    (client, connection)
}

/// How often a deadline has been set or moved.
pub(super) fn steps(timer: &Timer) -> u64 {
    let stats = timer.stats();
    stats.scheduled + stats.reset
}

/// Sends a request that is answered at once. Returns when the server waits for the next one.
async fn ask_and_be_idle(timer: &Timer, client: &mut TcpStream) {
    let before = steps(timer);
    ask(client, "/").await;
    until("the server waits for the next request", || steps(timer) > before).await;
}

async fn send(client: &mut TcpStream, bytes: &str) {
    client.write_all(bytes.as_bytes()).await.expect("the server reads");
}

/// Reads the head of an answer, to its last byte.
async fn head(client: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        assert_ne!(client.read_buf(&mut head).await.expect("an answer"), 0);
    }
    String::from_utf8(head).expect("text")
}

/// Asserts that the server has closed the connection in good order, and sent nothing more.
pub(super) async fn assert_closed(client: &mut TcpStream) {
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.expect("no error");
    assert_eq!(rest, b"");
}

async fn assert_timed_out(served: Served) {
    let error = served.await.expect("no panic").expect_err("it was too late");
    let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<std::io::Error>());
    assert_eq!(source.map(std::io::Error::kind), Some(std::io::ErrorKind::TimedOut), "{error:?}");
}

#[test]
fn a_connection_that_sends_no_header_is_closed() {
    with_limits(|timer, clock, limits| async move {
        let (mut client, served) = served(&timer, &limits).await;
        clock.advance(HEADER - NS);
        assert_eq!((timer.stats().fired, timer.pending()), (0, 1));
        clock.advance(NS);
        assert_closed(&mut client).await;
        let _ = served.await.expect("no panic");
        assert_eq!((ended(&limits), timer.pending()), ((1, 0, 0), 0));
    });
}

#[test]
fn a_header_that_comes_byte_by_byte_has_no_more_time_for_it() {
    with_limits(|timer, clock, limits| async move {
        let (mut client, served) = served(&timer, &limits).await;
        for byte in ["G", "E", "T", " "] {
            send(&mut client, byte).await;
            clock.advance(HEADER / 4 - NS);
            tokio::task::yield_now().await;
        }
        assert_eq!((timer.stats().fired, served.is_finished()), (0, false));
        clock.advance(4 * NS);
        assert_timed_out(served).await;
        assert_eq!(ended(&limits), (1, 0, 0));
    });
}

#[test]
fn the_time_for_a_later_header_begins_with_its_first_byte() {
    with_limits(|timer, clock, limits| async move {
        let (mut client, served) = served(&timer, &limits).await;
        ask_and_be_idle(&timer, &mut client).await;
        clock.advance(IDLE - MS); // longer than a header may take
        let before = steps(&timer);
        send(&mut client, "GET").await;
        until("the server waits for the rest", || steps(&timer) > before).await;
        clock.advance(HEADER - NS);
        assert_eq!(timer.stats().fired, 0);
        clock.advance(NS);
        assert_timed_out(served).await;
        assert_eq!(ended(&limits), (1, 0, 0));
    });
}

#[test]
fn an_idle_keep_alive_connection_is_closed() {
    with_limits(|timer, clock, limits| async move {
        let (mut client, served) = served(&timer, &limits).await;
        ask_and_be_idle(&timer, &mut client).await;
        for _ in 0..3 {
            clock.advance(IDLE - MS);
            ask_and_be_idle(&timer, &mut client).await;
        }
        clock.advance(IDLE - NS);
        assert_eq!((timer.stats().fired, timer.pending()), (0, 1));
        clock.advance(NS);
        assert_closed(&mut client).await;
        served.await.expect("no panic").expect("closed in good order");
        assert_eq!((ended(&limits), timer.pending()), ((0, 1, 0), 0));
    });
}

#[test]
fn a_slow_request_is_answered_with_504_and_the_connection_is_kept() {
    with_limits(|timer, clock, limits| async move {
        let (mut client, served) = served(&timer, &limits).await;
        send(&mut client, "GET /never HTTP/1.1\r\nHost: a\r\n\r\n").await;
        until("the request is being served", || timer.pending() == 2).await;
        clock.advance(REQUEST - NS);
        assert_eq!(ended(&limits), (0, 0, 0));
        clock.advance(NS);
        let head = head(&mut client).await;
        assert!(head.starts_with("HTTP/1.1 504 ") && head.contains("content-length: 0"), "{head}");
        ask(&mut client, "/").await;
        assert_eq!((ended(&limits), served.is_finished()), ((0, 0, 1), false));
    });
}

#[test]
fn a_request_that_does_not_send_its_body_is_answered_with_408() {
    without_tokios_timer("a server", async {
        let (timer, clock) = on_workers(Timer::builder());
        let limits = limits(&timer).request(REQUEST, StatusCode::REQUEST_TIMEOUT);
        let (mut client, _served) = served(&timer, &limits).await;
        send(&mut client, "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel").await;
        until("the request is being served", || timer.pending() == 2).await;
        clock.advance(REQUEST);
        assert!(head(&mut client).await.starts_with("HTTP/1.1 408"));
        assert_eq!(ended(&limits), (0, 0, 1));
    });
}

#[test]
fn a_busy_connection_is_left_alone() {
    without_tokios_timer("a server", async {
        let (timer, clock) = on_workers(Timer::builder());
        let limits = Limits::new(timer.clone()).header(HEADER).idle(IDLE);
        let (mut client, served) = served(&timer, &limits).await;
        let busy = 3 * IDLE;
        let asks = tokio::spawn(async move {
            ask(&mut client, &format!("/{}", busy.as_millis())).await;
            client
        });
        until("the request is being served", || timer.pending() == 2).await;
        clock.advance(busy - NS);
        tokio::task::yield_now().await;
        assert!(!asks.is_finished() && !served.is_finished());
        let before = steps(&timer);
        clock.advance(NS);
        let mut client = asks.await.expect("an answer");
        until("the server waits for the next request", || steps(&timer) > before).await;
        clock.advance(IDLE - NS);
        tokio::task::yield_now().await;
        assert_eq!((ended(&limits), served.is_finished()), ((0, 0, 0), false), "idle only since then");
        clock.advance(NS);
        assert_closed(&mut client).await;
        assert_eq!(ended(&limits), (0, 1, 0));
    });
}

/// Serves one connection with one request, the body of whose answer the test writes.
async fn streamed(limits: &Limits) -> (TcpStream, Served, Sender<Bytes>) {
    let (client, stream) = connection().await;
    let (writes, body) = Channel::<Bytes>::new(1);
    let body = Mutex::new(Some(body));
    let service = service_fn(move |_| {
        let body = body.lock().expect("no panic").take().expect("one request");
        std::future::ready(Ok::<_, Infallible>(Response::new(body.boxed())))
    });
    let (io, service) = limits.apply(stream, service);
    (client, tokio::spawn(http1::Builder::new().serve_connection(io, service)), writes)
}

#[test]
fn an_answer_whose_body_pauses_is_left_alone() {
    with_limits(|timer, clock, limits| async move {
        let (mut client, served, mut writes) = streamed(&limits).await;
        send(&mut client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let mut answer = Vec::new();
        for word in ["one", "two", "three"] {
            writes.send_data(word.into()).await.expect("it is read");
            while !answer.ends_with(format!("{word}\r\n").as_bytes()) {
                assert_ne!(client.read_buf(&mut answer).await.expect("it goes on"), 0);
            }
            clock.advance(3 * IDLE);
            tokio::task::yield_now().await;
        }
        let before = steps(&timer);
        drop(writes);
        until("the server waits for the next request", || steps(&timer) > before).await;
        assert_eq!((ended(&limits), served.is_finished()), ((0, 0, 0), false));
        clock.advance(IDLE);
        served.await.expect("no panic").expect("closed in good order");
        assert_eq!(ended(&limits), (0, 1, 0));
    });
}

#[test]
fn a_client_that_does_not_take_its_answer_is_closed_but_not_while_it_takes_some() {
    with_limits(|timer, clock, limits| async move {
        let (mut client, served, mut writes) = streamed(&limits).await;
        send(&mut client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        // More than the buffers of two sockets hold.
        const LEN: usize = 64 << 20;
        writes.send_data(vec![b'a'; LEN].into()).await.expect("it is read");
        let (mut before, mut taken) = (0, vec![0; 8 << 20]);
        for _ in 0..3 {
            until("the server can't write on", || steps(&timer) > before).await;
            clock.advance(IDLE - MS);
            before = steps(&timer);
            client.read_exact(&mut taken).await.expect("it is left alone");
        }
        until("the server closes it", || {
            clock.advance(IDLE);
            served.is_finished()
        })
        .await;
        assert_timed_out(served).await;
        assert_eq!(ended(&limits), (0, 1, 0));
    });
}

#[test]
fn a_connection_has_one_timeout_whatever_it_is_asked() {
    with_limits(|timer, _clock, limits| async move {
        let (mut client, _served) = served(&timer, &limits).await;
        let before = timer.stats();
        for _ in 0..50 {
            ask_and_be_idle(&timer, &mut client).await;
        }
        let after = timer.stats();
        assert_eq!((after.scheduled, after.pending), (before.scheduled, 1), "it is moved, and no other is made");
        assert_eq!(after.reset - before.reset, 50, "once for each request");
    });
}

#[test]
fn without_limits_nothing_is_scheduled_and_nothing_ends() {
    without_tokios_timer("a server", async {
        let (timer, clock) = on_workers(Timer::builder());
        let limits = Limits::new(timer.clone());
        let (mut client, stream) = connection().await;
        let (io, service) = limits.apply(stream, service_fn(hello));
        let served = tokio::spawn(http1::Builder::new().serve_connection(io, service));
        for _ in 0..3 {
            ask(&mut client, "/").await;
            clock.advance(HOUR);
            tokio::task::yield_now().await;
        }
        assert_eq!((timer.stats().scheduled, served.is_finished()), (0, false));
    });
}

#[test]
fn an_upgraded_connection_has_no_limits() {
    with_limits(|_timer, clock, limits| async move {
        let (mut client, stream) = connection().await;
        let service = service_fn(|mut request: Request<Incoming>| async move {
            tokio::spawn(async move {
                let upgraded = hyper::upgrade::on(&mut request).await.expect("it is upgraded");
                let (mut read, mut write) = tokio::io::split(TokioIo::new(upgraded));
                tokio::io::copy(&mut read, &mut write).await
            });
            let answer = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS).header(header::UPGRADE, "echo");
            Ok::<_, Infallible>(answer.body(Full::<Bytes>::default()).expect("it makes sense"))
        });
        let (io, service) = limits.apply(stream, service);
        tokio::spawn(http1::Builder::new().serve_connection(io, service).with_upgrades());
        send(&mut client, "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n").await;
        head(&mut client).await;
        for _ in 0..3 {
            clock.advance(3 * IDLE);
            tokio::task::yield_now().await;
            send(&mut client, "echo").await;
            let mut echo = [0; 4];
            client.read_exact(&mut echo).await.expect("it is left alone");
            assert_eq!(&echo, b"echo");
        }
        assert_eq!(ended(&limits), (0, 0, 0));
    });
}

#[test]
fn a_graceful_shutdown_closes_a_limited_connection_that_is_idle() {
    with_limits(|timer, _clock, limits| async move {
        let (mut client, stream) = connection().await;
        let (io, service) = limits.apply(stream, service_fn(hello));
        let graceful = GracefulShutdown::new();
        tokio::spawn(graceful.watch(http1::Builder::new().serve_connection(io, service)));
        ask(&mut client, "/").await;
        graceful.shutdown().await;
        assert_closed(&mut client).await;
        assert_eq!((ended(&limits), timer.pending()), ((0, 0, 0), 0));
    });
}

#[test]
fn a_request_that_waits_when_the_engine_is_shut_down_is_answered_with_503() {
    with_limits(|timer, _clock, limits| async move {
        let (mut client, _served) = served(&timer, &limits).await;
        send(&mut client, "GET /never HTTP/1.1\r\nHost: a\r\n\r\n").await;
        until("the request is being served", || timer.pending() == 2).await;
        timer.shutdown_async(tourbillon::Shutdown::Cancel).await.expect("it is the first");
        assert!(head(&mut client).await.starts_with("HTTP/1.1 503"));
    });
}

/// Serves one connection with HTTP/2. Returns the client, and what ends with its connection.
async fn served_by_http_2(timer: &Timer, limits: &Limits) -> (SendRequest<Empty<Bytes>>, Served, Served) {
    let (client, stream) = connection().await;
    let own = timer.clone();
    let (io, service) = limits.apply(stream, service_fn(move |request| answer(own.clone(), request)));
    let served = async move {
        let error = auto::Builder::new(TokioExecutor::new()).serve_connection(io, service).await.err();
        error.map_or(Ok(()), |error| Err(*error.downcast::<hyper::Error>().expect("one of hyper's")))
    };
    let served = tokio::spawn(served);
    let (client, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(client)).await.expect("it speaks HTTP/2");
    (client, served, tokio::spawn(connection))
}

/// Sends a request, and returns the status of the answer, whose body it takes.
async fn status(client: &SendRequest<Empty<Bytes>>, path: &str) -> StatusCode {
    let request = Request::get(format!("http://a{path}")).body(Empty::new()).expect("it makes sense");
    let answer = client.clone().send_request(request).await.expect("an answer");
    let status = answer.status();
    answer.collect().await.expect("its body");
    status
}

#[test]
fn an_http_2_connection_is_closed_when_it_has_had_no_stream_for_a_while_and_not_before() {
    without_tokios_timer("a server", async {
        let (timer, clock) = on_workers(Timer::builder());
        let limits = Limits::new(timer.clone()).header(HEADER).idle(IDLE);
        let (client, served, connection) = served_by_http_2(&timer, &limits).await;
        let busy = {
            let client = client.clone();
            tokio::spawn(async move { status(&client, &format!("/{}", (5 * IDLE).as_millis())).await })
        };
        until("the request is being served", || timer.pending() == 2).await;
        for _ in 0..5 {
            assert_eq!(status(&client, "/").await, StatusCode::OK);
            clock.advance(IDLE);
        }
        assert_eq!(busy.await.expect("no panic"), StatusCode::OK);
        let before = steps(&timer);
        assert_eq!(status(&client, "/").await, StatusCode::OK);
        until("the server waits for the next request", || steps(&timer) > before).await;
        clock.advance(IDLE - MS);
        tokio::task::yield_now().await;
        assert_eq!((ended(&limits), served.is_finished()), ((0, 0, 0), false));
        clock.advance(IDLE + MS);
        served.await.expect("no panic").expect("closed in good order");
        // No GOAWAY comes before the end, which the client may take for an error.
        let _ = connection.await.expect("no panic");
        assert_eq!(ended(&limits), (0, 1, 0));
    });
}

#[test]
fn each_request_of_an_http_2_connection_has_a_limit_of_its_own() {
    with_limits(|timer, clock, limits| async move {
        let (client, _served, _connection) = served_by_http_2(&timer, &limits).await;
        let slow = {
            let client = client.clone();
            tokio::spawn(async move { status(&client, "/never").await })
        };
        until("the request is being served", || timer.stats().scheduled >= 2).await;
        clock.advance(REQUEST - MS);
        assert_eq!(status(&client, "/").await, StatusCode::OK);
        assert!(!slow.is_finished());
        clock.advance(MS);
        assert_eq!(slow.await.expect("no panic"), StatusCode::GATEWAY_TIMEOUT);
        assert_eq!(status(&client, "/").await, StatusCode::OK);
        assert_eq!(ended(&limits), (0, 0, 1));
    });
}

#[test]
fn an_http_2_connection_that_asks_for_nothing_is_closed() {
    with_limits(|timer, clock, limits| async move {
        let (_client, served, _connection) = served_by_http_2(&timer, &limits).await;
        until("the server waits for a header", || timer.pending() == 1).await;
        clock.advance(HEADER);
        let _ = served.await.expect("no panic");
        assert_eq!(ended(&limits), (1, 0, 0));
    });
}
