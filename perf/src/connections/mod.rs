//! The main job: real connections, and a million timeouts beside them, on one engine.
//!
//! ```text
//!   producer ──► schedule, reset, cancel ──► engine ──► tasks ──► recorder (allowed? how late?)
//!   clients ◄──► server ──► idle timeouts, deadlines ──┘     └──► signals to the server
//! ```
//!
//! [`report`] adds up what callers and tasks counted and compares it with what the engine says.

mod clients;
mod message;
mod options;
mod population;
mod recorder;
mod report;
mod server;
mod slots;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use testkit::counters::Counts;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tourbillon::Timer;

pub(crate) use options::ConnectionsArgs;
#[cfg(feature = "peers")]
pub(crate) use server::accept;

use crate::duration::{self, Epoch};
use crate::json_file;
use crate::number::grouped;
use crate::process::{self, CpuTime, OWN_THREADS, cpu_by_thread, resident_bytes};
use clients::ClientsOutcome;
use options::{Pace, SILENT};
use population::{Load, Population};
use recorder::Recorder;
use report::{Closing, Report};
use server::ServerOutcome;
use slots::Slots;

/// Beyond its idle timeout, how long a silent client may take to be reaped before it counts as
/// forgotten.
const GRACE: Duration = Duration::from_secs(5);
/// How long all connections may take to be opened, and how long to be closed.
const PATIENCE: Duration = Duration::from_secs(120);
/// The groups of threads that [`cpu_by_thread`] tells apart.
const CPU_OF: [&str; 4] = [
    "CPU of the engine, its tasks included, s",
    "CPU of the server, s",
    "CPU of the clients, s",
    "CPU of the producer, s",
];
/// Of everything random, so that each run has the same load.
const SEED: u64 = 1;
/// Between two lines of progress.
const LINE: Duration = Duration::from_secs(5);

/// Runs the job and prints its tables.
pub(crate) fn run(args: &ConnectionsArgs) -> Result<bool> {
    json_file::check(args.json.as_deref())?;
    let pace = Pace::of(args)?;
    println!(
        "{} connections, {:.0}% of which go silent; idle timeout {}; clients pause {:.2?} to {:.2?}",
        grouped(pace.connections as u64),
        SILENT * 100.0,
        duration::exact(pace.idle_timeout),
        pace.least_pause,
        pace.most_pause,
    );
    println!(
        "{} timeouts without sockets, {} new and {} resets a second; {} of load\n",
        grouped(args.timeouts as u64),
        grouped(args.rate as u64),
        grouped(args.resets as u64),
        duration::exact(args.duration),
    );
    let report = perform(args, pace)?;
    report.print();
    json_file::write(args.json.as_deref(), &report)?;
    Ok(report.passed)
}

