//! Lines of web servers' access logs: Common and Combined Log Format.
//!
//! ```text
//! client ident user [17/May/2015:10:05:03 +0000] "request" status size            Common
//!                                                       … "referer" "user agent"  Combined
//! ```
//!
//! A replay needs the client and the time. It takes a line only if all fields of the Common format
//! are there, whatever comes after them.

use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::fmt::strtime;
use regex_lite::Regex;

/// The time is `%t` of Apache's `mod_log_config`. A user may have spaces and brackets in its name,
/// and in a quoted field a backslash escapes the character after it.
static FORMAT: LazyLock<Regex> = LazyLock::new(|| {
    let expression = r#"(?sx) ^
        \x20* (?<client> [^\x20]+ ) \x20+ [^\x20]+ \x20 .*?
        \x20 \[ (?<time> [0-9]{2} / [A-Za-z]{3} / [0-9]{4} (?: : [0-9]{2} ){3} \x20 [+-] [0-9]{4} ) \]
        \x20* " (?: [^"\\] | \\. )* "
        \x20* (?: [0-9]+ | - ) \x20+ (?: [0-9]+ | - ) (?: \x20 | $ )"#;
    Regex::new(expression).expect("the expression is well formed")
});

/// Returns the client of a line, and its time in seconds since 1970. Returns `None` if the line is
/// none of a log.
pub(super) fn parse(line: &str) -> Option<(&str, i64)> {
    let fields = FORMAT.captures(line)?;
    let time = strtime::parse("%d/%b/%Y:%H:%M:%S %z", &fields["time"]).ok()?;
    let second = time.to_timestamp().ok().map(Timestamp::as_second)?;
    Some((fields.name("client")?.as_str(), second))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_431_857_103;

    #[test]
    fn lines_of_logs_are_read() {
        for line in [
            r#"h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 203023"#,
            r#"h - - [17/May/2015:10:05:03 +0000] "GET /" 200 5 "http://example.com/" "Mozilla/5.0 (X11)""#,
            r#"h - - [17/May/2015:10:05:03 +0000] "GET /" 200 5 "-" "Mozilla/5.0 (compat"#,
            r#"h - - [17/May/2015:04:35:03 -0530] "GET /" 304 -"#,
            r#"h - frank [x] foo [17/May/2015:10:05:03 +0000] "GET /" 200 -"#,
            r#"h - - [17/May/2015:10:05:03 +0000] "GET /\"a\\" 200 5 "\\\"" "x\"y""#,
            r#"h - - [17/May/2015:10:05:03 +0000] "\x16\x03\x01" 400 226 "-" "-""#,
        ] {
            assert_eq!(parse(line), Some(("h", SECOND)), "{line}");
        }
    }

    #[test]
    fn other_lines_are_not() {
        for line in [
            "",
            "# comment",
            "h - -",
            r#"h - - [31/Feb/2015:10:05:03 +0000] "GET /" 200 5"#,
            r#"h - - [17/May/2015:10:05:03] "GET /" 200 5"#,
            r#"h - - [17/May/2015:10:05:03 +0000] GET / 200 5"#,
            r#"h - - [17/May/2015:10:05:03 +0000] "GET / 200 5"#,
            r#"h - - [17/May/2015:10:05:03 +0000] "GET /" OK 5"#,
            r#"h - - [17/May/2015:10:05:03 +0000] "GET /" 200"#,
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
