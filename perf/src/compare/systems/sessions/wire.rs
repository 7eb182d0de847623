//! What a datagram says: whose it is, which request it is, and padding.

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
