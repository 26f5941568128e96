//! Durations in Go's notation: `1m30s`, `100ms`, `1h0m0s`.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A signed duration in nanoseconds that parses and prints like Go's `time.Duration`.
///
/// In JSON it is a string, like `metav1.Duration`; a number is refused because it has no unit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(i64);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    #[error("{0:?} is not a duration such as \"1m30s\", \"100ms\" or \"2h\"")]
    Malformed(String),
    #[error("{0:?} is a duration without a unit; write \"{0}s\" for seconds")]
    NoUnit(String),
    /// More than 64 bits of nanoseconds, about 292 years.
    #[error("{0:?} is too long a duration")]
    TooLong(String),
}

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

impl GoDuration {
    pub const ZERO: Self = Self(0);

    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(MILLISECOND.cast_signed()))
    }

    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(SECOND.cast_signed()))
    }

    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// As a standard duration; a negative one becomes zero.
    pub fn to_std(self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }

    /// Without the part below a millisecond, for text that a user reads: `1m2.5s`, `203ms`, `0s`.
    #[must_use]
    pub const fn truncated_to_millis(self) -> Self {
        Self(self.0 - self.0 % MILLISECOND.cast_signed())
    }
}

impl From<Duration> for GoDuration {
    /// Capped at the longest duration that Go has, about 292 years.
    fn from(duration: Duration) -> Self {
        Self(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let malformed = || DurationError::Malformed(text.to_owned());
        let too_long = || DurationError::TooLong(text.to_owned());
        let negative = text.starts_with('-');
        let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
        if rest == "0" {
            return Ok(Self::ZERO);
        }
        if rest.is_empty() {
            return Err(malformed());
        }
        let mut total: u128 = 0;
        while !rest.is_empty() {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let (number, after) = rest.split_at(end);
            let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
            let (unit, next) = after.split_at(unit_end);
            if unit.is_empty() && !number.is_empty() {
                return Err(DurationError::NoUnit(text.to_owned()));
            }
            let unit = unit_nanos(unit).ok_or_else(malformed)?;
            let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
            if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
                return Err(malformed());
            }
            let whole = whole_nanos(whole, unit).ok_or_else(too_long)?;
            total = total.saturating_add(whole).saturating_add(u128::from(fraction_nanos(fraction, unit)));
            rest = next;
        }
        let total = i128::try_from(total).unwrap_or(i128::MAX);
        i64::try_from(if negative { -total } else { total }).map(Self).map_err(|_| too_long())
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        if nanos == 0 {
            return f.write_str("0s");
        }
        if nanos < SECOND {
            let (unit, size) = match nanos {
                0..MICROSECOND => ("ns", 1),
                MICROSECOND..MILLISECOND => ("µs", MICROSECOND),
                _ => ("ms", MILLISECOND),
            };
            return write!(f, "{}{unit}", decimal(nanos, size));
        }
        let (hours, minutes) = (nanos / HOUR, nanos / MINUTE % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if hours > 0 || minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        write!(f, "{}s", decimal(nanos % MINUTE, SECOND))
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

fn unit_nanos(unit: &str) -> Option<u64> {
    match unit {
        "ns" => Some(1),
        // The micro sign and the Greek letter mu.
        "us" | "µs" | "μs" => Some(MICROSECOND),
        "ms" => Some(MILLISECOND),
        "s" => Some(SECOND),
        "m" => Some(MINUTE),
        "h" => Some(HOUR),
        _ => None,
    }
}

/// The digits before the point times the unit; `None` when they do not fit.
fn whole_nanos(digits: &str, unit: u64) -> Option<u128> {
    let whole = if digits.is_empty() { 0 } else { digits.parse::<u64>().ok()? };
    Some(u128::from(whole) * u128::from(unit))
}

/// The digits after the point times the unit, cut to whole nanoseconds.
///
/// Computes in floating point and ignores digits that do not fit 63 bits, because Go does: another rounding would give
/// another last nanosecond.
fn fraction_nanos(digits: &str, unit: u64) -> u64 {
    let (mut fraction, mut scale) = (0_u64, 1.0_f64);
    for digit in digits.bytes() {
        let next = fraction.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
        if fraction > i64::MAX.unsigned_abs() / 10 || next > 1 << 63 {
            break;
        }
        (fraction, scale) = (next, scale * 10.0);
    }
    (fraction as f64 * (unit as f64 / scale)) as u64
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
mod tests;
