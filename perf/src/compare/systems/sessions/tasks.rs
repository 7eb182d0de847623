//! A server with a task for each session, as quinn has it: the deadlines of a session are in a
//! table, and one timer, which is reset when the earliest of them changes, wakes the task.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::net::SocketAddrV4;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use crossbeam_utils::atomic::AtomicCell;
use rustc_hash::FxBuildHasher;
use tokio::net::UdpSocket;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::{coop, yield_now};
use tourbillon::Timer;

use super::books::{Books, Phase};
use super::control::Stage;
use super::protocol::{Alarms, Kind, Protocol, Session, Step};
use super::socket::{BATCH, Datagram, Outgoing, poll_receive};
use super::{Plan, Served};
use crate::duration::Epoch;

/// The timer of a session, as quinn's `AsyncTimer` is.
pub(super) trait SessionTimer: Future<Output = ()> + Send + Sized + 'static {
    /// Whether the runtime needs its own timers.
    const OF_TOKIO: bool;

    /// Is called once.
    fn start(_sessions: usize) -> Result<()> {
        Ok(())
    }

    fn new(deadline: Instant) -> Self;

    fn reset(self: Pin<&mut Self>, deadline: Instant);
}

impl SessionTimer for tokio::time::Sleep {
    const OF_TOKIO: bool = true;

    fn new(deadline: Instant) -> Self {
        tokio::time::sleep_until(deadline.into())
    }

    fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.reset(deadline.into());
    }
}

thread_local! {
    /// The engine of ours that serves the runtime of this thread.
    static ENGINE: RefCell<Option<Timer>> = const { RefCell::new(None) };
}

/// Ours with a thread of its own. A task of the runtime wakes those that come up together.
impl SessionTimer for tourbillon::Sleep {
    const OF_TOKIO: bool = false;

    fn start(sessions: usize) -> Result<()> {
        let builder = Timer::builder().capacity(2 * sessions).executor(Handle::current());
        ENGINE.set(Some(builder.build().context("the engine refused its options")?));
        Ok(())
    }

    fn new(deadline: Instant) -> Self {
        ENGINE.with_borrow(|timer| timer.as_ref().expect("it was started").sleep_until(deadline))
    }

    fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.get_mut().reset_at(deadline);
    }
}

/// Ours without a thread: a task of the runtime turns the engine, as docs/coming-from/tokio.md has
/// it.
pub(super) struct Turned(tourbillon::Sleep);

impl Future for Turned {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl SessionTimer for Turned {
    const OF_TOKIO: bool = true;

    fn start(sessions: usize) -> Result<()> {
        let driven = Timer::builder().capacity(2 * sessions).build_driven();
        let (timer, driver) = driven.context("the engine refused its options")?;
        tokio::spawn(turn(driver));
        ENGINE.set(Some(timer));
        Ok(())
    }

    fn new(deadline: Instant) -> Self {
        Self(SessionTimer::new(deadline))
    }

    fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.get_mut().0.reset_at(deadline);
    }
}

async fn turn(mut driver: tourbillon::Driver) {
    let earlier = Arc::new(Notify::new());
    let wake = Arc::clone(&earlier);
    driver.on_earlier(move || wake.notify_one());
    loop {
        driver.turn();
        match driver.next_wakeup() {
            Some(at) => tokio::select! {
                () = tokio::time::sleep_until(at.into()) => {}
                () = earlier.notified() => {}
            },
            None => earlier.notified().await,
        }
    }
}

/// The state that the tasks of a server share. They all run on its thread.
struct Here {
    protocol: Protocol,
    books: Books,
    clock: Epoch,
    out: Outgoing,
    /// Connections whose sessions have ended.
    closed: Vec<u64>,
    /// Of the task that sends.
    sender: Option<Waker>,
}

thread_local! {
    static HERE: RefCell<Option<Here>> = const { RefCell::new(None) };
}

/// Returns `None` when the server is over.
fn here<R>(act: impl FnOnce(&mut Here) -> R) -> Option<R> {
    HERE.with_borrow_mut(|here| here.as_mut().map(act))
}

/// The way to a session's task.
#[derive(Debug, Default)]
struct Letters {
    requests: Vec<Datagram>,
    waker: Option<Waker>,
}

type Inlet = Arc<Mutex<Letters>>;

/// Serves until the stage is over.
///
/// # Errors
///
/// If the runtime refuses the socket.
pub(super) async fn serve<S: SessionTimer>(stage: Stage, plan: Plan) -> Result<Served> {
    let Stage { socket, phase, over } = stage;
    let socket = UdpSocket::from_std(socket).context("the runtime refuses the socket")?;
    S::start(plan.sessions)?;
    let (protocol, books, clock) = (plan.protocol, Books::new(), Epoch::start());
    let out = Outgoing::new();
    HERE.set(Some(Here { protocol, books, clock, out, closed: Vec::new(), sender: None }));
    let mut endpoint = Endpoint::<S> {
        socket,
        inlets: HashMap::with_capacity_and_hasher(plan.sessions, FxBuildHasher),
        received: Vec::with_capacity(BATCH),
        timers: std::marker::PhantomData,
    };
    coop::unconstrained(endpoint.run(plan.sessions, &phase, over)).await;
    let left = endpoint.inlets.len();
    let here = HERE.take().context("the server is there until now")?;
    Ok(Served { books: here.books, left, refused: here.out.refused() })
}

