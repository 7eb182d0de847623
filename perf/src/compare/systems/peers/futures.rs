//! Timers that are futures: a timeout is one that has been polled once, and cancelled by being
//! dropped.

use std::future::{Future, Pending, pending, ready};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use async_io::Timer;
use pingora_timeout::Timeout;
use pingora_timeout::fast_timeout::{FastOrTokioTimeout, fast_timeout, set_fast_timeout_to_tokio_threshold};
use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio::time::{Sleep, sleep, sleep_until, timeout};

use crate::compare::recorder::Task;
use crate::compare::systems::system::{Plan, Producer, System, poll_once};

/// A kind of such future.
pub(crate) trait Kind: Sync + Sized + 'static {
    type Future: Future + 'static;

    fn start(plan: &Plan) -> Result<Self>;

    /// Makes the runtime known to a thread, if it needs one.
    fn enter(&self) -> Option<EnterGuard<'static>> {
        None
    }

    fn after(delay: Duration) -> Self::Future;

    fn at(_deadline: Instant, delay: Duration) -> Self::Future {
        Self::after(delay)
    }

    /// Polls another's future that is ready at once, with a limit; whether it was.
    fn limit_ready(_limit: Duration) -> bool {
        false
    }

    /// Moves a timeout that has been polled; by default there is nothing but a new one.
    fn reset(mut place: Pin<&mut Option<Self::Future>>, delay: Duration) -> bool {
        place.set(None);
        poll_first(place, Self::after(delay), Waker::noop())
    }
}

/// Puts the future where it stays, and polls it; whether it is pending.
fn poll_first<F: Future>(mut place: Pin<&mut Option<F>>, future: F, waker: &Waker) -> bool {
    place.set(Some(future));
    place.as_pin_mut().is_some_and(|future| future.poll(&mut Context::from_waker(waker)).is_pending())
}

/// Runs the task when it is woken: on the thread that keeps the time, without the cost of a task of
/// the runtime's.
struct RunWhenWoken(Task);

impl Wake for RunWhenWoken {
    fn wake(self: Arc<Self>) {
        self.0.run();
    }
}

#[derive(Debug)]
pub(crate) struct Futures<K>(K);

impl<K: Kind> System for Futures<K> {
    type Producer = Poller<K>;

    fn start(plan: &Plan) -> Result<Self> {
        K::start(plan).map(Self)
    }

    fn producer(&self) -> Result<Poller<K>> {
        Ok(Poller { _entered: self.0.enter(), kind: PhantomData })
    }
}

#[derive(Debug)]
pub(crate) struct Poller<K> {
    _entered: Option<EnterGuard<'static>>,
    kind: PhantomData<fn() -> K>,
}

impl<K: Kind> Producer for Poller<K> {
    /// Boxed, so that it may be polled; the box is used again. In a server it is a part of the
    /// connection's task.
    type Handle = Option<Pin<Box<Option<K::Future>>>>;

    fn reserve(&mut self, handle: &mut Self::Handle) {
        handle.get_or_insert_with(|| Box::pin(None));
    }

    fn schedule(&mut self, delay: Duration, _task: Task, handle: &mut Self::Handle) -> Result<()> {
        let place = handle.get_or_insert_with(|| Box::pin(None));
        poll_first(place.as_mut(), K::after(delay), Waker::noop());
        Ok(())
    }

    fn fire(&mut self, deadline: Instant, delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()> {
        let place = handle.get_or_insert_with(|| Box::pin(None));
        let waker = Waker::from(Arc::new(RunWhenWoken(task)));
        if !poll_first(place.as_mut(), K::at(deadline, delay), &waker) {
            // It was due already, and no thread will be woken.
            task.run();
        }
        Ok(())
    }

    fn cancel(&mut self, handle: &mut Self::Handle) -> bool {
        let Some(place) = handle else { return false };
        let armed = place.is_some();
        place.as_mut().set(None);
        armed
    }

    fn limit_ready(&mut self, limit: Duration) -> bool {
        K::limit_ready(limit)
    }

    fn reset(&mut self, delay: Duration, _deadline: Instant, handle: &mut Self::Handle) -> bool {
        handle.as_mut().is_some_and(|place| K::reset(place.as_mut(), delay))
    }
}

/// Tokio's timers, on a multi-threaded runtime with a worker for each core, which lives as long as
/// the process.
pub(crate) type Sleeps = Futures<SleepKind>;

#[derive(Debug)]
pub(crate) struct SleepKind(&'static Runtime);

impl Kind for SleepKind {
    type Future = Sleep;

    fn start(_plan: &Plan) -> Result<Self> {
        let runtime = Builder::new_multi_thread().enable_time().build().context("no tokio runtime")?;
        Ok(Self(Box::leak(Box::new(runtime))))
    }

    fn enter(&self) -> Option<EnterGuard<'static>> {
        Some(self.0.enter())
    }

    fn after(delay: Duration) -> Sleep {
        sleep(delay)
    }

    fn at(deadline: Instant, _delay: Duration) -> Sleep {
        sleep_until(deadline.into())
    }

    fn limit_ready(limit: Duration) -> bool {
        poll_once(timeout(limit, ready(()))).is_ready()
    }

    fn reset(place: Pin<&mut Option<Sleep>>, delay: Duration) -> bool {
        let Some(sleep) = place.as_pin_mut() else { return false };
        sleep.reset(tokio::time::Instant::now() + delay);
        true
    }
}

/// async-io's timers: a tree under a mutex, fed through a bounded queue, and its own thread.
pub(crate) type AsyncIo = Futures<AsyncIoKind>;

#[derive(Debug)]
pub(crate) struct AsyncIoKind;

impl Kind for AsyncIoKind {
    type Future = Timer;

    fn start(_plan: &Plan) -> Result<Self> {
        Ok(Self)
    }

    fn after(delay: Duration) -> Timer {
        Timer::after(delay)
    }

    fn at(deadline: Instant, _delay: Duration) -> Timer {
        Timer::at(deadline)
    }

    /// It keeps the waker, and registers again by itself.
    fn reset(place: Pin<&mut Option<Timer>>, delay: Duration) -> bool {
        let Some(mut timer) = place.as_pin_mut() else { return false };
        timer.set_after(delay);
        timer.will_fire() || poll_once(timer).is_pending()
    }
}

/// Cloudflare's pingora-timeout: slots of 10 ms in a tree for each thread, and one thread that
/// fires them.
pub(crate) type Pingora = Futures<PingoraKind>;

#[derive(Debug)]
pub(crate) struct PingoraKind;

impl Kind for PingoraKind {
    type Future = Timeout<Pending<()>, FastOrTokioTimeout>;

    /// By default it would give a timeout longer than a quarter of an hour to tokio, which is
    /// another row.
    fn start(_plan: &Plan) -> Result<Self> {
        set_fast_timeout_to_tokio_threshold(None);
        Ok(Self)
    }

    fn limit_ready(limit: Duration) -> bool {
        poll_once(fast_timeout(limit, ready(()))).is_ready()
    }

    fn after(delay: Duration) -> Self::Future {
        fast_timeout(delay, pending())
    }
}
