//! The course of a run: the load is started, the sessions are opened, it warms up, it is measured,
//! and it ends when each request is answered.

use std::io::{PipeWriter, pipe};
use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use crossbeam_utils::atomic::AtomicCell;
use tokio::sync::oneshot;

use super::books::Phase;
use super::load::{self, Seen};
use super::{Plan, Served, Until, socket};
use crate::process::CpuTime;

/// How long it may take until all sessions are open.
const OPENING: Duration = Duration::from_secs(120);

/// The outcome of a run.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) served: Served,
    pub(super) seen: Seen,
    /// Of the server's process, while it was measured.
    pub(super) cpu_s: f64,
    pub(super) seconds: f64,
}

/// The parts of a server: its socket, the phases to follow, and the signal to end.
pub(super) struct Stage {
    pub(super) socket: UdpSocket,
    pub(super) phase: Arc<AtomicCell<Phase>>,
    pub(super) over: oneshot::Receiver<()>,
}

/// Runs `serve` on this thread, and the load in another process.
///
/// # Errors
///
/// If the server or the load fails.
pub(super) fn run(plan: Plan, serve: impl FnOnce(Stage) -> Result<Served>) -> Result<Outcome> {
    let socket = socket::open()?;
    let Ok(SocketAddr::V4(address)) = socket.local_addr() else { bail!("the socket has no address") };
    let phase = Arc::new(AtomicCell::new(Phase::Opening));
    let (end, over) = oneshot::channel();
    let control = {
        let phase = Arc::clone(&phase);
        thread::Builder::new()
            .name("perf-control".to_owned())
            .spawn(move || {
                let found = watch(plan, address, &phase);
                // The server may have failed: then nobody waits.
                let _ = end.send(());
                found
            })
            .context("cannot start a thread")?
    };
    let served = serve(Stage { socket, phase, over })?;
    let (seen, cpu_s, seconds) = control.join().map_err(|_| anyhow!("the control has panicked"))??;
    Ok(Outcome { served, seen, cpu_s, seconds })
}

/// Returns what the load says, and the processor time and the time of what was measured.
fn watch(plan: Plan, server: SocketAddrV4, phase: &AtomicCell<Phase>) -> Result<(Seen, f64, f64)> {
    let (stop, load) = start(server, plan)?;
    let limit = Instant::now() + OPENING;
    while phase.load() == Phase::Opening {
        ensure!(Instant::now() < limit, "the sessions were not opened in time");
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(plan.warm_up);
    let (begin, cpu) = (Instant::now(), CpuTime::now());
    let end = || {
        phase.store(Phase::After);
        (CpuTime::now().since(cpu).total_s(), begin.elapsed().as_secs_f64())
    };
    phase.store(Phase::Measure);
    let seen = || load.join().map_err(|_| anyhow!("the load has panicked"))?;
    let (seen, (cpu_s, seconds)) = match plan.until {
        Until::Time(length) => {
            thread::sleep(length);
            let measured = end();
            drop(stop);
            (seen()?, measured)
        }
        // It ends by itself.
        Until::Requests(_) => (seen()?, end()),
    };
    Ok((seen, cpu_s, seconds))
}

/// Starts the load. It goes on until the other end of its pipe is dropped.
fn start(server: SocketAddrV4, plan: Plan) -> Result<(PipeWriter, thread::JoinHandle<Result<Seen>>)> {
    let (reader, stop) = pipe().context("cannot make a pipe")?;
    // A test's own program is another.
    if cfg!(test) {
        return Ok((stop, thread::spawn(move || load::run(server, plan, reader))));
    }
    let program = std::env::current_exe().context("where is this program?")?;
    let child = Command::new(program)
        .args(["sessions-load", "--server", &server.to_string(), "--plan", &serde_json::to_string(&plan)?])
        .stdin(reader)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the load")?;
    Ok((stop, thread::spawn(move || read(child))))
}

fn read(child: Child) -> Result<Seen> {
    let output = child.wait_with_output().context("cannot wait for the load")?;
    ensure!(output.status.success(), "the load has failed");
    serde_json::from_slice(&output.stdout).context("the load says what can't be read")
}