/// The task that receives and sends.
struct Endpoint<S> {
    socket: UdpSocket,
    inlets: HashMap<u64, Inlet, FxBuildHasher>,
    received: Vec<(Datagram, SocketAddrV4)>,
    timers: std::marker::PhantomData<fn() -> S>,
}

impl<S: SessionTimer> Endpoint<S> {
    async fn run(&mut self, sessions: usize, phase: &AtomicCell<Phase>, mut over: impl Future + Unpin) {
        while poll_fn(|context| self.wait(context, &mut over)).await {
            for (request, from) in self.received.drain(..) {
                let inlet = self.inlets.entry(request.connection).or_insert_with(|| {
                    let inlet = Inlet::default();
                    tokio::spawn(Driver::<S>::new(request.connection, from, Arc::clone(&inlet)));
                    inlet
                });
                let waker = {
                    let mut letters = inlet.lock().expect("no session panics");
                    letters.requests.push(request);
                    letters.waker.take()
                };
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            here(|here| {
                here.books.follow(phase, self.inlets.len() >= sessions);
                here.out.flush(&self.socket);
                for connection in here.closed.drain(..) {
                    self.inlets.remove(&connection);
                }
            });
            // The sessions have their turn, and the runtime looks for what is due.
            yield_now().await;
        }
        here(|here| here.books.follow(phase, true));
    }

    /// Waits until something has come in or is to be sent. Returns false when all is over.
    fn wait(&mut self, context: &mut Context<'_>, over: &mut (impl Future + Unpin)) -> Poll<bool> {
        if Pin::new(over).poll(context).is_ready() {
            return Poll::Ready(false);
        }
        poll_receive(&self.socket, context, |datagram, from| self.received.push((datagram, from)));
        let is_idle = here(|here| {
            if !here.sender.as_ref().is_some_and(|sender| sender.will_wake(context.waker())) {
                here.sender = Some(context.waker().clone());
            }
            here.out.is_empty() && here.closed.is_empty()
        });
        if self.received.is_empty() && is_idle == Some(true) { Poll::Pending } else { Poll::Ready(true) }
    }
}

/// The task of a session.
struct Driver<S> {
    session: Session,
    inlet: Inlet,
    timer: Option<Pin<Box<S>>>,
    /// The deadline that the timer is set to.
    deadline_ns: Option<u64>,
}

impl<S: SessionTimer> Driver<S> {
    fn new(connection: u64, peer: SocketAddrV4, inlet: Inlet) -> Self {
        Self { session: Session::new(connection, peer), inlet, timer: None, deadline_ns: None }
    }

    fn take_in(&mut self, here: &mut Here, context: &mut Context<'_>) {
        let mut letters = self.inlet.lock().expect("no session panics");
        if !letters.requests.is_empty() {
            let now_ns = here.clock.nanos(Instant::now());
            for request in letters.requests.drain(..) {
                let step = self.session.take_in(here.protocol, request, now_ns, &mut here.books, &mut InTable);
                here.carry_out(step, self.session.peer);
            }
        }
        if letters.waker.is_none() {
            letters.waker = Some(context.waker().clone());
        }
    }

    /// Goes through what is due, and sets the timer. Returns false if the session has ended.
    fn drive_timer(&mut self, here: &mut Here, context: &mut Context<'_>) -> bool {
        loop {
            let Some(earliest_ns) = self.session.earliest_ns() else { return true };
            let now_ns = here.clock.nanos(Instant::now());
            if now_ns < earliest_ns {
                let deadline = here.clock.at(earliest_ns);
                match &mut self.timer {
                    Some(timer) if self.deadline_ns != Some(earliest_ns) => timer.as_mut().reset(deadline),
                    Some(_) => {}
                    None => self.timer = Some(Box::pin(S::new(deadline))),
                }
                self.deadline_ns = Some(earliest_ns);
                if self.timer.as_mut().is_none_or(|timer| timer.as_mut().poll(context).is_pending()) {
                    return true;
                }
                // It has come up since the look at the clock.
                self.deadline_ns = None;
                continue;
            }
            self.deadline_ns = None;
            for kind in self.session.due(now_ns) {
                let step = self.session.come_up(kind, now_ns, &mut here.books, &mut InTable);
                if step == Step::Close {
                    here.closed.push(self.session.connection());
                    here.wake_sender();
                    return false;
                }
                here.carry_out(step, self.session.peer);
            }
        }
    }
}

impl<S: SessionTimer> Future for Driver<S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let goes_on = here(|here| {
            this.take_in(here, context);
            this.drive_timer(here, context)
        });
        if goes_on == Some(true) { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Here {
    fn carry_out(&mut self, step: Step, peer: SocketAddrV4) {
        if let Step::Send(reply) = step {
            if self.out.is_empty() {
                self.wake_sender();
            }
            self.out.push(reply, peer);
        }
    }

    fn wake_sender(&self) {
        if let Some(sender) = &self.sender {
            sender.wake_by_ref();
        }
    }
}

/// The session's own table of deadlines is enough.
struct InTable;

impl Alarms for InTable {
    fn arm(&mut self, _kind: Kind, _delay: Duration) {}

    fn cancel(&mut self, _kind: Kind) {}
}
