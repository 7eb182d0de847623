//! A time limit for a service's requests, as a layer: like tower's own `timeout`, but without
//! Tokio's timer. (Feature `tower`.)
//!
//! ```
//! use std::time::Duration;
//! use tourbillon::{Elapsed, Timer};
//! use tourbillon::tower::TimeoutLayer;
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # pollster::block_on(async {
//! let timer = Timer::new()?;
//! let service = ServiceBuilder::new()
//!     .layer(TimeoutLayer::new(timer, Duration::from_millis(5)))
//!     .service(service_fn(|_: &str| std::future::pending::<Result<(), std::io::Error>>()));
//! let error = service.oneshot("a request").await.expect_err("there is no answer");
//! assert!(error.is::<Elapsed>());
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! That layer ends a request that takes too long with an error. A router of axum takes no service
//! that fails, so [`TimeoutLayer::with_status`] answers such a request with an empty response, as
//! tower-http's layer does, and [`TimeoutLayer::with_response`] with one of yours:
//!
//! ```
//! # use std::convert::Infallible;
//! # use std::time::Duration;
//! # use hyper::{Request, Response, StatusCode};
//! # use tourbillon::Timer;
//! # use tourbillon::tower::TimeoutLayer;
//! # use tower::{ServiceBuilder, ServiceExt, service_fn};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # pollster::block_on(async {
//! # let timer = Timer::new()?;
//! // For axum: `Router::new().route("/", get(handler)).layer(limit)`.
//! let limit = Duration::from_millis(5);
//! let limit = TimeoutLayer::with_status(timer, limit, StatusCode::GATEWAY_TIMEOUT);
//! # type Answer = Result<Response<String>, Infallible>;
//! # let slow = service_fn(|_: Request<()>| std::future::pending::<Answer>());
//! let answer = ServiceBuilder::new().layer(limit).service(slow).oneshot(Request::new(())).await?;
//! assert_eq!(answer.status(), StatusCode::GATEWAY_TIMEOUT);
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! The example `integrations/examples/axum_timeout.rs` is a complete server.
//!
//! A limit goes by its timer's clock, and not by
//! [Tokio's stopped clock](crate::ManualClock#tokios-stopped-clock): in a test with `start_paused`
//! a handler that sleeps by Tokio's clock may be ready before any limit ends. Such a test gives the
//! layer, and the handler, a [`Timer`] with a `ManualClock`.
//!
//! All limit the time up to the response, which includes the time that the service takes to read
//! the request's body. They do not limit the time that the response's body takes, nor do they know
//! of a client that sends half a header, or nothing more: that takes a limit of the connection, and
//! `tourbillon-hyper` has those, also for an axum router.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ::http::{Response, StatusCode};
use ::pin_project_lite::pin_project;
use ::tower_layer::Layer;
use ::tower_service::Service;

use crate::future::{Elapsed, TimeoutFuture};
use crate::timer::Timer;
use late::Late;

/// The same error type as tower's.
type BoxError = Box<dyn Error + Send + Sync>;

/// The outcome of a request that takes too long: an error, which is an [`Elapsed`](crate::Elapsed)
/// in a box. The other choices are a [`StatusCode`], and [`AsResponse`].
///
/// [`StatusCode`]: https://docs.rs/http/1/http/status/struct.StatusCode.html
#[derive(Clone, Copy, Debug)]
pub struct AsError;

/// The outcome of a request that takes too long: the response that a closure returns. Made by
/// [`TimeoutLayer::with_response`].
#[derive(Clone, Copy)]
pub struct AsResponse<F>(F);

impl<F> fmt::Debug for AsResponse<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AsResponse")
    }
}

/// A layer that limits the time of each request to the services that it wraps: see [`Timeout`].
#[derive(Clone, Debug)]
pub struct TimeoutLayer<Late = AsError> {
    timer: Timer,
    late: Late,
    limit: Duration,
}

