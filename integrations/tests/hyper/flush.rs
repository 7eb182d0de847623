//! The limits of a connection whose flushes have to wait.

use std::sync::Mutex;

use super::limits::{IDLE, assert_closed, ended, steps, with_limits};
use super::*;

/// A stream whose flushes wait while the test says so, as those of TLS may.
struct Stalls {
    io: TokioIo<TcpStream>,
    stalls: Arc<AtomicUsize>,
    waker: Arc<Mutex<Option<std::task::Waker>>>,
}

impl hyper::rt::Read for Stalls {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl hyper::rt::Write for Stalls {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, buffer)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        if self.stalls.load(Ordering::SeqCst) == 1 {
            *self.waker.lock().expect("no panic") = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[test]
fn the_idle_time_begins_when_the_last_answer_has_been_flushed() {
    with_limits(|timer, clock, limits| async move {
        let (mut client, io) = connection().await;
        let (stalls, waker) = (Arc::new(AtomicUsize::new(1)), Arc::default());
        let stream = Stalls { io, stalls: Arc::clone(&stalls), waker: Arc::clone(&waker) };
        let (io, service) = limits.apply(stream, service_fn(hello));
        let served = tokio::spawn(http1::Builder::new().serve_connection(io, service));
        ask(&mut client, "/").await;
        until("the flush waits", || waker.lock().expect("no panic").is_some()).await;
        clock.advance(IDLE - MS);
        let before = steps(&timer);
        stalls.store(0, Ordering::SeqCst);
        waker.lock().expect("no panic").take().expect("it waits").wake();
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        assert!(steps(&timer) > before, "the time counts anew");
        clock.advance(IDLE - NS);
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        assert_eq!((ended(&limits), served.is_finished()), ((0, 0, 0), false));
        clock.advance(NS);
        assert_closed(&mut client).await;
    });
}