/// Builds the engine, runs the load, shuts the engine down, and reconciles the counters.
fn perform(args: &ConnectionsArgs, pace: Pace) -> Result<Report> {
    let recorder = Arc::new(Recorder::new());
    let count = u32::try_from(args.timeouts).context("--timeouts is too large")?;
    let slots = Arc::new(Slots::new(count, Epoch::start(), Arc::clone(&recorder)));
    let load = Load { new: args.rate as f64, resets: args.resets as f64 };
    let load = if count == 0 { Load { new: 0.0, resets: 0.0 } } else { load };
    let mut population = Population::new(Arc::clone(&slots), args.timeouts, load);

    // From here to the next reading, what grows is the engine's memory.
    let memory = resident_bytes();
    let timer = Timer::builder().capacity(args.timeouts).build().context("the engine refused its options")?;
    let (built, is_built) = mpsc::channel();
    let (start, started) = mpsc::channel::<Instant>();
    let producer = {
        let (timer, length) = (timer.clone(), args.duration);
        // The thread that builds is the thread that runs, as an engine keeps what it recycles by
        // the thread that scheduled it.
        thread::Builder::new().name(format!("{OWN_THREADS}producer")).spawn(move || {
            population.build(&timer);
            let _ = built.send(());
            let begin = started.recv().unwrap_or_else(|_| Instant::now());
            population.run(&timer, begin + length)
        })?
    };
    is_built.recv().context("the producer's thread has ended")?;
    let (pending, memory) = (timer.pending(), memory.zip(resident_bytes()));

    let sockets = Sockets::start(pace, &timer, &recorder)?;
    sockets.wait(PATIENCE, |shared| shared.accepted.load(Ordering::Relaxed) == pace.connections as u64)?;
    let (cpu, threads, wakeups) = (CpuTime::now(), cpu_by_thread(), timer.stats().wakeups);
    let begin = Instant::now();
    let _ = sockets.shared.begun.set(begin);
    let _ = start.send(begin);
    sockets.wait(args.duration, |_| false).or_else(|_| sockets.still_running())?;
    let load_s = begin.elapsed().as_secs_f64();
    let cpu = CpuTime::now().since(cpu);
    let mut cost = BTreeMap::from([
        ("load, s", load_s),
        ("CPU of the process, user, s", cpu.user_s),
        ("CPU of the process, system, s", cpu.system_s),
        ("CPU, share of all cores, %", 100.0 * cpu.total_s() / (load_s * process::cores() as f64)),
        ("wake-ups of workers a second", (timer.stats().wakeups - wakeups) as f64 / load_s),
        ("pending at the end of the load", timer.pending() as f64),
        ("shards", timer.shards() as f64),
    ]);
    if let Some((now, then)) = cpu_by_thread().zip(threads) {
        let seconds = now.into_iter().zip(then).map(|(now, then)| now - then);
        cost.extend(CPU_OF.into_iter().zip(seconds));
    }
    if let (Some((before, after)), 1..) = (memory, pending) {
        cost.insert("resident bytes per pending timeout", after.saturating_sub(before) as f64 / pending as f64);
    }
    let produced = producer.join().map_err(|_| anyhow!("the producer's thread panicked"))?;
    // Longer than any silent client has left. If one is left after that, a check says so.
    let _ = sockets.wait(pace.idle_timeout + GRACE, |shared| shared.silent.load(Ordering::Relaxed) == 0);
    let (server, clients) = sockets.finish()?;

    let unfired = timer.shutdown().context("the engine would not shut down")?;
    let fired = recorder.sum().fired_in_all();
    // A task that wrongly runs after shutdown gets a moment to show itself.
    thread::sleep(Duration::from_millis(50));
    let tasks = recorder.sum();
    let closing = Closing {
        produced,
        server,
        clients,
        armed: slots.armed(),
        after_shutdown: tasks.fired_in_all() - fired,
        handed_back: unfired.len() as u64,
        tasks,
        stats: timer.stats(),
    };
    Ok(Report::new(&closing, cost))
}

/// Counts the answer of a `schedule`.
fn count_schedule(counts: &mut Counts, accepted: bool) {
    *(if accepted { &mut counts.scheduled } else { &mut counts.rejected }) += 1;
}

/// The state that the two ends of the sockets share.
#[derive(Debug)]
struct Shared {
    pace: Pace,
    timer: Timer,
    recorder: Arc<Recorder>,
    /// The start of the run: clients go silent from now on.
    begun: OnceLock<Instant>,
    /// Clients are to send no more, and to close.
    finishing: watch::Receiver<bool>,
    accepted: AtomicU64,
    answers: AtomicU64,
    /// Clients that are silent and have not been reaped.
    silent: AtomicU64,
    reaped: AtomicU64,
}

impl Shared {
    /// Ends when the run does.
    async fn is_finishing(&self) {
        let _ = self.finishing.clone().wait_for(|finishing| *finishing).await;
    }
}

/// The two ends of the sockets, each on a thread of its own.
struct Sockets {
    shared: Arc<Shared>,
    finish: watch::Sender<bool>,
    server: (Runtime, JoinHandle<Result<ServerOutcome>>),
    clients: (Runtime, JoinHandle<Result<ClientsOutcome>>),
}