impl TimeoutLayer {
    /// Makes a layer with a time limit that `timer` measures. A request that takes too long ends
    /// with an error. Never fails. Schedules nothing before a request has to wait.
    #[must_use]
    pub fn new(timer: Timer, limit: Duration) -> Self {
        Self { timer, late: AsError, limit }
    }
}

impl TimeoutLayer<StatusCode> {
    /// Makes a layer with a time limit that `timer` measures. A request that takes too long is
    /// answered with an empty response of this status. Never fails. Schedules nothing before a
    /// request has to wait.
    ///
    /// If the timer is shut down while requests wait, they are answered with 503 (Service
    /// Unavailable).
    #[must_use]
    pub fn with_status(timer: Timer, limit: Duration, status: StatusCode) -> Self {
        Self { timer, late: status, limit }
    }

    /// [`with_status`](Self::with_status) on the [global](Timer::global) engine, with the name and
    /// the arguments that tower-http gives it: to move from there, import this `TimeoutLayer`
    /// instead. A test that stops Tokio's clock needs `with_status` and a timer of its own: see
    /// [the module](self).
    ///
    /// ```
    /// use std::time::Duration;
    /// use hyper::StatusCode; // `axum::http` and `http` have the same
    /// use tourbillon::tower::TimeoutLayer; // and not `tower_http::timeout::TimeoutLayer`
    ///
    /// let limit = Duration::from_secs(5);
    /// let layer = TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, limit);
    /// # drop(layer);
    /// ```
    ///
    /// # Panics
    /// Panics if there is no memory for the global engine: see [`Timer::global`].
    #[must_use]
    pub fn with_status_code(status: StatusCode, limit: Duration) -> Self {
        Self::with_status(Timer::global().clone(), limit, status)
    }
}

impl<F> TimeoutLayer<AsResponse<F>> {
    /// Makes a layer with a time limit that `timer` measures. A request that takes too long is
    /// answered with what `response` returns, and so is one that waits while the timer is shut
    /// down. Never fails. Schedules nothing before a request has to wait.
    ///
    /// The closure returns the service's own type of response. For axum it ends with
    /// `.into_response()`.
    ///
    /// ```
    /// # use std::convert::Infallible;
    /// # use hyper::Request;
    /// # use tower::{ServiceBuilder, ServiceExt, service_fn};
    /// use std::time::Duration;
    /// use hyper::{Response, StatusCode}; // `axum::http` and `http` have the same
    /// use tourbillon::{Timer, tower::TimeoutLayer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # pollster::block_on(async {
    /// // For axum: `|| (StatusCode::GATEWAY_TIMEOUT, Json(error)).into_response()`.
    /// let late = || {
    ///     let mut answer = Response::new(r#"{"error": "too late"}"#.to_string());
    ///     *answer.status_mut() = StatusCode::GATEWAY_TIMEOUT;
    ///     answer
    /// };
    /// let limit = TimeoutLayer::with_response(Timer::new()?, Duration::from_millis(5), late);
    /// # let slow = service_fn(|_: Request<()>| std::future::pending::<Result<_, Infallible>>());
    /// # let service = ServiceBuilder::new().layer(limit).service(slow);
    /// # let answer = service.oneshot(Request::new(())).await?;
    /// # assert_eq!(answer.body(), r#"{"error": "too late"}"#);
    /// # Ok(())
    /// # })
    /// # }
    /// ```
    #[must_use]
    pub fn with_response<Response>(timer: Timer, limit: Duration, response: F) -> Self
    where
        F: Fn() -> Response + Clone,
    {
        Self { timer, late: AsResponse(response), limit }
    }
}

impl<S, Late: Clone> Layer<S> for TimeoutLayer<Late> {
    type Service = Timeout<S, Late>;

    fn layer(&self, inner: S) -> Timeout<S, Late> {
        let Self { timer, late, limit } = self.clone();
        Timeout { timer, late, limit, inner }
    }
}

