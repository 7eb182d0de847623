//! Text that goes into HTML or SVG.

/// As the text of an element, or the value of an attribute in double quotes.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML has no other control characters, not even as references.
            control if control.is_control() && !matches!(control, '\n' | '\t') => out.push('\u{FFFD}'),
            other => out.push(other),
        }
    }
    out
}
