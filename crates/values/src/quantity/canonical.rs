//! The canonical form: the largest suffix of the quantity's format that leaves a whole number.

use std::fmt::{self, Display};

use super::parts::Suffix;
use super::{Amount, Format, MILLI, Number, Quantity};

/// Power of ten of `E`.
const MAX_DECIMAL_SUFFIX: i32 = 18;

/// A number of whole units with a suffix such as `Mi`; below 1024 with a decimal suffix.
pub fn binary_si(units: i64) -> String {
    Quantity::new(units, Format::BinarySi).to_string()
}

/// A number of whole units with a suffix such as `M`.
pub fn decimal_si(units: i64) -> String {
    Quantity::new(units, Format::DecimalSi).to_string()
}

/// A number of thousandths with a decimal suffix: `1500m`, `2`, `3k`.
pub fn decimal_si_from_milli(milli: i64) -> String {
    let number = Number::Short { value: milli, scale: MILLI };
    Quantity { number, format: Format::DecimalSi }.to_string()
}

impl Display for Quantity {
    /// Upstream's `CanonicalizeBytes`. Its `String` sometimes repeats the text that was parsed instead, see
    /// [`Parts::is_kept_as_written`](super::Parts::is_kept_as_written).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        match self.whole_binary_units() {
            Some(units) => write_binary(units, f),
            None => self.write_decimal(f),
        }
    }
}

impl Quantity {
    /// The units of a binary quantity that is written with a binary suffix: whole, and at least 1024.
    fn whole_binary_units(&self) -> Option<i128> {
        let units = Amount::from(self).whole_units().filter(|units| units.unsigned_abs() >= 1024);
        units.filter(|_| self.format == Format::BinarySi)
    }

    fn write_decimal(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimal = self.to_decimal();
        let (digits, mut exponent) = decimal.significant();
        let mut zeros = exponent.rem_euclid(3);
        exponent -= zeros;
        if self.format != Format::DecimalExponent && exponent > MAX_DECIMAL_SUFFIX {
            // Upstream has no suffix for this and loses the exponent: it prints `1000E` as `1`.
            zeros += exponent - MAX_DECIMAL_SUFFIX;
            exponent = MAX_DECIMAL_SUFFIX;
        }
        if decimal.is_negative() {
            f.write_str("-")?;
        }
        for digit in digits {
            digit.fmt(f)?;
        }
        for _ in 0..zeros {
            f.write_str("0")?;
        }
        match Suffix::DECIMAL.iter().find(|(power, _)| *power == exponent) {
            _ if exponent == 0 => Ok(()),
            Some((_, suffix)) if self.format != Format::DecimalExponent => f.write_str(suffix),
            Some(_) | None => write!(f, "e{exponent}"),
        }
    }
}

fn write_binary(mut mantissa: i128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut suffix = "";
    for (_, next) in Suffix::BINARY {
        if mantissa % 1024 != 0 {
            break;
        }
        mantissa /= 1024;
        suffix = next;
    }
    write!(f, "{mantissa}{suffix}")
}
