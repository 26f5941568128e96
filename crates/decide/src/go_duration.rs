//! Durations the way Go writes and reads them, because users and other programs see them so.

use std::time::Duration;

/// The text of a duration, cut to whole milliseconds, such as `1m2.5s`, `203ms` or `0s`.
#[must_use]
pub fn to_milliseconds_text(duration: Duration) -> String {
    let millis = duration.as_millis();
    if millis == 0 {
        return "0s".to_owned();
    }
    if millis < 1000 {
        return format!("{millis}ms");
    }
    let (hours, minutes) = (millis / 3_600_000, millis / 60_000 % 60);
    let seconds = fraction(millis % 60_000);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}

fn fraction(millis: u128) -> String {
    let (whole, part) = (millis / 1000, millis % 1000);
    if part == 0 {
        return whole.to_string();
    }
    let part = format!("{part:03}");
    format!("{whole}.{}", part.trim_end_matches('0'))
}

/// Reads a duration such as `6h`, `1.5s` or `2m30s`; negative ones and numbers without a unit are refused, but for
/// a plain `0`.
#[must_use]
pub fn parse(text: &str) -> Option<Duration> {
    let text = text.strip_prefix('+').unwrap_or(text);
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (mut rest, mut total) = (text, Duration::ZERO);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let seconds = number.parse::<f64>().ok()? * seconds_of(unit)?;
        total = total.checked_add(Duration::try_from_secs_f64(seconds).ok()?)?;
        rest = after;
    }
    (!text.is_empty()).then_some(total)
}

fn seconds_of(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1e-9,
        "us" | "µs" | "μs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_what_go_writes() {
        for (millis, text) in [
            (0, "0s"),
            (203, "203ms"),
            (1000, "1s"),
            (1200, "1.2s"),
            (62_050, "1m2.05s"),
            (3_600_000, "1h0m0s"),
            (7_325_001, "2h2m5.001s"),
        ] {
            assert_eq!(to_milliseconds_text(Duration::from_millis(millis)), text);
        }
        assert_eq!(to_milliseconds_text(Duration::from_micros(900)), "0s");
    }

    #[test]
    fn reads_what_go_reads() {
        for (text, millis) in [("6h", 21_600_000), ("1.5s", 1500), ("2m30s", 150_000), ("0", 0), ("10ms", 10)]
        {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for bad in ["", "5", "-1s", "1d", "s", "1..2s", "9999999999999h1e9s"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
