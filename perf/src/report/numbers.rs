//! Figures as text, with three significant digits.

/// Returns `0.0123`, `4.62`, `44.1`, `823`, `4,823`, `1,000,000`.
pub(crate) fn short(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    // The magnitude after rounding: 9.996 is 10.0.
    let magnitude = format!("{:.2e}", value.abs()).split_once('e').and_then(|(_, power)| power.parse::<i32>().ok());
    let decimals = (2 - magnitude.unwrap_or(0)).clamp(0, 6) as usize;
    let text = format!("{value:.decimals$}");
    let text = if value.fract() == 0.0 { text.split('.').next().unwrap_or(&text).to_owned() } else { text };
    grouped(&text)
}

/// Puts a comma before each three digits of the whole part.
fn grouped(text: &str) -> String {
    let (sign, text) = text.strip_prefix('-').map_or(("", text), |text| ("-", text));
    let (whole, fraction) = text.split_once('.').map_or((text, None), |(whole, fraction)| (whole, Some(fraction)));
    let mut out = sign.to_owned();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// Returns a factor: `3.12`, `12.4`, `124`.
pub(crate) fn times(ratio: f64) -> String {
    match ratio {
        ..10.0 => format!("{ratio:.2}"),
        10.0..100.0 => format!("{ratio:.1}"),
        _ => short(ratio.round()),
    }
}

/// Returns a mark of an axis, where figures are round: `0.02`, `5`, `1,000`.
pub(crate) fn plain(value: f64) -> String {
    let text = short(value);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Returns a round number on an axis: `10 K`, `1 M`.
pub(crate) fn round_number(value: f64) -> String {
    match value {
        1e6.. => format!("{} M", short(value / 1e6)),
        1e3.. => format!("{} K", short(value / 1e3)),
        _ => short(value),
    }
}

/// Returns a share in percent.
pub(crate) fn percent(share: f64) -> String {
    match share * 100.0 {
        10.0.. => format!("{:.0} %", share * 100.0),
        1.0.. => format!("{:.1} %", share * 100.0),
        0.01.. => format!("{:.2} %", share * 100.0),
        _ => "< 0.01 %".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_commas() {
        let cases = [
            (0.0, "0"),
            (0.012_34, "0.0123"),
            (4.617, "4.62"),
            (9.996, "10.0"),
            (44.14, "44.1"),
            (3.0, "3"),
            (823.4, "823"),
            (4823.4, "4,823"),
            (1e6, "1,000,000"),
            (-1234.5, "-1,234"),
        ];
        for (value, text) in cases {
            assert_eq!(short(value), text);
        }
        assert_eq!([3.125, 12.44, 1234.0].map(times), ["3.12", "12.4", "1,234"]);
        assert_eq!([100.0, 1e4, 1e7].map(round_number), ["100", "10 K", "10 M"]);
        assert_eq!([0.912, 0.123, 0.0123, 0.000_01].map(percent), ["91 %", "12 %", "1.2 %", "< 0.01 %"]);
    }
}
