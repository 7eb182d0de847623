//! A UDP socket that takes in and sends whole batches by `recvmmsg` and `sendmmsg`, and what a
//! datagram says: whose it is, which request it is, and padding.

use std::array;
use std::cell::RefCell;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::task::{self, Poll};

use anyhow::{Context, Result};
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, recvmmsg, setsockopt, sockopt};
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, sendmmsg};
use tokio::io::Interest;

/// The length of a datagram.
pub(super) const BYTES: usize = 64;

/// A request, or the reply to it, which repeats it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Datagram {
    /// The connection id, which the client has drawn.
    pub(super) connection: u64,
    /// Counts the requests of a session, from one.
    pub(super) number: u32,
    /// The client's own: by it the client finds its session.
    pub(super) cookie: u32,
    /// Whether no request follows soon, so that the server does not wait for an acknowledgement.
    pub(super) last: bool,
}

impl Datagram {
    /// Writes the fields to the front of `buffer`.
    pub(super) fn write(self, buffer: &mut [u8; BYTES]) {
        buffer[..8].copy_from_slice(&self.connection.to_le_bytes());
        buffer[8..12].copy_from_slice(&self.number.to_le_bytes());
        buffer[12..16].copy_from_slice(&self.cookie.to_le_bytes());
        buffer[16] = u8::from(self.last);
    }

    /// Reads a datagram. Returns `None` if it is too short, or is none of ours.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (connection, rest) = bytes.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (cookie, rest) = rest.split_first_chunk()?;
        let last = match rest.first()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        Some(Self {
            connection: u64::from_le_bytes(*connection),
            number: u32::from_le_bytes(*number),
            cookie: u32::from_le_bytes(*cookie),
            last,
        })
    }
}

/// Datagrams of one system call.
pub(super) const BATCH: usize = 64;

/// Bytes that the kernel may keep for a socket. A datagram takes some 768 there.
const BUFFER: usize = 16 << 20;

/// Opens a socket on loopback that never blocks, with large buffers.
pub(super) fn open() -> Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot bind a UDP socket")?;
    socket.set_nonblocking(true).context("cannot make the socket non-blocking")?;
    // Only root gets past the limit of the system; others get what that allows.
    if setsockopt(&socket, sockopt::RcvBufForce, &BUFFER).is_err() {
        setsockopt(&socket, sockopt::RcvBuf, &BUFFER).context("cannot set the size of the buffer")?;
    }
    if setsockopt(&socket, sockopt::SndBufForce, &BUFFER).is_err() {
        setsockopt(&socket, sockopt::SndBuf, &BUFFER).context("cannot set the size of the buffer")?;
    }
    Ok(socket)
}

/// The kernel's structures point into themselves, so they stay with the thread, and a task that
/// receives may be one that can be sent.
struct Receiver {
    headers: MultiHeaders<SockaddrIn>,
    buffers: Box<[[u8; BYTES]; BATCH]>,
}

thread_local! {
    static RECEIVER: RefCell<Receiver> = RefCell::new(Receiver {
        headers: MultiHeaders::preallocate(BATCH, None),
        buffers: Box::new([[0; BYTES]; BATCH]),
    });
}

/// Takes in what is there, at most [`BATCH`] datagrams, with one system call. Returns how many
/// there were: if fewer than [`BATCH`], no more are there.
///
/// # Errors
///
/// `WouldBlock` if nothing is there.
pub(super) fn receive(socket: &impl AsRawFd, mut take: impl FnMut(Datagram, SocketAddrV4)) -> io::Result<usize> {
    RECEIVER.with_borrow_mut(|Receiver { headers, buffers }| {
        let mut slices = buffers.each_mut().map(|buffer| [IoSliceMut::new(buffer)]);
        let messages = recvmmsg(socket.as_raw_fd(), headers, slices.iter_mut(), MsgFlags::MSG_DONTWAIT, None)?;
        let mut received = 0;
        for message in messages {
            received += 1;
            let bytes = message.iovs().next().unwrap_or_default();
            if let (Some(datagram), Some(from)) = (Datagram::read(bytes), message.address) {
                take(datagram, SocketAddrV4::new(from.ip(), from.port()));
            }
        }
        Ok(received)
    })
}

/// Takes in a batch if one is there. If not, the task is woken when one is.
pub(super) fn poll_receive(
    socket: &tokio::net::UdpSocket,
    context: &mut task::Context<'_>,
    mut take: impl FnMut(Datagram, SocketAddrV4),
) {
    let mut received = 0;
    while received == 0
        && let Poll::Ready(Ok(())) = socket.poll_recv_ready(context)
    {
        // A batch that is not full was all, and what comes later makes the socket ready again.
        let _ = socket.try_io(Interest::READABLE, || {
            received = receive(socket, &mut take)?;
            if received < BATCH { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        });
    }
}

/// Datagrams that wait to be sent together.
#[derive(Debug)]
pub(super) struct Outgoing {
    buffers: Vec<[u8; BYTES]>,
    to: Vec<SocketAddrAny>,
    refused: u64,
}

impl Outgoing {
    pub(super) fn new() -> Self {
        Self { buffers: Vec::with_capacity(BATCH), to: Vec::with_capacity(BATCH), refused: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.to.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.to.len() >= BATCH
    }

    pub(super) fn push(&mut self, datagram: Datagram, to: SocketAddrV4) {
        let mut buffer = [0; BYTES];
        datagram.write(&mut buffer);
        self.buffers.push(buffer);
        self.to.push(SocketAddr::V4(to).into());
    }

    /// Sends all. A datagram that the kernel refuses is lost, as UDP may lose it, and counted.
    pub(super) fn flush(&mut self, socket: &impl AsFd) {
        for (buffers, to) in self.buffers.chunks(BATCH).zip(self.to.chunks(BATCH)) {
            self.refused += (to.len() - send(socket, buffers, to)) as u64;
        }
        self.buffers.clear();
        self.to.clear();
    }

    /// Returns how many the kernel has refused.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }
}

/// Sends a batch, and returns how many of it were sent.
fn send(socket: &impl AsFd, buffers: &[[u8; BYTES]], to: &[SocketAddrAny]) -> usize {
    let slices: [_; BATCH] = array::from_fn(|at| [IoSlice::new(buffers.get(at).map_or(&[], |buffer| &buffer[..]))]);
    let mut nothing: [_; BATCH] = array::from_fn(|_| SendAncillaryBuffer::default());
    let parts = to.iter().zip(&slices).zip(&mut nothing);
    let mut messages: Vec<_> = parts.map(|((to, slice), nothing)| MMsgHdr::new_with_addr(to, slice, nothing)).collect();
    let mut sent = 0;
    // The call ends at the first that can't be sent, and fails if that is the first of all.
    while sent < messages.len() {
        match sendmmsg(socket, &mut messages[sent..], SendFlags::DONTWAIT) {
            Ok(more) => sent += more,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => break,
        }
    }
    sent
}
