//! A quantity as upstream holds it in memory.
//!
//! Equal quantities differ inside: the scale is that of the text, a text in canonical form is kept beside the number,
//! and what does not fit the short form is a big decimal. The printer shows all of it.

use std::fmt::{self, Write};

use super::decimal::Decimal;

/// No one means a longer number; it also bounds the work.
const MAX_TEXT: usize = 256;
/// Digits that always fit the short form.
const MAX_SHORT_DIGITS: i32 = 18;
const NANO: i32 = -9;
const MILLI: i32 = -3;

/// The internals of a quantity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Amount {
    number: Number,
    /// The canonical text, where upstream remembers it.
    cached: String,
    notation: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Number {
    Short { value: i64, scale: i32 },
    Big(Decimal),
}

impl Amount {
    /// A quantity that was never given.
    pub(super) const UNSET: Self =
        Self { number: Number::Short { value: 0, scale: 0 }, cached: String::new(), notation: "" };

    /// Reads a quantity; `None` if it is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || text.len() > MAX_TEXT {
            return None;
        }
        if text == "0" {
            return Some(Self { cached: text.to_owned(), notation: "DecimalSI", ..Self::UNSET });
        }
        let written = Written::read(text)?;
        let suffix = Suffix::read(written.suffix)?;
        match written.short(&suffix, text) {
            Some(amount) => Some(amount),
            None => written.big(&suffix),
        }
    }

    /// Rounds away from zero to whole thousandths; what is coarser stays as it is.
    pub(super) fn rounded_up_to_milli(self) -> Self {
        let number = match self.number {
            Number::Big(decimal) => Number::Big(decimal.rounded_away(-MILLI)),
            Number::Short { scale, .. } if scale >= MILLI => return self,
            Number::Short { value, scale } => {
                let value = (scale..MILLI).try_fold((value, false), |(value, inexact), _| {
                    if value == 0 { Err((0, inexact)) } else { Ok((value / 10, inexact || value % 10 != 0)) }
                });
                let (rounded, inexact) = value.unwrap_or_else(|done| done);
                let away = if inexact { sign_of(&self.number) } else { 0 };
                Number::Short { value: rounded + away, scale: MILLI }
            }
        };
        Self { number, cached: String::new(), notation: self.notation }
    }

    /// Writes the internals, without the type.
    pub(super) fn write(&self, out: &mut impl Write) -> fmt::Result {
        let (value, scale) = match &self.number {
            Number::Short { value, scale } => (*value, *scale),
            Number::Big(_) => (0, 0),
        };
        write!(out, "{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} ")?;
        out.write_str("d:(resource.infDecAmount){Dec:(*inf.Dec)")?;
        match &self.number {
            Number::Short { .. } => out.write_str("<nil>")?,
            Number::Big(decimal) => decimal.write(out)?,
        }
        write!(out, "}} s:(string){} Format:(resource.Format){}}}", self.cached, self.notation)
    }
}

fn sign_of(number: &Number) -> i64 {
    match number {
        Number::Short { value, .. } => value.signum(),
        Number::Big(_) => 0,
    }
}

/// The parts of a quantity's text.
struct Written<'a> {
    negative: bool,
    /// Digits before the point, without leading zeros; one zero if there are none.
    whole: &'a str,
    /// Digits after the point.
    fraction: &'a str,
    suffix: &'a str,
}

