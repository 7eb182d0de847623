//! A stream whose connection has limits.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use pin_project_lite::pin_project;

use crate::connection::Connection;
use crate::deadline::Deadline;

pin_project! {
    /// A stream whose connection has limits. Made by [`Limits::apply`](crate::Limits::apply).
    #[derive(Debug)]
    pub struct LimitedIo<I> {
        #[pin]
        io: I,
        deadline: Deadline,
    }
}

impl<I> LimitedIo<I> {
    pub(super) fn new(io: I, connection: Arc<Connection>) -> Self {
        Self { io, deadline: Deadline::new(connection) }
    }

    /// Returns the inner stream.
    pub fn get_ref(&self) -> &I {
        &self.io
    }

    /// Returns the inner stream, mutably.
    pub fn get_mut(&mut self) -> &mut I {
        &mut self.io
    }

    /// Returns the inner stream, without the limits.
    pub fn into_inner(self) -> I {
        self.io
    }
}

impl<I: Read> Read for LimitedIo<I> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        match this.io.poll_read(context, buffer) {
            Poll::Pending => this.deadline.poll_read(context),
            read => {
                this.deadline.on_read();
                read
            }
        }
    }
}

impl<I: Write> Write for LimitedIo<I> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.project();
        let written = this.io.poll_write(context, buffer);
        this.deadline.poll_write(context, written, buffer)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        let written = this.io.poll_write_vectored(context, buffers);
        // Frames without a payload of the service's are together in one buffer.
        let first = buffers.iter().find(|buffer| !buffer.is_empty()).map_or(&[][..], |buffer| buffer);
        this.deadline.poll_write(context, written, first)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        match this.io.poll_flush(context) {
            Poll::Pending => this.deadline.poll_written(context, Poll::Pending),
            flushed => {
                this.deadline.on_flush(context);
                flushed
            }
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        let shut_down = this.io.poll_shutdown(context);
        this.deadline.poll_written(context, shut_down)
    }
}
