//! The frames of HTTP/2, as far as they tell whether a client is being answered.

/// The length of what precedes a frame's payload: the payload's length, its kind, flags, a stream.
const HEAD: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;

/// Returns whether `written` may be a part of an answer. It is not if it is made of whole frames
/// none of which is of a kind that carries one. So a client that only pings gets none.
///
/// What begins or ends amid a frame may be a part. It does so only if the stream did not take all
/// of it at once.
pub(super) fn may_be_an_answer(mut written: &[u8]) -> bool {
    while let [high, middle, low, kind, ..] = *written {
        let len = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        let Some(next) = written.get(HEAD + len..) else { return true };
        if matches!(kind, DATA | HEADERS | CONTINUATION) {
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
    fn an_answer_is_found_among_other_frames() {
        let (ping, settings) = (frame(6, 8), frame(4, 0));
        let others = [&ping[..], &settings, &ping].concat();
        assert!(!may_be_an_answer(&[]) && !may_be_an_answer(&ping) && !may_be_an_answer(&others));
        for kind in [DATA, HEADERS, CONTINUATION] {
            assert!(may_be_an_answer(&frame(kind, 0)) && may_be_an_answer(&frame(kind, 200)));
            assert!(may_be_an_answer(&[&others[..], &frame(kind, 1), &others].concat()));
        }
    }

    #[test]
    fn a_part_of_a_frame_may_be_of_an_answer() {
        let ping = frame(6, 8);
        for cut in 1..ping.len() {
            assert!(may_be_an_answer(&ping[..cut]), "{cut}");
        }
        assert!(may_be_an_answer(&[&ping[..], &ping[..3]].concat()));
        assert!(may_be_an_answer(&[255; 64]));
    }
}
