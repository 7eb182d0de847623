//! What `maud` leaves to its caller.

/// Replaces control characters, which neither HTML nor XML can hold, not even as references.
/// A newline and a tab stay.
pub(crate) fn printable(text: &str) -> String {
    text.replace(|c: char| c.is_control() && !matches!(c, '\n' | '\t'), "\u{FFFD}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced_and_text_stays() {
        assert_eq!(printable("a\u{1b}[1m<b>\n\tü"), "a\u{FFFD}[1m<b>\n\tü");
    }
}
