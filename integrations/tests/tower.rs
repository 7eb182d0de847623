//! The layer, on a clock that the test moves, and on a server with sockets, whose runtime has no
//! timer.

#[path = "../../tests/common/mod.rs"]
mod common;

use std::future::{Future, pending, ready};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::error_handling::HandleErrorLayer;
use axum::http::{Request, Response, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{BoxError, Json, Router};
use http_body_util::BodyExt;
use hyper::body::Frame;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tourbillon::tower::{AsError, AsResponse, ResponseFuture, Timeout, TimeoutLayer};
use tourbillon::{Driver, Elapsed, ManualClock, Timer};
use tower::{Layer, Service, ServiceBuilder, service_fn};

use common::{HOUR, MS, driven, in_time};

const NS: Duration = Duration::from_nanos(1);

fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls an answer that is never there. Returns what comes of it when its time is up, and asserts
/// that nothing does a nanosecond before.
fn when_the_time_is_up<F: Future>(
    mut answer: Pin<&mut F>,
    limit: Duration,
    driver: &mut Driver,
    clock: &ManualClock,
) -> F::Output {
    assert!(poll(answer.as_mut()).is_pending());
    clock.advance(limit - NS);
    driver.turn();
    assert!(poll(answer.as_mut()).is_pending());
    clock.advance(NS);
    driver.turn();
    let Poll::Ready(output) = poll(answer) else { panic!("in time?") };
    output
}

#[test]
fn a_request_that_takes_too_long_has_elapsed_and_not_a_nanosecond_before() {
    let (timer, mut driver, clock) = driven();
    let mut service =
        TimeoutLayer::new(timer.clone(), 5 * MS).layer(service_fn(|()| pending::<Result<(), io::Error>>()));
    let answer = pin!(service.call(()));
    let error = when_the_time_is_up(answer, 5 * MS, &mut driver, &clock).expect_err("it is too late");
    assert!(error.is::<Elapsed>() && timer.pending() == 0, "{error}");
}

#[test]
fn an_answer_in_time_passes_through_and_one_at_once_touches_no_timer() {
    let (timer, mut driver, clock) = driven();
    let layer = TimeoutLayer::new(timer.clone(), 5 * MS);
    let mut at_once = layer.layer(service_fn(|n: u32| ready(Ok::<_, io::Error>(n + 1))));
    assert!(matches!(poll(pin!(at_once.call(1))), Poll::Ready(Ok(2))));
    assert_eq!(timer.stats().scheduled, 0);

    let sleeper = timer.clone();
    let mut soon = layer.layer(service_fn(move |n: u32| {
        let sleep = sleeper.sleep(4 * MS);
        async move {
            sleep.await;
            Ok::<_, io::Error>(n + 1)
        }
    }));
    let mut answer = Box::pin(soon.call(2));
    assert!(poll(answer.as_mut()).is_pending());
    clock.advance(4 * MS);
    driver.turn();
    assert!(matches!(poll(answer.as_mut()), Poll::Ready(Ok(3))));
    drop(answer);
    assert_eq!(timer.pending(), 0, "the limit goes with its answer");
}

#[test]
fn the_limit_counts_from_each_request_and_none_shares_it() {
    let (timer, mut driver, clock) = driven();
    let mut service = TimeoutLayer::new(timer, 5 * MS).layer(service_fn(|()| pending::<Result<(), io::Error>>()));
    let mut first = pin!(service.call(()));
    assert!(poll(first.as_mut()).is_pending());
    clock.advance(3 * MS);
    driver.turn();
    let mut second = pin!(service.clone().call(()));
    assert!(poll(second.as_mut()).is_pending());
    clock.advance(2 * MS);
    driver.turn();
    assert!(poll(first).is_ready() && poll(second.as_mut()).is_pending());
    clock.advance(3 * MS);
    driver.turn();
    assert!(poll(second).is_ready());
}

/// Is ready for requests once the test says so, or never if it is broken.
struct Moody {
    is_ready: Arc<AtomicBool>,
    is_broken: bool,
}

impl Service<()> for Moody {
    type Response = ();
    type Error = io::Error;
    type Future = std::future::Ready<io::Result<()>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_broken {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if self.is_ready.load(Ordering::Relaxed) { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn call(&mut self, (): ()) -> Self::Future {
        ready(Err(io::ErrorKind::NotFound.into()))
    }
}

fn kind(error: &BoxError) -> Option<io::ErrorKind> {
    error.downcast_ref::<io::Error>().map(io::Error::kind)
}

#[test]
fn the_answer_of_the_service_is_passed_on() {
    let (timer, _driver, _clock) = driven();
    let is_ready = Arc::<AtomicBool>::default();
    let moody = Moody { is_ready: Arc::clone(&is_ready), is_broken: false };
    let mut service = Timeout::new(timer, HOUR, moody);
    let mut context = Context::from_waker(Waker::noop());
    assert!(Service::poll_ready(&mut service, &mut context).is_pending());
    assert!(!service.get_ref().is_ready.swap(true, Ordering::Relaxed));
    assert!(matches!(Service::poll_ready(&mut service, &mut context), Poll::Ready(Ok(()))));
    let Poll::Ready(Err(error)) = poll(pin!(service.call(()))) else { panic!("an answer?") };
    assert_eq!(kind(&error), Some(io::ErrorKind::NotFound));
    service.get_mut().is_broken = true;
    let Poll::Ready(Err(error)) = Service::poll_ready(&mut service, &mut context) else { panic!("ready?") };
    assert_eq!(kind(&error), Some(io::ErrorKind::BrokenPipe));
    assert!(service.into_inner().is_broken);
}

#[test]
fn all_parts_can_be_sent_shared_and_printed() {
    fn check<T: Send + Sync + std::fmt::Debug>() {}
    check::<(AsError, TimeoutLayer, TimeoutLayer<StatusCode>)>();
    check::<(Timeout<u32>, Timeout<u32, StatusCode>)>();
    check::<(TimeoutLayer<AsResponse<fn()>>, Timeout<u32, AsResponse<fn()>>)>();
    check::<ResponseFuture<std::future::Ready<Result<(), io::Error>>>>();
    check::<ResponseFuture<std::future::Ready<Result<Response<String>, io::Error>>, StatusCode>>();
    let service = TimeoutLayer::new(driven().0, MS).clone().layer(7).clone();
    assert!(format!("{service:?}").ends_with("late: AsError, limit: 1ms, inner: 7 }"), "{service:?}");
    let service = TimeoutLayer::with_status(driven().0, MS, StatusCode::GATEWAY_TIMEOUT).clone().layer(7).clone();
    assert!(format!("{service:?}").ends_with("late: 504, limit: 1ms, inner: 7 }"), "{service:?}");
    let service = TimeoutLayer::with_response(driven().0, MS, || "a closure").clone().layer(7).clone();
    assert!(format!("{service:?}").ends_with("late: AsResponse, limit: 1ms, inner: 7 }"), "{service:?}");
}

fn request(method: &str, path: &str, body: Body) -> Request<Body> {
    Request::builder().method(method).uri(path).body(body).expect("it makes sense")
}

fn app_without_limit(timer: &Timer) -> Router {
    let sleeper = timer.clone();
    let slow = async move || {
        sleeper.sleep(4 * MS).await;
        "slow"
    };
    Router::new()
        .route("/fast", get(async || "fast"))
        .route("/slow", get(slow))
        .route("/never", get(pending::<&str>))
        .route("/broken", get(async || StatusCode::INTERNAL_SERVER_ERROR))
        .route("/upload", post(async |body: Bytes| body))
}

/// A router with one layer and nothing around it: `layer` takes only services that don't fail.
fn app(timer: &Timer) -> Router {
    app_without_limit(timer).layer(TimeoutLayer::with_status(timer.clone(), 5 * MS, StatusCode::GATEWAY_TIMEOUT))
}

fn body_of(answer: Response<Body>) -> Bytes {
    pollster::block_on(answer.into_body().collect()).expect("it is there").to_bytes()
}

#[test]
fn an_axum_router_answers_a_slow_request_with_the_status_and_not_a_nanosecond_before() {
    let (timer, mut driver, clock) = driven();
    let answer = pin!(app(&timer).call(request("GET", "/never", Body::empty())));
    let answer = when_the_time_is_up(answer, 5 * MS, &mut driver, &clock).expect("an answer, and no error");
    assert_eq!((answer.status(), timer.pending()), (StatusCode::GATEWAY_TIMEOUT, 0));
    assert!(body_of(answer).is_empty());
}

#[test]
fn an_axum_router_passes_on_what_is_in_time_whatever_its_status() {
    let (timer, mut driver, clock) = driven();
    let mut app = app(&timer);
    for (path, status) in [("/fast", 200), ("/broken", 500), ("/nowhere", 404)] {
        let Poll::Ready(Ok(answer)) = poll(pin!(app.call(request("GET", path, Body::empty())))) else {
            panic!("it takes no time")
        };
        assert_eq!(answer.status(), status, "{path}");
    }
    assert_eq!(timer.stats().scheduled, 0, "an answer at once touches no timer");
    let mut slow = pin!(app.call(request("GET", "/slow", Body::empty())));
    assert!(poll(slow.as_mut()).is_pending());
    clock.advance(4 * MS);
    driver.turn();
    let Poll::Ready(Ok(answer)) = poll(slow.as_mut()) else { panic!("it took 4 of 5 ms") };
    assert_eq!((answer.status(), body_of(answer)), (StatusCode::OK, Bytes::from("slow")));
}

/// A body that never ends.
struct Endless;

impl hyper::body::Body for Endless {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Pending
    }
}

#[test]
fn the_time_that_a_request_takes_to_send_its_body_counts() {
    let (timer, mut driver, clock) = driven();
    let mut answer = pin!(app(&timer).call(request("POST", "/upload", Body::new(Endless))));
    assert!(poll(answer.as_mut()).is_pending());
    clock.advance(5 * MS);
    driver.turn();
    let Poll::Ready(Ok(answer)) = poll(answer.as_mut()) else { panic!("the body never ends") };
    assert_eq!(answer.status(), StatusCode::GATEWAY_TIMEOUT);
}

#[test]
fn requests_that_wait_when_the_timer_is_shut_down_are_answered_with_503() {
    let (timer, _driver, _clock) = driven();
    let mut answer = pin!(app(&timer).call(request("GET", "/never", Body::empty())));
    assert!(poll(answer.as_mut()).is_pending());
    timer.shutdown().expect("it is the first");
    let Poll::Ready(Ok(answer)) = poll(answer.as_mut()) else { panic!("nothing would wake it") };
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[test]
fn a_layer_with_a_status_passes_the_services_own_error_on_as_it_is() {
    let (timer, _driver, _clock) = driven();
    let broken = service_fn(|()| ready(Err::<Response<String>, _>(io::Error::from(io::ErrorKind::NotFound))));
    let mut service = Timeout::with_status(timer, HOUR, StatusCode::REQUEST_TIMEOUT, broken);
    let Poll::Ready(Err(error)) = poll(pin!(service.call(()))) else { panic!("an answer?") };
    assert_eq!(io::Error::kind(&error), io::ErrorKind::NotFound);
}

/// The same router, whose late answers are JSON.
fn app_with_json(timer: &Timer) -> Router {
    let error = || (StatusCode::GATEWAY_TIMEOUT, Json("too late")).into_response();
    app_without_limit(timer).layer(TimeoutLayer::with_response(timer.clone(), 5 * MS, error))
}

#[test]
fn an_axum_router_answers_each_slow_request_with_what_a_closure_returns_and_not_a_nanosecond_before() {
    let (timer, mut driver, clock) = driven();
    let mut app = app_with_json(&timer);
    for _ in 0..2 {
        let answer = pin!(app.call(request("GET", "/never", Body::empty())));
        let answer = when_the_time_is_up(answer, 5 * MS, &mut driver, &clock).expect("an answer, and no error");
        assert_eq!((answer.status(), timer.pending()), (StatusCode::GATEWAY_TIMEOUT, 0));
        assert_eq!(body_of(answer), r#""too late""#);
    }
    let Poll::Ready(Ok(answer)) = poll(pin!(app.call(request("GET", "/fast", Body::empty())))) else {
        panic!("it takes no time")
    };
    assert_eq!(body_of(answer), "fast");
}

#[test]
fn a_closure_also_answers_the_requests_that_wait_when_the_timer_is_shut_down() {
    let (timer, _driver, _clock) = driven();
    let mut answer = pin!(app_with_json(&timer).call(request("GET", "/never", Body::empty())));
    assert!(poll(answer.as_mut()).is_pending());
    timer.shutdown().expect("it is the first");
    let Poll::Ready(Ok(answer)) = poll(answer.as_mut()) else { panic!("nothing would wake it") };
    assert_eq!((answer.status(), body_of(answer)), (StatusCode::GATEWAY_TIMEOUT, Bytes::from(r#""too late""#)));
}

#[test]
fn a_layer_with_a_response_needs_no_http_and_passes_the_services_own_error_on_as_it_is() {
    let (timer, mut driver, clock) = driven();
    let layer = TimeoutLayer::with_response(timer, 5 * MS, || "a line from the cache");
    let mut slow = layer.layer(service_fn(|()| pending::<io::Result<&str>>()));
    let answer = pin!(slow.call(()));
    let answer = when_the_time_is_up(answer, 5 * MS, &mut driver, &clock);
    assert_eq!(answer.expect("an answer"), "a line from the cache");
    let mut broken = layer.layer(service_fn(|()| ready(Err::<&str, _>(io::Error::from(io::ErrorKind::NotFound)))));
    let Poll::Ready(Err(error)) = poll(pin!(broken.call(()))) else { panic!("an answer?") };
    assert_eq!(io::Error::kind(&error), io::ErrorKind::NotFound);
}

#[test]
fn the_call_that_tower_http_has_limits_by_the_global_engine() {
    let late = service_fn(|()| pending::<io::Result<Response<String>>>());
    let mut service = TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, 2 * MS).layer(late);
    let answer = service.call(());
    let begun = Instant::now();
    let answer = in_time("an answer", || pollster::block_on(answer)).expect("an answer");
    assert!(begun.elapsed() >= 2 * MS, "after {:?}", begun.elapsed());
    assert_eq!((answer.status(), answer.body().len()), (StatusCode::REQUEST_TIMEOUT, 0));
    assert!(Timer::global().stats().fired > 0, "it was this engine that counted");
}

const LIMIT: Duration = Duration::from_millis(200);

async fn too_late(error: BoxError) -> (StatusCode, String) {
    let status = if error.is::<Elapsed>() { StatusCode::REQUEST_TIMEOUT } else { StatusCode::INTERNAL_SERVER_ERROR };
    (status, error.to_string())
}

#[test]
fn an_axum_server_answers_408_to_slow_requests_and_200_to_fast_ones() {
    let serve = async {
        let timer = Timer::new().expect("defaults");
        let limited =
            ServiceBuilder::new().layer(HandleErrorLayer::new(too_late)).layer(TimeoutLayer::new(timer.clone(), LIMIT));
        let app = Router::new()
            .route("/fast", get(async || "fast"))
            .route("/slow", get(pending::<&str>))
            .route("/broken", get(async || StatusCode::INTERNAL_SERVER_ERROR))
            .layer(limited);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        tokio::spawn(async { axum::serve(listener, app).await });
        for (path, status) in [("/fast", "200"), ("/slow", "408"), ("/broken", "500"), ("/fast", "200")] {
            let mut client = TcpStream::connect(address).await.expect("it listens");
            let asked = Instant::now();
            let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            client.write_all(request.as_bytes()).await.expect("the server reads");
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.expect("the server answers");
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {answer}");
            assert!(path != "/slow" || asked.elapsed() >= LIMIT, "408 after {:?}", asked.elapsed());
        }
        assert_eq!(timer.stats().fired, 1, "it was this engine that counted");
    };
    // This runtime has no timer: code that asks it for one panics.
    in_time("a server", || {
        tokio::runtime::Builder::new_current_thread().enable_io().build().expect("sockets").block_on(serve);
    });
}
