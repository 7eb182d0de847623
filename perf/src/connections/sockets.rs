//! All that runs over sockets: the lanes, their threads, and the wait for them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use mio::{Poll, Waker};
use tourbillon::Timer;

use super::clients::{Clients, Habits};
use super::fd_limit::Plan;
use super::lane::{Control, Lane};
use super::options::{ConnectionsArgs, Pace};
use super::outcome::{ClientsOutcome, ServerOutcome};
use super::recorder::Recorder;
use super::server::{Server, ServerPace, WAKER, listen};
use crate::duration::Epoch;
use crate::number::grouped;
use crate::process::OWN_THREADS;

/// Opening a connection takes some 50 µs; this is for a machine in great distress.
const OPENING_AT_MOST: Duration = Duration::from_secs(120);

type Running<T> = Vec<JoinHandle<Result<T>>>;

/// See the module.
#[derive(Debug)]
pub(crate) struct Sockets {
    pub(crate) lanes: Vec<Arc<Lane>>,
    control: Arc<Control>,
    connections: u64,
    servers: Running<ServerOutcome>,
    clients: Running<ClientsOutcome>,
}

impl Sockets {
    /// Starts the threads; the clients open their connections at once.
    pub(crate) fn start(
        args: &ConnectionsArgs,
        plan: &Plan,
        pace: Pace,
        timer: &Timer,
        epoch: Epoch,
        recorder: &Arc<Recorder>,
        control: &Arc<Control>,
    ) -> Result<Self> {
        let mut this = Self {
            lanes: Vec::new(),
            control: Arc::clone(control),
            connections: plan.connections as u64,
            servers: Vec::new(),
            clients: Vec::new(),
        };
        let server_pace = ServerPace {
            idle_timeout: pace.idle_timeout,
            request_timeout: args.request_timeout,
            longest_work: args.work,
        };
        let habits = Habits {
            pace,
            request_timeout: args.request_timeout,
            silent_share: args.silent,
            silent_until: pace.silent_until(args.duration),
        };
        let lanes = args.io_threads.min(plan.connections);
        for number in 0..lanes {
            // The first lanes take one more, if it does not divide.
            let share = plan.connections / lanes;
            let clients = share + usize::from(number < plan.connections % lanes);
            let poll = Poll::new().context("cannot make a poller for the server")?;
            let waker = Waker::new(poll.registry(), WAKER).context("cannot make a waker")?;
            let (listeners, addresses) = listen(clients.div_ceil(plan.per_listener))?;
            let (recorder, control) = (Arc::clone(recorder), Arc::clone(control));
            let lane = Arc::new(Lane::new(clients, waker, epoch, recorder, control));
            this.lanes.push(Arc::clone(&lane));

            let seed = args.seed.wrapping_add(1_000 * (number as u64 + 1));
            let (for_server, for_clients) = (timer.clone(), timer.clone());
            let server = Server::new(poll, listeners, for_server, Arc::clone(&lane), server_pace, seed)?;
            let clients = Clients::new(addresses, clients, for_clients, lane, habits, seed.wrapping_add(1))?;
            this.servers.push(spawn(format!("server-{number}"), || server.run())?);
            this.clients.push(spawn(format!("clients-{number}"), || clients.run())?);
        }
        Ok(this)
    }

    /// Waits until the server has accepted all connections.
    pub(crate) fn wait_for_all(&mut self) -> Result<()> {
        let begin = Instant::now();
        loop {
            self.still_running()?;
            let accepted = self.sum(|lane| lane.gauges.accepted.load(Ordering::Relaxed));
            if accepted == self.connections {
                return Ok(());
            }
            if begin.elapsed() > OPENING_AT_MOST {
                bail!(
                    "only {} of {} connections were accepted within {} s: ask for fewer with \
                     --connections",
                    grouped(accepted),
                    grouped(self.connections),
                    OPENING_AT_MOST.as_secs()
                );
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// An error if one of the threads has given up: the run makes no sense without it.
    pub(crate) fn still_running(&mut self) -> Result<()> {
        reap(&mut self.servers, "server")?;
        reap(&mut self.clients, "clients'")
    }

    /// Silent clients whose connection has not been closed.
    pub(crate) fn unreaped(&self) -> u64 {
        self.sum(|lane| {
            let silent = lane.gauges.silent.load(Ordering::Relaxed);
            silent.saturating_sub(lane.gauges.silent_closed.load(Ordering::Relaxed))
        })
    }

    /// Tells the clients to close, waits for all, and adds up what they saw.
    pub(crate) fn finish(self) -> Result<(ServerOutcome, ClientsOutcome)> {
        self.control.finish();
        for lane in &self.lanes {
            lane.wake();
        }
        let mut clients = ClientsOutcome::default();
        for thread in self.clients {
            clients.merge(&join(thread, "clients'")?);
        }
        let mut server = ServerOutcome::default();
        for thread in self.servers {
            server.merge(&join(thread, "server")?);
        }
        Ok((server, clients))
    }

    fn sum(&self, of: impl Fn(&Lane) -> u64) -> u64 {
        self.lanes.iter().map(|lane| of(lane)).sum()
    }
}

fn spawn<T: Send + 'static>(
    name: String,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<JoinHandle<Result<T>>> {
    thread::Builder::new()
        .name(format!("{OWN_THREADS}{name}"))
        .spawn(work)
        .with_context(|| format!("cannot start the thread {name}"))
}

fn join<T>(thread: JoinHandle<Result<T>>, what: &str) -> Result<T> {
    thread.join().map_err(|_| anyhow!("a {what} thread panicked"))?
}

/// The error of a thread that ended before it was told to.
fn reap<T>(threads: &mut Running<T>, what: &str) -> Result<()> {
    let Some(ended) = threads.iter().position(JoinHandle::is_finished) else {
        return Ok(());
    };
    join(threads.swap_remove(ended), what)?;
    bail!("a {what} thread ended before the run did")
}
