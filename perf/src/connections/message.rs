//! The messages on the sockets, of 16 bytes each.

/// Bytes of a message.
pub(super) const LENGTH: usize = 16;

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum What {
    Request,
    Answer,
    /// An answer: the work was not done within the request's deadline.
    Late,
    /// The server ends the connection, as the client was idle.
    Reaped,
}

/// A request, or the server's word, which repeats the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) client: u32,
    /// 1, 2, 3, … for each client.
    pub(super) number: u32,
    pub(super) what: What,
}

impl Message {
    pub(super) fn bytes(self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..4].copy_from_slice(&self.client.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8] = self.what as u8;
        bytes
    }

    pub(super) fn read(bytes: [u8; LENGTH]) -> Self {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let what = match bytes[8] {
            0 => What::Request,
            1 => What::Answer,
            2 => What::Late,
            _ => What::Reaped,
        };
        Self { client: word(0), number: word(4), what }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back_as_it_was() {
        for what in [What::Request, What::Answer, What::Late, What::Reaped] {
            let message = Message { client: 7, number: 70_000, what };
            assert_eq!(Message::read(message.bytes()), message);
        }
    }
}
