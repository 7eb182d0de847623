//! The frames of HTTP/2, as far as they tell whether a client is being served.

/// The length of what precedes a frame's payload: the payload's length, its kind, flags, a stream.
const HEAD: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
/// A part of a request's body has been taken.
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

/// Returns whether `written` may be a part of an answer, or say that one of a request was taken. It
/// is not if it is made of whole frames none of which is of a kind that does so. A client that only
/// pings gets no other.
///
/// Bytes that begin or end amid a frame may be a part. They do so only if the stream did not take
/// all of them at once.
pub(super) fn may_serve(mut written: &[u8]) -> bool {
    while let [high, middle, low, kind, ..] = *written {
        let len = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        let Some(next) = written.get(HEAD + len..) else { return true };
        if matches!(kind, DATA | HEADERS | WINDOW_UPDATE | CONTINUATION) {
            return true;
        }
        written = next;
    }
    !written.is_empty()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A frame with a payload of `len` bytes.
    fn frame(kind: u8, len: u8) -> Vec<u8> {
        let mut frame = vec![0, 0, len, kind, 0, 0, 0, 0, 0];
        frame.resize(HEAD + usize::from(len), 0);
        frame
    }

    #[test]
    fn a_frame_that_serves_is_found_among_others() {
        let (ping, settings) = (frame(6, 8), frame(4, 0));
        let others = [&ping[..], &settings, &ping].concat();
        assert!(!may_serve(&[]) && !may_serve(&ping) && !may_serve(&others));
        for kind in [DATA, HEADERS, WINDOW_UPDATE, CONTINUATION] {
            assert!(may_serve(&frame(kind, 0)) && may_serve(&frame(kind, 200)));
            assert!(may_serve(&[&others[..], &frame(kind, 1), &others].concat()));
        }
    }

    #[test]
    fn a_part_of_a_frame_may_serve() {
        let ping = frame(6, 8);
        for cut in 1..ping.len() {
            assert!(may_serve(&ping[..cut]), "{cut}");
        }
        assert!(may_serve(&[&ping[..], &ping[..3]].concat()));
        assert!(may_serve(&[255; 64]));
    }
}
