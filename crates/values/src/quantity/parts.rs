//! The grammar of a quantity's text.

use super::decimal::Decimal;
use super::{Format, NANO, Number, Quantity};

/// This many digits always fit the short form; upstream's `maxInt64Factors`.
const MAX_SHORT_DIGITS: usize = 18;

/// A quantity's text, split as upstream's scanner splits it.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    text: &'a str,
    negative: bool,
    has_digits: bool,
    /// Without leading zeros.
    whole: &'a str,
    fraction: &'a str,
    suffix: Suffix,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suffix {
    /// Power of ten.
    DecimalSi(i32),
    /// Power of two.
    BinarySi(u8),
    /// Power of ten.
    DecimalExponent(i32),
}

impl<'a> Parts<'a> {
    /// `None` if upstream refuses the text, and for an exponent beyond 32 bits, of which upstream drops the high bits.
    pub fn parse(text: &'a str) -> Option<Self> {
        if text.is_empty() {
            return None;
        }
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (whole, rest) = split_digits(unsigned);
        let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), split_digits);
        let suffix = Suffix::parse(rest)?;
        Some(Self {
            text,
            negative: text.starts_with('-'),
            has_digits: !(whole.is_empty() && fraction.is_empty()),
            whole: whole.trim_start_matches('0'),
            fraction,
            suffix,
        })
    }

    pub fn suffix(&self) -> Suffix {
        self.suffix
    }

    pub fn has_digits(&self) -> bool {
        self.has_digits
    }

    /// Whether upstream keeps the text beside the number and prints it later instead of the canonical form. It guesses
    /// which texts are canonical; `+3` and `007` pass, `8Ki` does not.
    pub fn is_kept_as_written(&self) -> bool {
        let Some((mantissa, scale)) = self.short_mantissa().filter(|_| self.short().is_some()) else {
            return false;
        };
        match self.suffix {
            Suffix::BinarySi(_) => mantissa & 7 != 0,
            Suffix::DecimalSi(_) | Suffix::DecimalExponent(_) => {
                self.text == "0" || (scale % 3 == 0 && mantissa % 1000 != 0 && !self.whole.is_empty())
            }
        }
    }

    pub fn to_quantity(&self) -> Quantity {
        match self.short() {
            Some(number) => Quantity { number, format: self.suffix.format() },
            None => self.big(),
        }
    }

    /// The digits as one number and the power of ten of the last one, where upstream uses the short form.
    fn short_mantissa(&self) -> Option<(i64, i32)> {
        // Upstream writes an absent whole part as one zero.
        let digits = self.whole.len().max(1) + self.fraction.len();
        let (exponent, room) = match self.suffix {
            Suffix::DecimalSi(exponent) | Suffix::DecimalExponent(exponent) => (exponent, MAX_SHORT_DIGITS),
            // Ten binary digits are about three decimal ones.
            Suffix::BinarySi(exponent) if self.fraction.is_empty() => {
                (0, 14_usize.saturating_sub(usize::from(exponent) * 3 / 10))
            }
            Suffix::BinarySi(_) => return None,
        };
        let scale = exponent.checked_sub(i32::try_from(self.fraction.len()).ok()?)?;
        if digits > room || scale < NANO {
            return None;
        }
        let value = |value, digit: u8| value * 10 + i64::from(digit - b'0');
        Some((self.whole.bytes().chain(self.fraction.bytes()).fold(0, value), scale))
    }

    fn short(&self) -> Option<Number> {
        let (mantissa, scale) = self.short_mantissa()?;
        let factor = match self.suffix {
            Suffix::BinarySi(exponent) => 1_i64 << exponent,
            Suffix::DecimalSi(_) | Suffix::DecimalExponent(_) => 1,
        };
        let value = mantissa.checked_mul(factor)?;
        Some(Number::Short { value: if self.negative { -value } else { value }, scale })
    }

    fn big(&self) -> Quantity {
        let decimal = Decimal::from_digits(self.negative, self.whole, self.fraction);
        let decimal = match self.suffix {
            Suffix::DecimalSi(exponent) | Suffix::DecimalExponent(exponent) => decimal.shifted(exponent),
            Suffix::BinarySi(exponent) => decimal.doubled(exponent),
        };
        let decimal = if decimal.is_zero() { decimal } else { decimal.rounded_away(-NANO) };
        let (decimal, format) = match self.suffix {
            Suffix::BinarySi(_) if decimal.is_fraction_of_one() => (decimal, Format::DecimalSi),
            Suffix::BinarySi(_) => (decimal.capped(), Format::BinarySi),
            Suffix::DecimalSi(_) | Suffix::DecimalExponent(_) => (decimal, self.suffix.format()),
        };
        Quantity { number: Number::Big(decimal), format }
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

impl Suffix {
    /// Power of ten and name, without the exponent notation.
    pub const DECIMAL: [(i32, &'static str); 10] = [
        (-9, "n"),
        (-6, "u"),
        (-3, "m"),
        (0, ""),
        (3, "k"),
        (6, "M"),
        (9, "G"),
        (12, "T"),
        (15, "P"),
        (18, "E"),
    ];
    /// Power of two and name.
    pub const BINARY: [(u8, &'static str); 6] =
        [(10, "Ki"), (20, "Mi"), (30, "Gi"), (40, "Ti"), (50, "Pi"), (60, "Ei")];

    fn parse(text: &str) -> Option<Self> {
        if let Some((power, _)) = Self::DECIMAL.iter().find(|(_, name)| *name == text) {
            return Some(Self::DecimalSi(*power));
        }
        if let Some((power, _)) = Self::BINARY.iter().find(|(_, name)| *name == text) {
            return Some(Self::BinarySi(*power));
        }
        text.strip_prefix(['e', 'E'])?.parse().ok().map(Self::DecimalExponent)
    }

    fn format(self) -> Format {
        match self {
            Self::DecimalSi(_) => Format::DecimalSi,
            Self::BinarySi(_) => Format::BinarySi,
            Self::DecimalExponent(_) => Format::DecimalExponent,
        }
    }
}
