//! Fixed-point numbers for computing with quantities.

use std::ops::Add;

use super::{NANO, Number, Quantity};

const NANOS_PER_UNIT: i128 = 1_000_000_000;
const NANOS_PER_MILLI: i128 = 1_000_000;

/// An amount of a resource in units of 10⁻⁹, without the format it was written in. Capped far above anything that a
/// node has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amount {
    nanos: i128,
}

impl Amount {
    pub const ZERO: Self = Self { nanos: 0 };

    pub fn from_units(units: i64) -> Self {
        Self { nanos: i128::from(units) * NANOS_PER_UNIT }
    }

    pub fn from_milli(milli: i64) -> Self {
        Self { nanos: i128::from(milli) * NANOS_PER_MILLI }
    }

    /// `None` when the text is not a quantity.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<Quantity>().ok().map(|quantity| Self::from(&quantity))
    }

    /// Thousandths, rounded away from zero and capped at the range of `i64`.
    pub fn milli(self) -> i64 {
        self.rounded(NANOS_PER_MILLI)
    }

    /// Whole units, rounded away from zero and capped at the range of `i64`.
    pub fn units(self) -> i64 {
        self.rounded(NANOS_PER_UNIT)
    }

    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    pub fn is_positive(self) -> bool {
        self.nanos > 0
    }

    /// In units of 10⁻⁹; `None` when the number is so large that it is capped.
    pub fn exact_nanos(self) -> Option<i128> {
        (self.nanos.unsigned_abs() < i128::MAX.unsigned_abs()).then_some(self.nanos)
    }

    /// `None` for a fraction.
    pub(super) fn whole_units(self) -> Option<i128> {
        (self.nanos % NANOS_PER_UNIT == 0).then_some(self.nanos / NANOS_PER_UNIT)
    }

    /// The cap is symmetric, so that a capped amount and its canonical text, whose sign is separate, stay equal.
    fn capped(nanos: i128) -> Self {
        Self { nanos: nanos.max(-i128::MAX) }
    }

    fn rounded(self, step: i128) -> i64 {
        let away = if self.nanos % step == 0 { 0 } else { self.nanos.signum() };
        let steps = self.nanos / step + away;
        i64::try_from(steps).unwrap_or(if steps < 0 { i64::MIN } else { i64::MAX })
    }
}

impl From<&Quantity> for Amount {
    fn from(quantity: &Quantity) -> Self {
        let nanos = match &quantity.number {
            Number::Big(decimal) => decimal.to_nanos(),
            Number::Short { value, scale } => {
                // A short number has a scale of at least -9.
                let factor = 10_i128.checked_pow(scale.saturating_sub(NANO).unsigned_abs());
                i128::from(*value).saturating_mul(factor.unwrap_or(i128::MAX))
            }
        };
        Self::capped(nanos)
    }
}

impl Add for Amount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::capped(self.nanos.saturating_add(other.nanos))
    }
}

#[cfg(test)]
mod tests;
