//! W12: a client, as drivers of databases and clients of RPC are. Each of many tasks has a request
//! under way, with a limit round its answer. Answers come through the tasks of a few connections,
//! long before the limit, which is dropped then. All tasks run on one runtime of two threads.

use std::array;
use std::collections::VecDeque;
use std::future::{Future, pending, poll_fn};
use std::net::TcpListener;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use crossbeam_utils::CachePadded;
use hdrhistogram::Histogram;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, yield_now};

use super::cases::Work;
use super::child::Metrics;
use super::job::Job;
use super::recorder::Recorder;
use super::systems::names::Name;
use super::workloads::{describe, quantiles_ms};
use crate::duration::nanos;
use crate::instructions::limits::{Compat, Limits, Ours, Tokios, Unlimited};
use crate::instructions::{ServerTimers, serve};
use crate::process::{CpuTime, cores, cpu_by_thread};

const CONNECTIONS: usize = 4;
/// Requests that a connection takes up at a time.
const BATCH: usize = 64;
/// The length of a request, and of its answer, on a socket.
const BYTES: usize = 16;
/// The latency of one request of so many is kept.
const SAMPLE: u64 = 16;
const LIMIT: Duration = Duration::from_secs(30);
const WARM_UP: Duration = Duration::from_secs(1);
const LENGTH: Duration = Duration::from_secs(3);
/// How long a thread is blocked, and how long before that limits are armed.
const BLOCKED: Duration = Duration::from_secs(1);
const ARMING: Duration = Duration::from_millis(50);

/// Where the answer to a request goes.
type Answer = oneshot::Sender<()>;

/// The state that the tasks share.
struct Shared {
    is_over: AtomicBool,
    /// By connection.
    answered: [CachePadded<AtomicU64>; CONNECTIONS],
    latency_ns: Mutex<Histogram<u64>>,
}

/// Measures a case of W12.
pub(super) fn measure(name: Name, job: &Job) -> Result<Metrics> {
    match name {
        Name::TourbillonFuture => run(&Ours::start()?, name, job),
        Name::TourbillonCompat => run(&Compat, name, job),
        Name::Tokio | Name::TokioAlt => run(&Tokios, name, job),
        Name::NoTimers => run(&Unlimited, name, job),
        _ => bail!("{name} is no timer of clients"),
    }
}

fn run<L: Limits>(limits: &L, _name: Name, job: &Job) -> Result<Metrics> {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_io();
    if L::OF_TOKIO {
        builder.enable_time();
    }
    #[cfg(tokio_unstable)]
    if _name == Name::TokioAlt {
        builder.enable_alt_timer();
    }
    let runtime = builder.build().context("no tokio runtime")?;
    let mut metrics = match job.case.work {
        Work::Client { sockets, .. } => requests(limits, &runtime, sockets, job),
        _ => blocked(limits, &runtime, job),
    }?;
    metrics.notes.push(format!("on {} cores", cores()));
    // A connection's tasks may not have ended, and are not waited for.
    runtime.shutdown_background();
    Ok(metrics)
}

/// Requests under way, one of each task: how many are answered, and how soon.
fn requests<L: Limits>(limits: &L, runtime: &Runtime, sockets: bool, job: &Job) -> Result<Metrics> {
    let shared = Arc::new(Shared {
        is_over: AtomicBool::new(false),
        answered: array::from_fn(|_| CachePadded::default()),
        latency_ns: Mutex::new(Histogram::new(3)?),
    });
    // An address that nobody listens on now.
    let address = TcpListener::bind("127.0.0.1:0").context("no port is free")?.local_addr()?;
    let _server = serve(ServerTimers::None, false, address)?;
    let mut connections = Vec::new();
    for at in 0..CONNECTIONS {
        let (send, requests) = unbounded_channel();
        connections.push(send);
        if sockets {
            let stream = runtime.block_on(TcpStream::connect(address)).context("cannot connect")?;
            stream.set_nodelay(true)?;
            let (read, write) = stream.into_split();
            let (sent, answers) = unbounded_channel();
            runtime.spawn(write_all(requests, write, sent));
            runtime.spawn(read_all(answers, read, Arc::clone(&shared), at));
        } else {
            runtime.spawn(answer_all(requests, Arc::clone(&shared), at, job.timeouts() / CONNECTIONS));
        }
    }
    let mut tasks = JoinSet::new();
    for at in 0..job.timeouts() {
        let (limits, to, shared) = (limits.clone(), connections[at % CONNECTIONS].clone(), Arc::clone(&shared));
        tasks.spawn_on(ask(limits, to, shared, at as u64), runtime.handle());
    }
    thread::sleep(job.time(WARM_UP));
    let pending = limits.pending();
    shared.latency_ns.lock().expect("no task panics").reset();
    let (since, cpu_s, before) = shared.look();
    thread::sleep(job.time(LENGTH));
    let (until, cpu_s_then, then) = shared.look();
    let latency_ns = shared.latency_ns.lock().expect("no task panics").clone();
    shared.is_over.store(true, Ordering::Relaxed);
    // One more, so that each connection sees it.
    connections.drain(..).for_each(|connection| _ = connection.send(oneshot::channel().0));
    let counts = runtime.block_on(tasks.join_all());
    let [all, answered, armed] = array::from_fn(|at| counts.iter().map(|counts| counts[at]).sum::<u64>());
    ensure!(all == answered, "of {all} requests {answered} were answered within the limit");
    ensure!(armed * 10 >= all * 9, "of {all} limits only {armed} were armed");
    ensure!(pending.is_none_or(|pending| pending * 10 >= job.timeouts() * 9), "{pending:?} limits were pending");
    let measured = (then - before) as f64;
    let mut metrics = Metrics::of([
        ("mops", measured / (until - since).as_secs_f64() / 1e6),
        ("cpu_ns", (cpu_s_then - cpu_s) * 1e9 / measured.max(1.0)),
    ]);
    metrics.values.extend(&quantiles_ms(&latency_ns)[..3]);
    metrics.notes.push(format!("{all} requests, {armed} limits armed, pending at once: {pending:?}"));
    Ok(metrics)
}

