//! Resource quantities (`500m`, `1.5Gi`, `2e3`) with the semantics of apimachinery's `resource.Quantity`.

mod amount;
mod canonical;
mod decimal;
mod parts;
mod written;

use std::cmp::Ordering;
use std::ops::Add;
use std::str::FromStr;

pub use amount::Amount;
pub use canonical::{binary_si, decimal_si, decimal_si_from_milli};
pub use decimal::Decimal;
pub use parts::{Parts, Suffix};
pub use written::{WrittenQuantity, WrittenQuantityError};

const NANO: i32 = -9;
const MILLI: i32 = -3;

/// A number with the format that it was written in.
///
/// Parsing keeps the value exactly, except that it rounds anything finer than 10⁻⁹ away from zero and caps a binary
/// quantity at 2⁶³-1. `Display` is the canonical form (`1000m` is `1`). Equality and order compare the value only.
#[derive(Debug, Clone)]
pub struct Quantity {
    number: Number,
    format: Format,
}

/// The value of a quantity in the form that upstream keeps in memory, which the UID of a static pod depends on.
#[derive(Debug, Clone)]
pub enum Number {
    /// `value` × 10^`scale`: upstream's `int64Amount`.
    Short { value: i64, scale: i32 },
    /// Everything that does not fit: upstream's `infDecAmount`.
    Big(Decimal),
}

/// The suffix family of a quantity; upstream's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `m`, `k`, `M` and so on, or no suffix.
    DecimalSi,
    /// `Ki`, `Mi` and so on.
    BinarySi,
    /// `2e3`.
    DecimalExponent,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("quantities are a number with an optional suffix, like 500m, 1.5, 64Mi or 2e3")]
pub struct InvalidQuantity;

impl Quantity {
    /// A number of whole units; upstream's `NewQuantity`.
    pub const fn new(units: i64, format: Format) -> Self {
        Self { number: Number::Short { value: units, scale: 0 }, format }
    }

    /// Parses after removing white space at both ends, like upstream's `UnmarshalJSON`. `FromStr` refuses it, like
    /// upstream's `ParseQuantity`.
    pub fn parse_trimmed(text: &str) -> Result<Self, InvalidQuantity> {
        text.trim().parse()
    }

    pub const fn number(&self) -> &Number {
        &self.number
    }

    pub const fn format(&self) -> Format {
        self.format
    }

    pub fn is_zero(&self) -> bool {
        match &self.number {
            Number::Short { value, .. } => *value == 0,
            Number::Big(decimal) => decimal.is_zero(),
        }
    }

    pub fn is_negative(&self) -> bool {
        match &self.number {
            Number::Short { value, .. } => *value < 0,
            Number::Big(decimal) => decimal.is_negative(),
        }
    }

    pub fn is_positive(&self) -> bool {
        !self.is_zero() && !self.is_negative()
    }

    pub fn is_whole(&self) -> bool {
        self.to_decimal().is_whole()
    }

    /// Whole units, rounded away from zero and capped at the range of `i64`.
    ///
    /// Upstream's `Value` agrees within that range, except that it rounds a negative big decimal towards zero; beyond
    /// the range it returns the low 64 bits or zero.
    pub fn value(&self) -> i64 {
        Amount::from(self).units()
    }

    /// Rounded away from zero to whole thousandths; a coarser quantity keeps its scale. Upstream's `RoundUp(Milli)`.
    #[must_use]
    pub fn rounded_up_to_milli(self) -> Self {
        let number = match self.number {
            Number::Big(decimal) => Number::Big(decimal.rounded_away(-MILLI)),
            Number::Short { value, scale } if scale < MILLI => {
                // A short number has a scale of at least -9, so the divisor is at most 10^6.
                let divisor = 10_i64.saturating_pow((MILLI - scale).unsigned_abs());
                let away = if value % divisor == 0 { 0 } else { value.signum() };
                Number::Short { value: value / divisor + away, scale: MILLI }
            }
            coarse @ Number::Short { .. } => coarse,
        };
        Self { number, ..self }
    }

    fn to_decimal(&self) -> Decimal {
        match &self.number {
            Number::Short { value, scale } => Decimal::from_short(*value, *scale),
            Number::Big(decimal) => decimal.clone(),
        }
    }
}

impl FromStr for Quantity {
    type Err = InvalidQuantity;

    /// Refuses a text without any digit, such as `Mi` or `-`. Upstream takes it as zero, and so does [`Parts::parse`].
    fn from_str(text: &str) -> Result<Self, InvalidQuantity> {
        let parts = Parts::parse(text).filter(Parts::has_digits).ok_or(InvalidQuantity)?;
        Ok(parts.to_quantity())
    }
}

impl Add for &Quantity {
    type Output = Quantity;

    /// The sum in the first operand's format, or in the second's if the first is zero. Upstream's `Add`.
    fn add(self, other: &Quantity) -> Quantity {
        let format = if self.is_zero() { other.format } else { self.format };
        let number = match (&self.number, &other.number) {
            (Number::Short { value, scale }, Number::Short { value: more, scale: more_scale }) => {
                add_short((*value, *scale), (*more, *more_scale))
            }
            _ => None,
        };
        let number = number.unwrap_or_else(|| Number::Big(self.to_decimal().plus(other.to_decimal())));
        Quantity { number, format }
    }
}

/// At the finer of the two scales; `None` when the sum does not fit.
fn add_short((value, scale): (i64, i32), (more, more_scale): (i64, i32)) -> Option<Number> {
    if more == 0 {
        return Some(Number::Short { value, scale });
    }
    if value == 0 {
        return Some(Number::Short { value: more, scale: more_scale });
    }
    let common = scale.min(more_scale);
    let scaled = |value: i64, scale: i32| {
        value.checked_mul(10_i64.checked_pow(scale.checked_sub(common)?.unsigned_abs())?)
    };
    let sum = scaled(value, scale)?.checked_add(scaled(more, more_scale)?)?;
    Some(Number::Short { value: sum, scale: common })
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.to_decimal().cmp_value(&other.to_decimal())
    }
}

#[cfg(test)]
mod tests;
