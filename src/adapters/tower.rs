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
//! axum's routers only take layers whose errors are responses already. So put a layer in front that
//! turns errors into responses, with
//! `ServiceBuilder::new().layer(HandleErrorLayer::new(answer)).layer(TimeoutLayer::new(timer,
//! limit))`. There `answer` is an `async fn(BoxError) -> impl IntoResponse`. The example
//! `integrations/examples/axum_timeout.rs` is a complete server.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ::tower_layer::Layer;
use ::tower_service::Service;

use crate::{TimeoutFuture, Timer};

/// The same error type as tower's.
type BoxError = Box<dyn Error + Send + Sync>;

/// A layer that limits the time of each request to the services that it wraps: see [`Timeout`].
#[derive(Clone, Debug)]
pub struct TimeoutLayer {
    timer: Timer,
    limit: Duration,
}

impl TimeoutLayer {
    /// Makes a layer with a time limit that `timer` measures. Never fails. Schedules nothing before
    /// a request has to wait.
    #[must_use]
    pub fn new(timer: Timer, limit: Duration) -> Self {
        Self { timer, limit }
    }
}

impl<S> Layer<S> for TimeoutLayer {
    type Service = Timeout<S>;

    fn layer(&self, inner: S) -> Timeout<S> {
        Timeout::new(self.timer.clone(), self.limit, inner)
    }
}

/// A service whose requests have a time limit. Made by [`TimeoutLayer`], or by [`new`](Self::new).
///
/// As with [`Timer::timeout`], the time of a request counts from when its response is first polled
/// and not ready. A response that is ready at once costs no read of the clock. The time that the
/// service takes to be ready for a request does not count. Does not block. Allocates only the box
/// of an error.
///
/// # Errors
/// The inner service's error in a box; or, when the time is up, an [`Elapsed`](crate::Elapsed) in a
/// box, which `error.is::<tourbillon::Elapsed>()` detects. A response that comes too late is
/// dropped with its [`ResponseFuture`].
#[derive(Clone, Debug)]
pub struct Timeout<S> {
    timer: Timer,
    limit: Duration,
    inner: S,
}

impl<S> Timeout<S> {
    /// Makes a service with a time limit that `timer` measures.
    #[must_use]
    pub fn new(timer: Timer, limit: Duration, inner: S) -> Self {
        Self { timer, limit, inner }
    }

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

impl<S, Request> Service<Request> for Timeout<S>
where
    S: Service<Request, Error: Into<BoxError>>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request) -> ResponseFuture<S::Future> {
        ResponseFuture(self.timer.timeout(self.limit, self.inner.call(request)))
    }
}

/// The response to a request, or the error that it took too long. Made by [`Timeout`]. Dropping it
/// cancels the request.
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited or polled"]
pub struct ResponseFuture<F>(TimeoutFuture<F>);

impl<F, Response, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Response, BoxError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the only field is pinned with the whole: nothing moves it out, and the type has
        // no `Drop`.
        let limited = unsafe { self.map_unchecked_mut(|this| &mut this.0) };
        Poll::Ready(match ready!(limited.poll(context)) {
            Ok(answer) => answer.map_err(Into::into),
            Err(elapsed) => Err(elapsed.into()),
        })
    }
}