impl<'a> Written<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let significant = unsigned.trim_start_matches('0');
        let (whole, rest) = split_digits(significant);
        let (fraction, rest) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        let exponent = rest.trim_start_matches(|letter| "eEinumkKMGTP".contains(letter));
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        if !split_digits(exponent).1.is_empty() {
            return None;
        }
        Some(Self { negative, whole: if whole.is_empty() { "0" } else { whole }, fraction, suffix: rest })
    }

    /// The short form, where upstream uses it.
    fn short(&self, suffix: &Suffix, text: &str) -> Option<Amount> {
        let length = |digits: &str| i32::try_from(digits.len()).unwrap_or(i32::MAX);
        let (scale, factor, room) = match *suffix {
            Suffix::Decimal { exponent, .. } => {
                (exponent, 1, MAX_SHORT_DIGITS - length(self.whole) - length(self.fraction))
            }
            Suffix::Binary { exponent } if self.fraction.is_empty() => {
                // About three decimal digits for ten binary ones, and one to spare.
                (0, 1_i64 << exponent, 15 - length(self.whole) - i32::from(exponent) * 3 / 10 - 1)
            }
            Suffix::Binary { .. } => return None,
        };
        let scale = scale.checked_sub(length(self.fraction))?;
        if room < 0 || scale < NANO {
            return None;
        }
        let digits = [self.whole, self.fraction].concat();
        let number: i64 = digits.parse().ok()?;
        let value = number.checked_mul(factor)? * if self.negative { -1 } else { 1 };
        let is_canonical = match suffix {
            Suffix::Binary { .. } => number & 7 != 0,
            Suffix::Decimal { .. } => scale % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0'),
        };
        let cached = if is_canonical { text.to_owned() } else { String::new() };
        Some(Amount { number: Number::Short { value, scale }, cached, notation: suffix.notation() })
    }

    fn big(&self, suffix: &Suffix) -> Option<Amount> {
        let decimal = Decimal::from_digits(self.negative, self.whole, self.fraction);
        let decimal = match *suffix {
            Suffix::Decimal { exponent, .. } => decimal.shifted(exponent)?,
            Suffix::Binary { exponent } => decimal.doubled(exponent),
        };
        let decimal = if decimal.is_zero() { decimal } else { decimal.rounded_away(-NANO) };
        let mut notation = suffix.notation();
        let decimal = match suffix {
            Suffix::Decimal { .. } => decimal,
            Suffix::Binary { .. } => {
                if decimal.is_fraction_of_one() {
                    notation = "DecimalSI";
                }
                decimal.capped()
            }
        };
        Some(Amount { number: Number::Big(decimal), cached: String::new(), notation })
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

enum Suffix {
    Decimal { exponent: i32, notation: &'static str },
    Binary { exponent: u8 },
}

impl Suffix {
    fn read(text: &str) -> Option<Self> {
        let decimal = |exponent| Self::Decimal { exponent, notation: "DecimalSI" };
        Some(match text {
            "n" => decimal(-9),
            "u" => decimal(-6),
            "m" => decimal(-3),
            "" => decimal(0),
            "k" => decimal(3),
            "M" => decimal(6),
            "G" => decimal(9),
            "T" => decimal(12),
            "P" => decimal(15),
            "E" => decimal(18),
            "Ki" => Self::Binary { exponent: 10 },
            "Mi" => Self::Binary { exponent: 20 },
            "Gi" => Self::Binary { exponent: 30 },
            "Ti" => Self::Binary { exponent: 40 },
            "Pi" => Self::Binary { exponent: 50 },
            "Ei" => Self::Binary { exponent: 60 },
            _ => {
                let exponent = text.strip_prefix(['e', 'E'])?.parse().ok()?;
                Self::Decimal { exponent, notation: "DecimalExponent" }
            }
        })
    }

    fn notation(&self) -> &'static str {
        match self {
            Self::Decimal { notation, .. } => notation,
            Self::Binary { .. } => "BinarySI",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dumped(amount: &Amount) -> String {
        let mut text = "(resource.Quantity)".to_owned();
        amount.write(&mut text).unwrap();
        text
    }

    #[test]
    fn has_the_internals_that_upstream_has() {
        let table = include_str!("../../testdata/static_uid/quantities.txt");
        for line in table.lines().filter(|line| !line.starts_with('#')) {
            let (text, expected) = line.split_once('\t').unwrap();
            let amount = Amount::parse(text);
            let actual = amount.map_or("invalid".to_owned(), |amount| {
                format!("{}\t{}", dumped(&amount), dumped(&amount.clone().rounded_up_to_milli()))
            });
            assert_eq!(actual, expected, "{text}");
        }
    }

    #[test]
    fn refuses_numbers_that_would_take_forever() {
        assert_eq!(Amount::parse("1.0000000000000000001e2147483647"), None);
        assert_eq!(Amount::parse("1e-2147483648"), None);
        assert_eq!(Amount::parse("1e99999999999"), None);
        assert_eq!(Amount::parse(&"9".repeat(300)), None);
    }
}
