//! Lines of web servers' access logs: Common and Combined Log Format.
//!
//! ```text
//! client ident user [17/May/2015:10:05:03 +0000] "request" status size            Common
//!                                                       … "referer" "user agent"  Combined
//! ```
//!
//! A replay needs the client and the time. It takes a line only if all fields of the Common format
//! are there. After them may come the two fields of the Combined format, more columns, as many
//! servers have, or nothing.

use std::fmt;
use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::fmt::strtime;
use regex::{Captures, Regex};

/// The format. The time is `%t` of Apache's `mod_log_config`, a user may have spaces and brackets
/// in its name, and in a quoted field a backslash escapes the character after it.
///
/// Each field is optional together with all that follow it, so that a line always matches as far as
/// it is right. The first field that is not there is the one that is wrong.
static FORMAT: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r#"(?sx) ^
        \x20* (?<client> [^\x20]+ )
        (?: \x20+ (?<ident> [^\x20]+ )
        (?: \x20 (?<user> .*? )
            \x20 \[ (?<time> [0-9]{2} / [A-Za-z]{3} / [0-9]{4}
                             (?: : [0-9]{2} ){3} \x20 [+-] [0-9]{4} ) \]
        (?: \x20* " (?<request> (?: [^"\\] | \\. )* ) "
        (?: \x20* (?<status> [0-9]+ | - ) (?: \x20+ | $ )
        (?: (?<size> [0-9]+ | - ) (?: \x20 | $ ) (?<tail> .* )
        )?)?)?)?)?"#,
    )
});

/// What follows the size, if each quoted field in it has its end.
static WHOLE_TAIL: LazyLock<Regex> = LazyLock::new(|| {
    regex(r#"(?sx) ^ (?: \x20* (?: " (?: [^"\\] | \\. )* " | [^\x20"] [^\x20]* (?: \x20 | $ ) ) )* \x20* $"#)
});

fn regex(expression: &str) -> Regex {
    Regex::new(expression).expect("the expression is well formed")
}

/// A request in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogLine<'a> {
    /// Address or name of the client.
    pub(crate) client: &'a str,
    /// Seconds since 1970, whatever the offset the line was written with.
    pub(crate) second: i64,
    /// A quoted field after the Common ones has no end: the line was cut off.
    pub(crate) cut_off: bool,
}

/// Why a line is not a line of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoLogLine {
    Empty,
    Ends { before: &'static str },
    NoTime(String),
    NoQuote { field: &'static str, found: String },
    NoEnd { field: &'static str },
    NoNumber { field: &'static str, found: String },
}

impl fmt::Display for NoLogLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the line is empty"),
            Self::Ends { before } => write!(f, "the line ends before the {before}"),
            Self::NoTime(found) => {
                write!(f, "{found:?} is no time such as [17/May/2015:10:05:03 +0000]")
            }
            Self::NoQuote { field, found } => {
                write!(f, "the {field} must be in double quotes, and {found:?} is not")
            }
            Self::NoEnd { field } => write!(f, "the {field} has no closing quote"),
            Self::NoNumber { field, found } => {
                write!(f, "the {field} must be a number or `-`, and {found:?} is not")
            }
        }
    }
}

/// Reads a line, without its end.
pub(crate) fn parse(line: &str) -> Result<LogLine<'_>, NoLogLine> {
    if line.trim().is_empty() {
        return Err(NoLogLine::Empty);
    }
    let fields = FORMAT.captures(line).ok_or(NoLogLine::Empty)?;
    let (Some(client), Some(tail)) = (fields.name("client"), fields.name("tail")) else {
        return Err(reason(line, &fields));
    };
    let second = second(&fields["time"]).ok_or_else(|| no_time(&fields))?;
    Ok(LogLine { client: client.as_str(), second, cut_off: !WHOLE_TAIL.is_match(tail.as_str()) })
}

/// `17/May/2015:10:05:03 +0000` in seconds since 1970.
fn second(time: &str) -> Option<i64> {
    let parsed = strtime::parse("%d/%b/%Y:%H:%M:%S %z", time).ok()?;
    parsed.to_timestamp().ok().map(Timestamp::as_second)
}

/// What is wrong with a line: its first field that did not match.
fn reason(line: &str, fields: &Captures<'_>) -> NoLogLine {
    // What follows a field, and a bracket or a quote that closes it.
    let after = |field: &str, closing: usize| {
        let rest = fields.name(field).map(|found| &line[found.end() + closing..])?;
        Some(rest.trim_start_matches(' '))
    };
    let no_number = |field, rest: &str| match rest.split(' ').next() {
        None | Some("") => NoLogLine::Ends { before: field },
        Some(word) => NoLogLine::NoNumber { field, found: shortened(word) },
    };
    if let Some(rest) = after("status", 0) {
        return no_number("size", rest);
    }
    if let Some(rest) = after("request", 1) {
        return no_number("status", rest);
    }
    if let Some(rest) = after("time", 1) {
        return match rest {
            _ if second(&fields["time"]).is_none() => no_time(fields),
            "" => NoLogLine::Ends { before: "request" },
            quoted if quoted.starts_with('"') => NoLogLine::NoEnd { field: "request" },
            found => NoLogLine::NoQuote { field: "request", found: shortened(found) },
        };
    }
    match after("ident", 0).map(str::trim) {
        None => NoLogLine::Ends { before: "ident" },
        Some("") => NoLogLine::Ends { before: "time" },
        Some(rest) => NoLogLine::NoTime(shortened(bracketed(rest).unwrap_or(rest))),
    }
}

