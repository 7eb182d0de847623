//! Lines of web servers' access logs: Common and Combined Log Format.
//!
//! ```text
//! client ident user [17/May/2015:10:05:03 +0000] "request" status size            Common
//!                                                       … "referer" "user agent"  Combined
//! ```
//!
//! A replay needs the client and the time, but a line is only taken for one of these when all fields
//! of the Common format are there. What comes after them may be the two of the Combined format, more
//! columns, as many servers have, or nothing.

use std::fmt;

use jiff::Timestamp;
use jiff::fmt::strtime;

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

/// Why a line is none of a log.
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
    let mut rest = Rest(line);
    let client = rest.word("client")?;
    rest.word("ident")?;
    let second = rest.user_and_time()?;
    rest.quoted("request")?;
    rest.number("status")?;
    rest.number("size")?;
    Ok(LogLine { client, second, cut_off: rest.tail_is_cut_off() })
}

/// What of a line has not been read.
#[derive(Debug, Clone, Copy)]
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    /// The next word, up to a space.
    fn word(&mut self, field: &'static str) -> Result<&'a str, NoLogLine> {
        let from = self.0.trim_start_matches(' ');
        let (word, rest) = from.split_once(' ').unwrap_or((from, ""));
        self.0 = rest;
        if word.is_empty() { Err(NoLogLine::Ends { before: field }) } else { Ok(word) }
    }

    /// The user's name, which may be anything, and the time in brackets.
    fn user_and_time(&mut self) -> Result<i64, NoLogLine> {
        let after_user = self.0;
        let mut found = after_user.trim();
        // The user is at least a `-`, so the bracket has a space before it.
        for (at, _) in after_user.match_indices(" [") {
            let bracket = &after_user[at + 1..];
            let Some((time, rest)) = bracket[1..].split_once(']') else {
                break;
            };
            if let Some(second) = second(time) {
                self.0 = rest;
                return Ok(second);
            }
            found = &bracket[..time.len() + 2];
        }
        match found {
            "" => Err(NoLogLine::Ends { before: "time" }),
            _ => Err(NoLogLine::NoTime(shortened(found))),
        }
    }

    /// A field in double quotes, in which a backslash escapes what follows it.
    fn quoted(&mut self, field: &'static str) -> Result<&'a str, NoLogLine> {
        let from = self.0.trim_start_matches(' ');
        if from.is_empty() {
            return Err(NoLogLine::Ends { before: field });
        }
        let Some(inner) = from.strip_prefix('"') else {
            return Err(NoLogLine::NoQuote { field, found: shortened(from) });
        };
        let mut escaped = false;
        for (at, byte) in inner.bytes().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => {
                    self.0 = &inner[at + 1..];
                    return Ok(&inner[..at]);
                }
                _ => {}
            }
        }
        Err(NoLogLine::NoEnd { field })
    }

    /// Digits, or `-` for none.
    fn number(&mut self, field: &'static str) -> Result<(), NoLogLine> {
        let word = self.word(field)?;
        if word == "-" || word.bytes().all(|byte| byte.is_ascii_digit()) {
            Ok(())
        } else {
            Err(NoLogLine::NoNumber { field, found: shortened(word) })
        }
    }

    /// Whether a quoted field in what is left has no end.
    fn tail_is_cut_off(mut self) -> bool {
        loop {
            self.0 = self.0.trim_start_matches(' ');
            if self.0.is_empty() {
                return false;
            }
            let read = match self.0.starts_with('"') {
                true => self.quoted("tail"),
                false => self.word("tail"),
            };
            if read.is_err() {
                return true;
            }
        }
    }
}

/// `17/May/2015:10:05:03 +0000` in seconds since 1970.
fn second(time: &str) -> Option<i64> {
    let parsed = strtime::parse("%d/%b/%Y:%H:%M:%S %z", time).ok()?;
    parsed.to_timestamp().ok().map(Timestamp::as_second)
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
