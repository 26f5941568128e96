//! Durations the way the configuration file and the flags write them: `1m30s`, `100ms`, `1h0m0s`.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A signed duration in nanoseconds that parses and prints like Go's.
///
/// In JSON it is a text; numbers are refused, because their unit would be a guess.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(i64);

/// A text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The text has another shape.
    #[error("{0:?} is not a duration such as \"1m30s\", \"100ms\" or \"2h\"")]
    Malformed(String),
    /// A number stands without a unit.
    #[error("{0:?} is a duration without a unit; write \"{0}s\" for seconds")]
    NoUnit(String),
    /// The duration does not fit 64 bits of nanoseconds (about 292 years).
    #[error("{0:?} is too long a duration")]
    TooLong(String),
}

const MICROSECOND: i64 = 1_000;
const MILLISECOND: i64 = 1_000_000;
const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

impl GoDuration {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A number of milliseconds.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(MILLISECOND))
    }

    /// A number of seconds.
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(SECOND))
    }

    /// A number of nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// The duration in nanoseconds.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Whether this is no time at all.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Whether this is less than no time.
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// As a standard duration; negative ones become zero.
    pub fn to_std(self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }
}

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let malformed = || DurationError::Malformed(text.to_owned());
        let too_long = || DurationError::TooLong(text.to_owned());
        let (sign, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (-1, text.get(1..).unwrap_or_default()),
            Some(b'+') => (1, text.get(1..).unwrap_or_default()),
            _ => (1, text),
        };
        if rest == "0" {
            return Ok(Self::ZERO);
        }
        if rest.is_empty() {
            return Err(malformed());
        }
        let mut total: i128 = 0;
        while !rest.is_empty() {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let (number, after) = rest.split_at(end);
            let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
            let (unit, next) = after.split_at(unit_end);
            if unit.is_empty() && !number.is_empty() {
                return Err(DurationError::NoUnit(text.to_owned()));
            }
            let unit = unit_nanos(unit).ok_or_else(malformed)?;
            total = total.saturating_add(scaled(number, unit).ok_or_else(malformed)?);
            rest = next;
        }
        i64::try_from(total * sign).map(Self).map_err(|_| too_long())
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        let second = SECOND.unsigned_abs();
        if nanos == 0 {
            return f.write_str("0s");
        }
        if nanos < second {
            let (unit, size) = match nanos {
                0..1_000 => ("ns", 1),
                1_000..1_000_000 => ("µs", MICROSECOND.unsigned_abs()),
                _ => ("ms", MILLISECOND.unsigned_abs()),
            };
            return write!(f, "{}{unit}", decimal(nanos, size));
        }
        let seconds = nanos / second;
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if hours > 0 || minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        write!(f, "{}s", decimal(nanos % (60 * second), second))
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = GoDuration;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration with its unit, such as \"1m30s\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<GoDuration, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

fn unit_nanos(unit: &str) -> Option<i64> {
    match unit {
        "ns" => Some(1),
        "us" | "µs" | "μs" => Some(MICROSECOND),
        "ms" => Some(MILLISECOND),
        "s" => Some(SECOND),
        "m" => Some(MINUTE),
        "h" => Some(HOUR),
        _ => None,
    }
}

/// A decimal number times a unit, cut to whole nanoseconds.
fn scaled(number: &str, unit: i64) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || whole.len() > 19 {
        return None;
    }
    let unit = i128::from(unit);
    let mut total = if whole.is_empty() { 0 } else { whole.parse::<i128>().ok()? * unit };
    let mut scale = unit;
    for digit in fraction.bytes().take(18) {
        scale /= 10;
        total += i128::from(digit - b'0') * scale;
    }
    Some(total)
}

/// `nanos / size` with as many decimals as it needs.
fn decimal(nanos: u64, size: u64) -> String {
    let (whole, rest) = (nanos / size, nanos % size);
    if rest == 0 {
        return whole.to_string();
    }
    let width = size.ilog10() as usize;
    let fraction = format!("{rest:0width$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_and_prints_like_go() {
        let table = [
            ("0", "0s"),
            ("1m30s", "1m30s"),
            ("90s", "1m30s"),
            ("1h", "1h0m0s"),
            ("100ms", "100ms"),
            ("1.5h", "1h30m0s"),
            (".5s", "500ms"),
            ("1500ms", "1.5s"),
            ("-5s", "-5s"),
            ("+5s", "5s"),
            ("1us", "1µs"),
            ("1500ns", "1.5µs"),
            ("2h0m0.000000001s", "2h0m0.000000001s"),
            ("2562047h47m16.854775807s", "2562047h47m16.854775807s"),
        ];
        for (text, printed) in table {
            assert_eq!(text.parse::<GoDuration>().unwrap().to_string(), printed, "{text}");
        }
    }

    #[test]
    fn refuses_what_go_refuses() {
        for text in ["", "-", "5", "1.", "s", "1x", "1 s", "1..5s", "3000000h", "1m30", "1e3s"] {
            assert!(text.parse::<GoDuration>().is_err(), "{text:?}");
        }
        let error = serde_json::from_str::<GoDuration>("5").unwrap_err().to_string();
        assert!(error.contains("integer `5`, expected a duration with its unit"), "{error}");
    }

    proptest! {
        #[test]
        fn any_duration_reads_back(nanos in (i64::MIN + 1)..=i64::MAX) {
            let duration = GoDuration::from_nanos(nanos);
            prop_assert_eq!(duration.to_string().parse::<GoDuration>(), Ok(duration));
        }

        #[test]
        fn never_panics(text in "[-+0-9.a-zµ]{0,40}") {
            let _ = text.parse::<GoDuration>();
        }
    }
}