/// A service whose requests have a time limit. Made by [`TimeoutLayer`], or by [`new`](Self::new)
/// and [`with_status`](Self::with_status); one that answers by a closure only by the layer.
///
/// As with [`Timer::timeout`], the time of a request counts from when its response is first polled
/// and not ready. A response that is ready at once costs no read of the clock. The time that the
/// service takes to be ready for a request does not count. Does not block. Allocates only the box
/// of an error. A response that comes too late is dropped with its [`ResponseFuture`]. On a timer
/// that is full, a request that waits is polled again and again, as [`Sleep`](crate::Sleep) says.
///
/// # Errors
/// With [`AsError`]: the inner service's error in a box; or, when the time is up, an
/// [`Elapsed`](crate::Elapsed) in a box, which `error.is::<tourbillon::Elapsed>()` detects. With a
/// [`StatusCode`] or [`AsResponse`]: the inner service's error as it is.
///
/// [`StatusCode`]: https://docs.rs/http/1/http/status/struct.StatusCode.html
#[derive(Clone, Debug)]
pub struct Timeout<S, Late = AsError> {
    timer: Timer,
    late: Late,
    limit: Duration,
    inner: S,
}

impl<S> Timeout<S> {
    /// Makes a service with a time limit that `timer` measures. A request that takes too long ends
    /// with an error.
    #[must_use]
    pub fn new(timer: Timer, limit: Duration, inner: S) -> Self {
        Self { timer, late: AsError, limit, inner }
    }
}

impl<S> Timeout<S, StatusCode> {
    /// Makes a service with a time limit that `timer` measures. A request that takes too long is
    /// answered as [`TimeoutLayer::with_status`] says.
    #[must_use]
    pub fn with_status(timer: Timer, limit: Duration, status: StatusCode, inner: S) -> Self {
        Self { timer, late: status, limit, inner }
    }
}

impl<S, Late> Timeout<S, Late> {
    /// Returns the inner service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Returns the inner service.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Returns the inner service, without the limit.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, Request, L> Service<Request> for Timeout<S, L>
where
    S: Service<Request>,
    L: Late<S::Response, S::Error> + Clone,
{
    type Response = S::Response;
    type Error = L::Error;
    type Future = ResponseFuture<S::Future, L>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), L::Error>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request) -> ResponseFuture<S::Future, L> {
        ResponseFuture { limited: self.timer.timeout(self.limit, self.inner.call(request)), late: self.late.clone() }
    }
}

pin_project! {
    /// The response to a request, or what becomes of one that took too long. Made by [`Timeout`].
    /// Dropping it cancels the request.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are awaited or polled"]
    pub struct ResponseFuture<F, Late = AsError> {
        #[pin]
        limited: TimeoutFuture<F>,
        late: Late,
    }
}

impl<F, Response, E, L> Future for ResponseFuture<F, L>
where
    F: Future<Output = Result<Response, E>>,
    L: Late<Response, E>,
{
    type Output = Result<Response, L::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        Poll::Ready(match ready!(this.limited.poll(context)) {
            Ok(answer) => answer.map_err(Into::into),
            Err(elapsed) => this.late.end(elapsed),
        })
    }
}

mod late {
    /// How a request ends that took too long, or whose timer was shut down.
    pub trait Late<Response, E> {
        type Error: From<E>;

        fn end(&self, elapsed: crate::Elapsed) -> Result<Response, Self::Error>;
    }
}

impl<Response, E> Late<Response, E> for AsError
where
    BoxError: From<E>,
{
    type Error = BoxError;

    fn end(&self, elapsed: Elapsed) -> Result<Response, BoxError> {
        Err(elapsed.into())
    }
}

impl<Body: Default, E> Late<Response<Body>, E> for StatusCode {
    type Error = E;

    fn end(&self, elapsed: Elapsed) -> Result<Response<Body>, E> {
        let mut answer = Response::new(Body::default());
        *answer.status_mut() = if elapsed.is_shutdown() { StatusCode::SERVICE_UNAVAILABLE } else { *self };
        Ok(answer)
    }
}

impl<F: Fn() -> Response, Response, E> Late<Response, E> for AsResponse<F> {
    type Error = E;

    fn end(&self, _: Elapsed) -> Result<Response, E> {
        Ok(self.0())
    }
}
