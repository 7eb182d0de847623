//! The log reader of the replay, on any bytes. It never panics, and each line is either good or
//! bad. What it reads of a line with a regular expression is what `by_hand` reads of it, character
//! by character, with a calendar of its own.

#![no_main]

#[path = "../../perf/src/replay/log_format.rs"]
#[allow(dead_code, reason = "the replay uses more of it")]
mod log_format;
#[path = "../../perf/src/replay/trace.rs"]
#[allow(dead_code, reason = "the replay uses more of it")]
mod trace;

use std::collections::HashSet;

use libfuzzer_sys::fuzz_target;
use log_format::LogLine;

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from the first of January of the year 0 to that of this one.
fn days_before(year: i64) -> i64 {
    (0..year).map(|year| 365 + i64::from(is_leap(year))).sum()
}

/// Whether a field has the form of a time, at which the field of the user ends.
fn is_a_time_field(field: &str) -> bool {
    const FORM: &[u8] = b"00/Aaa/0000:00:00:00 +0000";
    let is_of = |(byte, form): (u8, &u8)| match form {
        b'0' => byte.is_ascii_digit(),
        b'A' | b'a' => byte.is_ascii_alphabetic(),
        b'+' => matches!(byte, b'+' | b'-'),
        other => byte == *other,
    };
    field.len() == FORM.len() && field.bytes().zip(FORM).all(is_of)
}

/// Seconds since 1970 of a field that has the form of a time, counted on the fingers.
fn second_of(field: &str) -> Time {
    let number = |from: usize, to: usize| field[from..to].parse::<i64>().expect("digits");
    let Some(month) = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(&field[3..6])) else { return Time::None };
    let (day, month, year) = (number(0, 2), month as i64 + 1, number(7, 11));
    let (hour, minute, second) = (number(12, 14), number(15, 17), number(18, 20));
    let (off_hour, off_minute) = (number(22, 24), number(24, 26));
    if !(1..=days_in(year, month)).contains(&day) || hour > 23 || minute > 59 || second > 60 || off_minute > 59 {
        return Time::None;
    }
    if second == 60 || off_hour > 23 || year == 9999 {
        return Time::Unsaid;
    }
    let days =
        days_before(year) - days_before(1970) + (1..month).map(|month| days_in(year, month)).sum::<i64>() + day - 1;
    let offset = (off_hour * 60 + off_minute) * 60;
    let local = ((days * 24 + hour) * 60 + minute) * 60 + second;
    Time::Second(if &field[21..22] == "-" { local + offset } else { local - offset })
}

/// A field that has the form of a time.
enum Time {
    Second(i64),
    /// There is no such time.
    None,
    /// A leap second, the last year there is, or an offset of days: left to the reader's own tests.
    Unsaid,
}

/// The time field for a second since 1970; none before the year 0, which four digits can't say.
fn time_field(second: i64) -> Option<String> {
    let (mut days, of_day) = (second.div_euclid(86_400) + days_before(1970), second.rem_euclid(86_400));
    let mut year = usize::try_from(days).ok()? as i64 / 366;
    days -= days_before(year);
    while days >= 365 + i64::from(is_leap(year)) {
        days -= 365 + i64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    while days >= days_in(year, month) {
        days -= days_in(year, month);
        month += 1;
    }
    let (name, day) = (MONTHS[month as usize - 1], days + 1);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    Some(format!("{day:02}/{name}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000"))
}

/// The log reader without a regular expression.
mod by_hand {
    /// The fields that a line has to have, and whether what follows them was cut off.
    pub(crate) struct Fields<'a> {
        pub(crate) client: &'a str,
        pub(crate) time: &'a str,
        pub(crate) cut_off: bool,
    }

    pub(crate) fn read(line: &str) -> Option<Fields<'_>> {
        let mut rest = line;
        let client = word(&mut rest)?;
        word(&mut rest)?;
        let time = time(&mut rest)?;
        quoted(&mut rest)?;
        number(&mut rest)?;
        number(&mut rest)?;
        Some(Fields { client, time, cut_off: is_cut_off(rest) })
    }

    /// The next word, up to a space.
    fn word<'a>(rest: &mut &'a str) -> Option<&'a str> {
        let from = rest.trim_start_matches(' ');
        let (word, after) = from.split_once(' ').unwrap_or((from, ""));
        *rest = after;
        (!word.is_empty()).then_some(word)
    }

    /// The first brackets that a time is in. What comes before them is the user's name.
    fn time<'a>(rest: &mut &'a str) -> Option<&'a str> {
        for (at, bracket) in rest.match_indices(" [") {
            let (time, after) = rest[at + bracket.len()..].split_once(']')?;
            if super::is_a_time_field(time) {
                *rest = after;
                return Some(time);
            }
        }
        None
    }

    /// A field in double quotes, in which a backslash escapes the character after it.
    fn quoted(rest: &mut &str) -> Option<()> {
        let inner = rest.trim_start_matches(' ').strip_prefix('"')?;
        let mut escaped = false;
        for (at, byte) in inner.bytes().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => {
                    *rest = &inner[at + 1..];
                    return Some(());
                }
                _ => {}
            }
        }
        None
    }

    /// Digits, or `-` for none.
    fn number(rest: &mut &str) -> Option<()> {
        let word = word(rest)?;
        (word == "-" || word.bytes().all(|byte| byte.is_ascii_digit())).then_some(())
    }

    /// Whether a quoted field has no end.
    fn is_cut_off(mut rest: &str) -> bool {
        loop {
            rest = rest.trim_start_matches(' ');
            let read = match rest.bytes().next() {
                None => return false,
                Some(b'"') => quoted(&mut rest),
                Some(_) => word(&mut rest).map(|_| ()),
            };
            if read.is_none() {
                return true;
            }
        }
    }
}

