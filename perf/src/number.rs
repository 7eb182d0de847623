//! Numbers: counts from the command line, and digits grouped for reading.

/// Reads `1000000`, `1_000_000` or `1,000,000`; for clap.
pub(crate) fn parse_count(text: &str) -> Result<usize, String> {
    let digits: String = text.chars().filter(|c| !matches!(c, '_' | ',')).collect();
    digits.parse().map_err(|_| "a count is a whole number, such as 50000 or 1_000_000".to_owned())
}

/// As [`parse_count`], but at least one.
pub(crate) fn parse_positive(text: &str) -> Result<usize, String> {
    match parse_count(text)? {
        0 => Err("must be at least 1".to_owned()),
        count => Ok(count),
    }
}

/// `1234567` as `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// As [`grouped`], rounded to a whole number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates; the cast saturates")]
pub(crate) fn grouped_f64(number: f64) -> String {
    grouped(number.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_digits() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped_f64(999.6), "1,000");
    }

    #[test]
    fn counts_may_be_grouped() {
        assert_eq!(parse_count("1_000_000"), Ok(1_000_000));
        assert_eq!(parse_count("1,000"), Ok(1_000));
        assert!(parse_count("1e6").is_err());
        assert!(parse_count("-1").is_err());
        assert!(parse_positive("0").is_err());
    }
}
