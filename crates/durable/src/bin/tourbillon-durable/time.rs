//! Times in UTC.

use std::time::{Duration, SystemTime};

/// For a line: to the millisecond.
pub(crate) fn text(time: SystemTime) -> String {
    let (date, micros) = parts(time);
    format!("{} {}.{:03}Z", date.0, date.1, micros / 1_000)
}

/// For JSON: to the microsecond, as RFC 3339 says.
pub(crate) fn json(time: SystemTime) -> String {
    let (date, micros) = parts(time);
    format!("{}T{}.{micros:06}Z", date.0, date.1)
}

/// How long ago it was, if it was.
pub(crate) fn late(due: SystemTime) -> Option<String> {
    SystemTime::now().duration_since(due).ok().map(length)
}

/// In two units at most.
pub(crate) fn length(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{} ms", time.as_millis()),
        1..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// The date, the time of day, and the microseconds.
fn parts(time: SystemTime) -> ((String, String), u32) {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = civil(days);
    let date = format!("{year:04}-{month:02}-{day:02}");
    let of_day = format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60);
    ((date, of_day), since.subsec_micros())
}

/// The date that is so many days after 1970 began. A year begins with March here, so that a leap
/// day is its last one.
fn civil(days: u64) -> (u64, u64, u64) {
    // Since March 1 of the year 0. In 400 years there are 146,097 days.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (400 * era + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_date_that_it_is() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::new(seconds, 123_456_789);
        assert_eq!(text(at(0)), "1970-01-01 00:00:00.123Z");
        assert_eq!(json(at(951_782_399)), "2000-02-28T23:59:59.123456Z");
        assert_eq!(json(at(951_782_400)), "2000-02-29T00:00:00.123456Z");
        assert_eq!(json(at(1_709_251_200)), "2024-03-01T00:00:00.123456Z");
        assert_eq!(json(at(4_107_542_399)), "2100-02-28T23:59:59.123456Z");
        assert_eq!(json(at(4_107_542_400)), "2100-03-01T00:00:00.123456Z");
    }
}