/// What was read of one line is what is in it.
fn check(line: &str) -> Option<LogLine<'_>> {
    let read = log_format::parse(line);
    if let Err(why) = &read {
        assert!(!why.to_string().is_empty());
    }
    let fields = by_hand::read(line);
    let time = fields.as_ref().map_or(Time::None, |fields| second_of(fields.time));
    match (&read, &fields, time) {
        (Ok(read), Some(fields), Time::Second(second)) => {
            assert_eq!((read.client, read.second, read.cut_off), (fields.client, second, fields.cut_off), "{line:?}");
        }
        (Err(_), _, Time::None) | (_, Some(_), Time::Unsaid) => {}
        (read, ..) => panic!("{line:?} was read as {read:?}"),
    }
    let read = read.ok()?;
    // Written again, it reads the same.
    if let Some(time) = time_field(read.second) {
        let again = format!("{} - - [{time}] \"-\" 0 -", read.client);
        let expected = LogLine { client: read.client, second: read.second, cut_off: false };
        assert_eq!(log_format::parse(&again), Ok(expected), "{again:?}");
    }
    Some(read)
}

fuzz_target!(|bytes: &[u8]| {
    let text: Vec<_> = bytes.split_inclusive(|byte| *byte == b'\n').map(String::from_utf8_lossy).collect();
    // A mark of the byte order is no part of a client, nor are ends of lines of the last field.
    let lines = text.iter().map(|line| line.trim_end_matches(['\n', '\r']).trim_start_matches('\u{feff}'));
    let good: Vec<_> = lines.filter_map(check).collect();

    let (trace, contents) = trace::read_lines(bytes).expect("memory can be read");
    assert_eq!(contents.lines, text.len() as u64);
    assert_eq!(contents.lines, trace.requests.len() as u64 + contents.bad_lines);
    assert_eq!(trace.requests.len(), good.len());
    assert_eq!(contents.first_bad_lines.len() as u64, contents.bad_lines.min(5));
    assert_eq!(contents.cut_off, good.iter().filter(|line| line.cut_off).count() as u64);
    assert_eq!(contents.first_cut_off.is_some(), contents.cut_off > 0);
    let clients: HashSet<_> = good.iter().map(|line| line.client).collect();
    assert_eq!(contents.clients as usize, clients.len());
    assert!(trace.requests.is_sorted_by_key(|request| request.at));
    let mut seconds: Vec<_> = good.iter().map(|line| line.second).collect();
    let is_late = |at: &usize| seconds[..*at].iter().any(|before| *before > seconds[*at]);
    assert_eq!(contents.out_of_order, (0..seconds.len()).filter(is_late).count());
    seconds.sort_unstable();
    for (second, request) in seconds.iter().zip(&trace.requests) {
        assert_eq!(request.at.as_secs(), second.abs_diff(seconds[0]));
        assert!(request.client < contents.clients);
    }
});
