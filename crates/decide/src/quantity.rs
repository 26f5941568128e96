//! Resource quantities (`500m`, `1.5Gi`, `2e3`) as exact numbers.

pub mod text;

use std::collections::BTreeMap;
use std::ops::Add;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

const NANOS_PER_UNIT: i128 = 1_000_000_000;
const NANOS_PER_MILLI: i128 = 1_000_000;

/// A resource list as the API writes it.
pub type ResourceList = BTreeMap<String, Quantity>;

/// An exact amount of a resource; finer than a billionth is rounded up, beyond the range is capped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amount {
    nanos: i128,
}

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self { nanos: 0 };

    /// A number of whole units.
    #[must_use]
    pub fn whole(units: i64) -> Self {
        Self { nanos: i128::from(units) * NANOS_PER_UNIT }
    }

    /// Reads a quantity; `None` when the text is no quantity.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (integer, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (integer.is_empty() && fraction.is_empty()) {
            return None;
        }
        let digits = digits_value(integer, fraction);
        let places = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
        let nanos = match unit(suffix)? {
            Unit::PowerOfTen(power) => shifted(digits, power.saturating_sub(places).saturating_add(9)),
            Unit::PowerOfTwo(power) => {
                shifted(digits.saturating_mul(1_i128 << power), 9_i32.saturating_sub(places))
            }
        };
        Some(Self { nanos: if negative { -nanos } else { nanos } })
    }

    /// The amount of an API quantity; what cannot be read counts as nothing, since validation refused it.
    #[must_use]
    pub fn of(quantity: &Quantity) -> Self {
        Self::parse(&quantity.0).unwrap_or(Self::ZERO)
    }

    /// The amount under a name of a list; nothing when absent.
    #[must_use]
    pub fn in_list(list: Option<&ResourceList>, name: &str) -> Self {
        list.and_then(|list| list.get(name)).map_or(Self::ZERO, Self::of)
    }

    /// Thousandths, rounded up (away from zero).
    #[must_use]
    pub fn milli(self) -> i64 {
        self.rounded(NANOS_PER_MILLI)
    }

    /// Whole units, rounded up (away from zero).
    #[must_use]
    pub fn units(self) -> i64 {
        self.rounded(NANOS_PER_UNIT)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether there is some.
    #[must_use]
    pub fn is_positive(self) -> bool {
        self.nanos > 0
    }

    /// A number of thousandths.
    #[must_use]
    pub fn thousandths(milli: i64) -> Self {
        Self { nanos: i128::from(milli) * NANOS_PER_MILLI }
    }

    fn rounded(self, step: i128) -> i64 {
        let up = if self.nanos % step == 0 { 0 } else { self.nanos.signum() };
        let steps = self.nanos / step + up;
        i64::try_from(steps).unwrap_or(if steps < 0 { i64::MIN } else { i64::MAX })
    }
}

impl Add for Amount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_add(other.nanos) }
    }
}

/// Thousandths of a quantity, rounded up.
#[must_use]
pub fn milli(quantity: &Quantity) -> i64 {
    Amount::of(quantity).milli()
}

/// Whole units (bytes, pods) of a quantity, rounded up.
#[must_use]
pub fn bytes(quantity: &Quantity) -> i64 {
    Amount::of(quantity).units()
}

enum Unit {
    PowerOfTen(i32),
    PowerOfTwo(u32),
}

fn unit(suffix: &str) -> Option<Unit> {
    Some(match suffix {
        "n" => Unit::PowerOfTen(-9),
        "u" => Unit::PowerOfTen(-6),
        "m" => Unit::PowerOfTen(-3),
        "" => Unit::PowerOfTen(0),
        "k" => Unit::PowerOfTen(3),
        "M" => Unit::PowerOfTen(6),
        "G" => Unit::PowerOfTen(9),
        "T" => Unit::PowerOfTen(12),
        "P" => Unit::PowerOfTen(15),
        "E" => Unit::PowerOfTen(18),
        "Ki" => Unit::PowerOfTwo(10),
        "Mi" => Unit::PowerOfTwo(20),
        "Gi" => Unit::PowerOfTwo(30),
        "Ti" => Unit::PowerOfTwo(40),
        "Pi" => Unit::PowerOfTwo(50),
        "Ei" => Unit::PowerOfTwo(60),
        _ => Unit::PowerOfTen(suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
    })
}

/// The digits as one number, capped.
fn digits_value(integer: &str, fraction: &str) -> i128 {
    integer.bytes().chain(fraction.bytes()).fold(0_i128, |value, digit| {
        value.saturating_mul(10).saturating_add(i128::from(digit.wrapping_sub(b'0')))
    })
}

/// `number` × 10^`power`, rounded up and capped.
fn shifted(number: i128, power: i32) -> i128 {
    match (number, 10_i128.checked_pow(power.unsigned_abs())) {
        (0, _) => 0,
        (_, Some(factor)) if power >= 0 => number.saturating_mul(factor),
        (_, Some(factor)) => number / factor + i128::from(number % factor != 0),
        (_, None) if power >= 0 => i128::MAX,
        (_, None) => 1,
    }
}

#[cfg(test)]
mod tests;