/// The time has the right form, and there is no such time.
fn no_time(fields: &Captures<'_>) -> NoLogLine {
    NoLogLine::NoTime(format!("[{}]", &fields["time"]))
}

/// The first brackets, with what is in them.
fn bracketed(text: &str) -> Option<&str> {
    let from = &text[text.find('[')?..];
    Some(&from[..=from.find(']')?])
}

/// The first characters of what was found, enough to recognise it.
fn shortened(found: &str) -> String {
    const LONGEST: usize = 40;
    match found.char_indices().nth(LONGEST) {
        None => found.to_owned(),
        Some((end, _)) => format!("{}…", &found[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_431_857_103;

    fn read(line: &str) -> (&str, i64, bool) {
        let line = parse(line).unwrap_or_else(|why| panic!("{line}: {why}"));
        (line.client, line.second, line.cut_off)
    }

    #[test]
    fn common_and_combined() {
        let common = r#"83.149.9.216 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 203023"#;
        assert_eq!(read(common), ("83.149.9.216", SECOND, false));
        let combined = format!(r#"{common} "http://example.com/" "Mozilla/5.0 (X11)""#);
        assert_eq!(read(&combined), ("83.149.9.216", SECOND, false));
        let more = format!(r#"{combined} 0.013 "10.0.0.1, 10.0.0.2" -"#);
        assert_eq!(read(&more), ("83.149.9.216", SECOND, false));
    }

    #[test]
    fn offsets_are_taken_off() {
        for time in ["17/May/2015:12:05:03 +0200", "17/May/2015:04:35:03 -0530"] {
            let line = format!(r#"host.example - - [{time}] "GET /" 304 -"#);
            assert_eq!(read(&line), ("host.example", SECOND, false));
        }
    }

    #[test]
    fn clients_may_be_ipv6_and_users_may_be_anything() {
        for user in ["-", "frank", "Frank Foo", "frank [x] foo"] {
            let line = format!(r#"2001:db8::1 - {user} [17/May/2015:10:05:03 +0000] "GET /" 200 -"#);
            assert_eq!(read(&line), ("2001:db8::1", SECOND, false));
        }
    }

    #[test]
    fn quotes_may_be_escaped() {
        let line = r#"h - - [17/May/2015:10:05:03 +0000] "GET /\"a\\" 200 5 "\\\"" "x\"y""#;
        assert_eq!(read(line), ("h", SECOND, false));
        let line = r#"h - - [17/May/2015:10:05:03 +0000] "\x16\x03\x01" 400 226 "-" "-""#;
        assert_eq!(read(line), ("h", SECOND, false));
    }

    #[test]
    fn a_line_cut_off_after_its_size_is_still_a_request() {
        let line = r#"h - - [17/May/2015:10:05:03 +0000] "GET /" 200 5 "-" "Mozilla/5.0 (compat"#;
        assert_eq!(read(line), ("h", SECOND, true));
    }

    #[test]
    fn what_is_no_log_line_says_why() {
        for (line, why) in [
            ("", "empty"),
            ("   ", "empty"),
            ("# comment", "ends before the time"),
            ("h - -", "is no time"),
            ("h", "ends before the ident"),
            ("h -", "ends before the time"),
            (r#"h - - [17/Foo/2015:10:05:03 +0000] "GET /" 200 5"#, "is no time"),
            (r#"h - - [31/Feb/2015:10:05:03 +0000] "GET /" 200 5"#, "is no time"),
            (r#"h - - [17/May/2015:10:05:03] "GET /" 200 5"#, "is no time"),
            (r#"h - - [17/May/2015:10:05:03 +0000 "GET /" 200 5"#, "is no time"),
            (r#"h - - [17/May/2015:10:05:03 +0000] GET / 200 5"#, "request must be in double"),
            (r#"h - - [17/May/2015:10:05:03 +0000] "GET / 200 5"#, "request has no closing"),
            (r#"h - - [17/May/2015:10:05:03 +0000] "GET /" OK 5"#, "status must be a number"),
            (r#"h - - [17/May/2015:10:05:03 +0000] "GET /" 200"#, "ends before the size"),
            (r#"h - - [17/May/2015:10:05:03 +0000] "GET /" 200 5k"#, "size must be a number"),
        ] {
            let found = parse(line).expect_err(line).to_string();
            assert!(found.contains(why), "{line}: {found}");
        }
    }

    #[test]
    fn a_leap_second_is_a_time() {
        assert!(parse(r#"h - - [31/Dec/2016:23:59:60 +0000] "GET /" 200 5"#).is_ok());
    }

    proptest::proptest! {
        #[test]
        fn no_line_makes_it_panic(line in ".*") {
            let _ = parse(&line);
        }

        #[test]
        fn no_damaged_line_makes_it_panic(cut in 0usize..120, with in ".?") {
            let line = r#"é - - [17/May/2015:10:05:03 +0000] "GET /é\" x" 200 203023 "-" "é é""#;
            let mut at = cut.min(line.len());
            while !line.is_char_boundary(at) {
                at -= 1;
            }
            let _ = parse(&line[..at]);
            let _ = parse(&format!("{}{with}{}", &line[..at], &line[at..]));
        }
    }
}