impl Sockets {
    /// Starts the threads; the clients open their connections at once.
    fn start(pace: Pace, timer: &Timer, recorder: &Arc<Recorder>) -> Result<Self> {
        let (finish, finishing) = watch::channel(false);
        let shared = Arc::new(Shared {
            pace,
            timer: timer.clone(),
            recorder: Arc::clone(recorder),
            begun: OnceLock::new(),
            finishing,
            accepted: AtomicU64::new(0),
            answers: AtomicU64::new(0),
            silent: AtomicU64::new(0),
            reaped: AtomicU64::new(0),
        });
        let runtime = |name: &str| {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(1).thread_name(format!("{OWN_THREADS}{name}")).enable_all();
            builder.build().context("no tokio runtime")
        };
        let (server, clients) = (runtime("server")?, runtime("clients")?);
        let (listeners, addresses) = server.block_on(server::listen(pace.connections))?;
        let serving = server::serve(listeners, Arc::clone(&shared));
        let speaking = clients::speak(addresses, Arc::clone(&shared));
        let (serving, speaking) = (server.spawn(serving), clients.spawn(speaking));
        Ok(Self { shared, finish, server: (server, serving), clients: (clients, speaking) })
    }

    /// An error if one of the two has given up: the run makes no sense without it.
    fn still_running(&self) -> Result<()> {
        let ended = self.server.1.is_finished() || self.clients.1.is_finished();
        ensure!(!ended, "the server or the clients ended before the run did");
        Ok(())
    }

    /// Waits until it is so, and tells of the progress.
    ///
    /// # Errors
    ///
    /// If it is not so within `limit`, or if a side has ended.
    fn wait(&self, limit: Duration, is_so: impl Fn(&Shared) -> bool) -> Result<()> {
        let (begin, mut next, mut answers) = (Instant::now(), LINE, self.shared.answers.load(Ordering::Relaxed));
        while !is_so(&self.shared) {
            self.still_running()?;
            let elapsed = begin.elapsed();
            ensure!(elapsed < limit, "it took longer than {}", duration::exact(limit));
            if elapsed >= next {
                let now = self.shared.answers.load(Ordering::Relaxed);
                eprintln!(
                    "{:>4.0} s  {} pending, {} answers a second, {} clients silent, {} reaped",
                    elapsed.as_secs_f64(),
                    grouped(self.shared.timer.pending() as u64),
                    grouped((now - answers) / LINE.as_secs()),
                    grouped(self.shared.silent.load(Ordering::Relaxed)),
                    grouped(self.shared.reaped.load(Ordering::Relaxed)),
                );
                (next, answers) = (next + LINE, now);
            }
            thread::sleep((limit - elapsed).min(Duration::from_millis(10)));
        }
        Ok(())
    }

    /// Tells the clients to close, waits for all, and returns what they saw.
    fn finish(self) -> Result<(ServerOutcome, ClientsOutcome)> {
        self.finish.send_replace(true);
        let Self { server: (server, serving), clients: (clients, speaking), .. } = self;
        let saw = clients.block_on(async { tokio::time::timeout(PATIENCE, speaking).await });
        let saw = saw.context("the clients do not end")?.context("a client panicked")??;
        let served = server.block_on(async { tokio::time::timeout(PATIENCE, serving).await });
        let served = served.context("the server does not end")?.context("the server panicked")??;
        Ok((served, saw))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        args: ConnectionsArgs,
    }

    fn args(line: &str) -> ConnectionsArgs {
        Only::try_parse_from(line.split_whitespace()).expect("a right command line").args
    }

    #[test]
    fn a_small_run_passes_all_checks() {
        let args = args(
            "perf --duration 600ms --timeouts 2000 --rate 20000 --resets 50000 --connections 20 --idle-timeout 500ms",
        );
        let report = perform(&args, Pace::of(&args).expect("forty descriptors")).expect("a run");
        assert!(report.passed, "{:?} {:?}", report.checks, report.broken);
        assert!(report.operations.values().all(|&count| count > 0), "{:?}", report.operations);
        assert_eq!((report.connections["reaped"], report.connections["clients that went silent"]), (2, 2));
    }

    #[test]
    fn the_idle_timeout_follows_the_run_and_more_connections_than_files_are_refused() {
        let idle = |line: &str| Pace::of(&args(line)).map(|pace| pace.idle_timeout).ok();
        assert_eq!(idle("perf --duration 3s --connections 200"), Some(Duration::from_secs(1)));
        assert_eq!(idle("perf --connections 200"), Some(Duration::from_secs(4)));
        assert_eq!(idle("perf --connections 100 --idle-timeout 7s"), Some(Duration::from_secs(7)));
        assert!(Pace::of(&args("perf --connections 1000000000000")).is_err());
    }
}
