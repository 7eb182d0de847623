//! An HTTP service that leaves all of its timing to one engine, and a page that shows that engine
//! at work.
//!
//! ```text
//! cargo run --release -p tourbillon-integrations --example server [127.0.0.1:3000]
//! ```
//!
//! * **Request deadlines**: `/work/{ms}` takes as many milliseconds as its path says, and may take
//!   250: a `TimeoutLayer` answers 504 if it takes longer.
//! * **Idle connections and slow headers**: `tourbillon_hyper::Limits` closes a connection that is
//!   silent for five seconds, or whose client takes more than two to send a header. Each connection
//!   has one timeout, which its requests push out, each by a compare-and-swap.
//! * **A periodic job** takes a sample of the engine's statistics each second.
//!
//! The runtime has none of Tokio's own timers. `/` is the page, and `/stats` its data. Try it with
//! a load generator on `/work/5`. To see what an operator should not: `/panic` schedules a task
//! that panics, and `/block/{ms}` one that keeps its thread, for 20 s at most.

mod stats;

use std::error::Error;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::error_handling::HandleErrorLayer;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{Html, Json};
use axum::routing::get;
use axum::{BoxError, Router};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use stats::{History, Snapshot};
use tokio::net::{TcpListener, TcpStream};
use tourbillon::tower::TimeoutLayer;
use tourbillon::{ScheduleError, TimeoutGuard, Timer};
use tourbillon_hyper::Limits;
use tourbillon_integrations::accept;
use tower::{Service, ServiceBuilder};

const REQUEST: Duration = Duration::from_millis(250);
const IDLE: Duration = Duration::from_secs(5);
const HEADER: Duration = Duration::from_secs(2);
const SAMPLE: Duration = Duration::from_secs(1);
/// The levels of the wheels: the default. The page draws them.
const LEVELS: u32 = 4;
/// The longest that `/block/{ms}` blocks.
const BLOCK: Duration = Duration::from_secs(20);

/// The state that all connections share.
pub(crate) struct App {
    timer: Timer,
    requests: AtomicU64,
    timed_out: AtomicU64,
    connections: AtomicU64,
    limits: Limits,
    history: Mutex<History>,
}

impl App {
    pub(crate) fn new(timer: Timer) -> Arc<Self> {
        let [requests, timed_out, connections] = std::array::from_fn(|_| AtomicU64::new(0));
        let limits = Limits::new(timer.clone()).header(HEADER).idle(IDLE);
        let history = Mutex::new(History::new(&timer));
        Arc::new(Self { timer, requests, timed_out, connections, limits, history })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let address: SocketAddr = std::env::args().nth(1).as_deref().unwrap_or("127.0.0.1:3000").parse()?;
    // No `enable_time`: code that asks Tokio for the time would panic.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_io().build()?;
    // Expired timeouts run as tasks of the runtime, which has enough threads.
    let timer = Timer::builder().levels(LEVELS as usize).executor(runtime.handle().clone()).build()?;
    let app = App::new(timer);
    let _job = take_samples(&app)?;
    let listener = runtime.block_on(TcpListener::bind(address))?;
    println!("listening on http://{}", listener.local_addr()?);
    Ok(runtime.block_on(listen(listener, app))?)
}

/// Starts the periodic job. The job does not keep the engine that it runs on alive.
fn take_samples(app: &Arc<App>) -> Result<TimeoutGuard, Box<dyn Error>> {
    let weak = Arc::downgrade(app);
    let job = move || {
        if let Some(app) = weak.upgrade() {
            let (now, stats) = (app.timer.now(), app.timer.stats());
            app.history.lock().unwrap_or_else(PoisonError::into_inner).push(now, &stats);
        }
    };
    Ok(app.timer.schedule_at_fixed_rate(SAMPLE, SAMPLE, job)?.cancel_on_drop())
}

pub(crate) async fn listen(listener: TcpListener, app: Arc<App>) -> std::io::Result<()> {
    let router = router(&app);
    loop {
        let (stream, _) = accept(&listener, &app.timer).await?;
        tokio::spawn(serve(stream, router.clone(), Arc::clone(&app)));
    }
}

fn router(app: &Arc<App>) -> Router {
    let counting = Arc::clone(app);
    let deadline = ServiceBuilder::new()
        .layer(HandleErrorLayer::new(move |error: BoxError| {
            counting.timed_out.fetch_add(1, Ordering::Relaxed);
            async move { (StatusCode::GATEWAY_TIMEOUT, format!("{error}\n")) }
        }))
        .layer(TimeoutLayer::new(app.timer.clone(), REQUEST));
    Router::new()
        .route("/work/{ms}", get(work).layer(deadline))
        .route("/", get(|| async { Html(include_str!("page.html")) }))
        .route("/stats", get(show))
        .route("/panic", get(panic))
        .route("/block/{ms}", get(block))
        .with_state(Arc::clone(app))
}

/// Waits for as many milliseconds as the path says, as for a database.
async fn work(State(app): State<Arc<App>>, Path(ms): Path<u64>) -> String {
    app.timer.sleep(Duration::from_millis(ms)).await;
    format!("took {ms} ms\n")
}

/// Schedules a task that panics. The engine counts it, and goes on.
async fn panic(State(app): State<Arc<App>>) -> StatusCode {
    refused_or_accepted(app.timer.schedule_detached(Duration::ZERO, || panic!("as the request wanted it")))
}

/// Schedules a task that keeps its thread. If it does so for more than a second, the engine's
/// health says that it is stuck.
async fn block(State(app): State<Arc<App>>, Path(ms): Path<u64>) -> StatusCode {
    let time = Duration::from_millis(ms).min(BLOCK);
    refused_or_accepted(app.timer.schedule_detached(Duration::ZERO, move || std::thread::sleep(time)))
}

fn refused_or_accepted<F>(outcome: Result<(), ScheduleError<F>>) -> StatusCode {
    outcome.map_or(StatusCode::SERVICE_UNAVAILABLE, |()| StatusCode::ACCEPTED)
}

async fn show(State(app): State<Arc<App>>) -> Json<Snapshot> {
    let history = app.history.lock().unwrap_or_else(PoisonError::into_inner);
    Json(Snapshot::of(&app, &history))
}

/// Serves one connection, until its client has gone, or has kept to no limit.
async fn serve(stream: TcpStream, router: Router, app: Arc<App>) {
    app.connections.fetch_add(1, Ordering::Relaxed);
    let service = service_fn(|request| {
        app.requests.fetch_add(1, Ordering::Relaxed);
        router.clone().call(request)
    });
    let (io, service) = app.limits.apply(TokioIo::new(stream), service);
    // An error is the client's: it has gone, or its request was invalid or too late.
    let _ = http1::Builder::new().serve_connection(io, service).await;
    app.connections.fetch_sub(1, Ordering::Relaxed);
}
