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

use axum::error_handling::HandleErrorLayer;
use axum::http::StatusCode;
use axum::{BoxError, Router, routing::get};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tourbillon::tower::{ResponseFuture, Timeout, TimeoutLayer};
use tourbillon::{Elapsed, Timer};
use tower::{Layer, Service, ServiceBuilder, service_fn};

use common::{HOUR, MS, driven, in_time};

const NS: Duration = Duration::from_nanos(1);

fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_request_that_takes_too_long_has_elapsed_and_not_a_nanosecond_before() {
    let (timer, mut driver, clock) = driven();
    let mut service =
        TimeoutLayer::new(timer.clone(), 5 * MS).layer(service_fn(|()| pending::<Result<(), io::Error>>()));
    let mut answer = pin!(service.call(()));
    assert!(poll(answer.as_mut()).is_pending());
    clock.advance(5 * MS - NS);
    driver.turn();
    assert!(poll(answer.as_mut()).is_pending());
    clock.advance(NS);
    driver.turn();
    let Poll::Ready(Err(error)) = poll(answer.as_mut()) else { panic!("in time?") };
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
    check::<TimeoutLayer>();
    check::<Timeout<u32>>();
    check::<ResponseFuture<std::future::Ready<Result<(), io::Error>>>>();
    let service = TimeoutLayer::new(driven().0, MS).clone().layer(7).clone();
    assert!(format!("{service:?}").ends_with("limit: 1ms, inner: 7 }"), "{service:?}");
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