impl Shared {
    /// Returns the time, the CPU seconds of all threads but the server's, and how many requests
    /// were answered.
    fn look(&self) -> (Instant, f64, u64) {
        let server = cpu_by_thread().map_or(0.0, |[_, server, ..]| server);
        let answered = self.answered.iter().map(|count| count.load(Ordering::Relaxed)).sum();
        (Instant::now(), CpuTime::now().total_s() - server, answered)
    }

    fn answer(&self, answer: Answer, connection: usize) {
        // The task notices itself if it was too late.
        let _ = answer.send(());
        self.answered[connection].fetch_add(1, Ordering::Relaxed);
    }
}

/// A task of the client: one request after the other. Returns how many there were, how many of them
/// were answered, and of how many the limit was armed, as the answer was not there at once.
async fn ask<L: Limits>(limits: L, to: UnboundedSender<Answer>, shared: Arc<Shared>, at: u64) -> [u64; 3] {
    let [mut requests, mut answered, mut armed] = [0; 3];
    while !shared.is_over.load(Ordering::Relaxed) {
        requests += 1;
        let since = (requests + at).is_multiple_of(SAMPLE).then(Instant::now);
        let (answer, receiver) = oneshot::channel();
        // If the connection has gone, the receiver says so.
        let _ = to.send(answer);
        let mut limited = pin!(limits.limit(LIMIT, receiver));
        let mut is_armed = false;
        let outcome = poll_fn(|context| {
            let polled = limited.as_mut().poll(context);
            is_armed |= polled.is_pending();
            polled
        });
        answered += u64::from(matches!(outcome.await, Some(Ok(()))));
        armed += u64::from(is_armed);
        if let Some(since) = since {
            let _ = shared.latency_ns.lock().expect("no task panics").record(nanos(since.elapsed()));
        }
    }
    [requests, answered, armed]
}

/// A connection without a socket. It answers the oldest requests, and keeps all but a batch of its
/// tasks waiting.
async fn answer_all(mut requests: UnboundedReceiver<Answer>, shared: Arc<Shared>, at: usize, tasks: usize) {
    let (mut batch, mut waiting) = (Vec::with_capacity(BATCH), VecDeque::with_capacity(tasks + 1));
    while requests.recv_many(&mut batch, BATCH).await > 0 {
        waiting.extend(batch.drain(..));
        let kept = if shared.is_over.load(Ordering::Relaxed) { 0 } else { tasks.saturating_sub(BATCH) };
        waiting.drain(..waiting.len().saturating_sub(kept)).for_each(|answer| shared.answer(answer, at));
        yield_now().await;
    }
}

/// Sends requests on, a batch at a time.
async fn write_all(
    mut requests: UnboundedReceiver<Answer>,
    mut stream: OwnedWriteHalf,
    sent: UnboundedSender<Answer>,
) -> std::io::Result<()> {
    let mut batch = Vec::with_capacity(BATCH);
    while requests.recv_many(&mut batch, BATCH).await > 0 {
        let bytes = batch.len() * BYTES;
        batch.drain(..).for_each(|answer| _ = sent.send(answer));
        stream.write_all(&[7; BATCH * BYTES][..bytes]).await?;
    }
    Ok(())
}

/// Takes in what comes back, in the order of the requests.
async fn read_all(mut sent: UnboundedReceiver<Answer>, mut stream: OwnedReadHalf, shared: Arc<Shared>, at: usize) {
    let (mut buffer, mut have) = ([0; BATCH * BYTES], 0);
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        have += read;
        for _ in 0..have / BYTES {
            let Some(answer) = sent.recv().await else { return };
            shared.answer(answer, at);
        }
        have %= BYTES;
    }
}

/// Limits that come up while one of the two threads is blocked: how late their tasks run.
fn blocked<L: Limits>(limits: &L, runtime: &Runtime, job: &Job) -> Result<Metrics> {
    let count = u32::try_from(job.timeouts())?;
    let recorder = Recorder::timing(count);
    let cpu = CpuTime::now();
    for number in 0..count {
        let limits = limits.clone();
        runtime.spawn(async move {
            // The first comes up when the thread is blocked, the last before it goes on.
            let delay = 2 * ARMING + (BLOCKED - 2 * ARMING) * number / count;
            let task = recorder.task_due(number, Instant::now() + delay);
            let _ = limits.limit(delay, pending::<()>()).await;
            task.run();
        });
    }
    thread::sleep(ARMING);
    runtime.spawn(async { thread::sleep(BLOCKED) });
    recorder.wait(Instant::now() + LIMIT)?;
    let mut metrics = describe(&recorder.lateness()?);
    metrics.values.push(("cpu_s", CpuTime::now().since(cpu).total_s()));
    Ok(metrics)
}
