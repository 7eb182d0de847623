//! What goes over the sockets: messages of 16 bytes, and the little state to read and write them
//! when the kernel takes or gives only a part.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};

/// Bytes of a message.
const LEN: usize = 16;

/// A request, or the answer to it (which has the same numbers).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message {
    /// Index of the client within its lane.
    pub(crate) client: u32,
    /// 1, 2, 3, … for each client.
    pub(crate) number: u32,
    /// In an answer: the work was not done within the request's deadline.
    pub(crate) late: bool,
}

impl Message {
    fn encode(self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[0..4].copy_from_slice(&self.client.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8] = u8::from(self.late);
        bytes
    }

    fn decode(bytes: [u8; LEN]) -> Self {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Self { client: word(0), number: word(4), late: bytes[8] != 0 }
    }
}

/// What a read has brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    Message(Message),
    /// No whole message for now.
    Nothing,
    /// The peer has closed, or the connection is broken.
    Closed(Why),
}

/// How a connection came to its end, as one side of it saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// The peer has closed it.
    End,
    Read(ErrorKind),
    Write(ErrorKind),
}

impl Why {
    pub(crate) fn write(error: &io::Error) -> Self {
        Self::Write(error.kind())
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::End => f.write_str("closed by the other side"),
            Self::Read(kind) => write!(f, "could not read: {kind}"),
            Self::Write(kind) => write!(f, "could not write: {kind}"),
        }
    }
}

/// Bytes of a message that has not come in full.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    bytes: [u8; LEN],
    have: usize,
}

impl Reader {
    /// Reads from a non-blocking `stream` until a message is whole or nothing more is there.
    pub(crate) fn read(&mut self, stream: &mut impl Read) -> Received {
        loop {
            match stream.read(&mut self.bytes[self.have..]) {
                Ok(0) => return Received::Closed(Why::End),
                Ok(n) => self.have += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Received::Nothing,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Received::Closed(Why::Read(e.kind())),
            }
            if self.have == LEN {
                self.have = 0;
                return Received::Message(Message::decode(self.bytes));
            }
        }
    }
}

/// Bytes of messages the kernel has not taken yet. It nearly always takes all at once.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    unsent: Vec<u8>,
}

impl Writer {
    /// Writes `message`, after the rest of earlier ones.
    pub(crate) fn write(&mut self, stream: &mut impl Write, message: Message) -> io::Result<()> {
        if self.unsent.is_empty() {
            let bytes = message.encode();
            let taken = write_some(stream, &bytes)?;
            self.unsent.extend_from_slice(&bytes[taken..]);
            return Ok(());
        }
        self.unsent.extend_from_slice(&message.encode());
        self.flush(stream)
    }

    /// Whether the kernel has taken all there was.
    pub(crate) fn is_done(&self) -> bool {
        self.unsent.is_empty()
    }

    /// Writes the rest, when the socket has become writable.
    pub(crate) fn flush(&mut self, stream: &mut impl Write) -> io::Result<()> {
        if !self.unsent.is_empty() {
            let taken = write_some(stream, &self.unsent)?;
            self.unsent.drain(..taken);
        }
        Ok(())
    }
}

/// As much of `bytes` as the kernel takes now.
fn write_some(stream: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
    let mut taken = 0;
    while taken < bytes.len() {
        match stream.write(&bytes[taken..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(n) => taken += n,
            Err(e) if e.kind() == ErrorKind::WouldBlock => break,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: Message = Message { client: 7, number: 70_000, late: true };

    /// Gives and takes three bytes at a time, then says that it would block.
    #[derive(Default)]
    struct Drip {
        bytes: Vec<u8>,
        turn: usize,
    }

    impl Drip {
        fn open(&mut self) -> io::Result<()> {
            self.turn += 1;
            if self.turn.is_multiple_of(2) { Ok(()) } else { Err(ErrorKind::WouldBlock.into()) }
        }
    }

    impl Read for Drip {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.open()?;
            let n = into.len().min(3).min(self.bytes.len());
            into[..n].copy_from_slice(&self.bytes[..n]);
            self.bytes.drain(..n);
            Ok(n)
        }
    }

    impl Write for Drip {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.open()?;
            let n = bytes.len().min(3);
            self.bytes.extend_from_slice(&bytes[..n]);
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_message_survives_being_cut_to_pieces() {
        let (mut drip, mut writer, mut reader) = (Drip::default(), Writer::default(), Reader::default());
        writer.write(&mut drip, MESSAGE).expect("room");
        while !writer.is_done() {
            writer.flush(&mut drip).expect("room");
        }
        let mut tries = 0;
        let received = loop {
            match reader.read(&mut drip) {
                Received::Nothing if tries < 100 => tries += 1,
                other => break other,
            }
        };
        assert_eq!(received, Received::Message(MESSAGE));
    }

    #[test]
    fn how_a_connection_ended_is_told() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(ErrorKind::ConnectionReset.into())
            }
        }
        let mut reader = Reader::default();
        assert_eq!(reader.read(&mut io::empty()), Received::Closed(Why::End));
        assert_eq!(reader.read(&mut Broken), Received::Closed(Why::Read(ErrorKind::ConnectionReset)));
    }
}
