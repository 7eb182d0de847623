//! A service whose connection has limits: its response, and the response's body.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Frame, SizeHint};
use hyper::service::Service;
use hyper::{Method, Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tourbillon::{Elapsed, TimeoutFuture};

use crate::connection::{Connection, Serving};

/// A service whose connection has limits. Made by [`Limits::apply`](crate::Limits::apply).
///
/// # Errors
/// The inner service's.
#[derive(Debug)]
pub struct LimitedService<S> {
    service: S,
    connection: Arc<Connection>,
}

impl<S> LimitedService<S> {
    pub(super) fn new(service: S, connection: Arc<Connection>) -> Self {
        Self { service, connection }
    }
}

impl<S, Content, Answer> Service<Request<Content>> for LimitedService<S>
where
    S: Service<Request<Content>, Response = Response<Answer>>,
    Answer: Default,
{
    type Response = Response<LimitedBody<Answer>>;
    type Error = S::Error;
    type Future = LimitedFuture<S::Future>;

    fn call(&self, request: Request<Content>) -> LimitedFuture<S::Future> {
        let serving = Some(self.connection.begin(request.version()));
        let is_connect = request.method() == Method::CONNECT;
        let answer = self.service.call(request);
        let settings = &self.connection.settings;
        let answer = match settings.request {
            Some((limit, status)) => Limited::By { answer: settings.timer.timeout(limit, answer), status },
            None => Limited::Not { answer },
        };
        LimitedFuture { answer, serving, is_connect }
    }
}

pin_project! {
    /// The response of a [`LimitedService`]. Dropping it cancels the request.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are awaited or polled"]
    pub struct LimitedFuture<F> {
        #[pin]
        answer: Limited<F>,
        serving: Option<Serving>,
        is_connect: bool,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = LimitedProjection]
    enum Limited<F> {
        By { #[pin] answer: TimeoutFuture<F>, status: StatusCode },
        Not { #[pin] answer: F },
    }
}

impl<F, Answer, E> Future for LimitedFuture<F>
where
    F: Future<Output = Result<Response<Answer>, E>>,
    Answer: Default,
{
    type Output = Result<Response<LimitedBody<Answer>>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = match this.answer.project() {
            LimitedProjection::Not { answer } => ready!(answer.poll(context)),
            LimitedProjection::By { answer, status } => ready!(answer.poll(context)).unwrap_or_else(|elapsed| {
                if let Some(serving) = &this.serving {
                    serving.connection().settings.counts.request.fetch_add(1, Ordering::Relaxed);
                }
                Ok(late_answer(elapsed, *status))
            }),
        };
        let serving = this.serving.take();
        Poll::Ready(answer.map(|answer| {
            let status = answer.status();
            let is_upgrade = status == StatusCode::SWITCHING_PROTOCOLS || *this.is_connect && status.is_success();
            if let Some(serving) = serving.as_ref().filter(|_| is_upgrade) {
                serving.connection().upgrade();
            }
            answer.map(|body| LimitedBody { body, serving })
        }))
    }
}

pin_project! {
    /// The body of a response of a [`LimitedService`]. Its connection is not idle until hyper has
    /// dropped it.
    #[derive(Debug)]
    pub struct LimitedBody<B> {
        #[pin]
        body: B,
        serving: Option<Serving>,
    }
}

impl<B: Body> Body for LimitedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.project().body.poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Makes the answer to a request that took too long, or whose timer was shut down.
fn late_answer<Body: Default>(elapsed: Elapsed, status: StatusCode) -> Response<Body> {
    let mut answer = Response::new(Body::default());
    *answer.status_mut() = if elapsed.is_shutdown() { StatusCode::SERVICE_UNAVAILABLE } else { status };
    answer
}
