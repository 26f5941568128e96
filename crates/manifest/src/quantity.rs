//! Resource quantities: `500m`, `1.5Gi`, `2e3`, as exact fixed-point numbers.

use std::fmt::{self, Display, Write as _};

const NANOS_PER_UNIT: i128 = 1_000_000_000;
const NANOS_PER_MILLI: i128 = 1_000_000;
const DECIMAL_SUFFIXES: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY_SUFFIXES: [(&str, u32); 6] =
    [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

/// More digits than this upstream keeps in another form.
const MAX_DIGITS: i32 = 17;

/// How a quantity was written, and so how it is written back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notation {
    /// `m`, `k`, `M`, …
    Decimal,
    /// `Ki`, `Mi`, …
    Binary,
    /// `2e3`.
    Exponent,
}

/// An exact number of billionths, with the notation it was given in.
///
/// `Display` is the canonical form (`1000m` → `1`); [`Quantity::as_written`] keeps the scale of the operands, which
/// upstream's static pod UID can see.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quantity {
    nanos: i128,
    notation: Notation,
    /// Power of ten of the last written digit.
    scale: i32,
}

/// A text that is no quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("quantities are a number with an optional suffix, like 500m, 1.5, 64Mi or 2e3")]
pub(crate) struct InvalidQuantity;

impl Quantity {
    /// Reads a quantity; more than nine decimals are rounded up, as upstream does.
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidQuantity> {
        let text = text.trim();
        let (negative, unsigned) = match text.as_bytes().first().ok_or(InvalidQuantity)? {
            b'-' => (true, text.get(1..).unwrap_or_default()),
            b'+' => (false, text.get(1..).unwrap_or_default()),
            _ => (false, text),
        };
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(InvalidQuantity);
        }
        let (notation, multiplier) = interpret_suffix(suffix)?;
        let digits = format!("{whole}{fraction}");
        let written = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
        let (nanos, scale) = match multiplier {
            Multiplier::PowerOfTen(power) => {
                let scale = power.saturating_sub(written);
                (scaled(&digits, scale.saturating_add(9)), scale)
            }
            Multiplier::PowerOfTwo(power) => {
                let product = significant(&digits).saturating_mul(1_i128 << power);
                (shifted(product, 9_i32.saturating_sub(written)), 0)
            }
        };
        let below_one = nanos > 0 && nanos < NANOS_PER_UNIT;
        let notation = if notation == Notation::Binary && below_one { Notation::Decimal } else { notation };
        let nanos = if notation == Notation::Binary {
            nanos.min(i128::from(i64::MAX).saturating_mul(NANOS_PER_UNIT))
        } else {
            nanos
        };
        Ok(Self { nanos: if negative { -nanos } else { nanos }, notation, scale: scale.max(-9) })
    }

    /// The value in whole thousandths, when it was not written more finely; otherwise rounded away from zero.
    pub(crate) fn rounded_to_milli(self) -> Self {
        if self.scale >= -3 && self.nanos % NANOS_PER_MILLI == 0 {
            return self;
        }
        let rest = self.nanos % NANOS_PER_MILLI;
        let up = if rest == 0 { 0 } else { NANOS_PER_MILLI * self.nanos.signum() };
        Self { nanos: self.nanos - rest + up, scale: -3, ..self }
    }

    /// Sum; the first operand's notation wins unless it is zero.
    pub(crate) fn plus(self, other: Self) -> Self {
        if other.nanos == 0 {
            return self;
        }
        if self.nanos == 0 {
            return other;
        }
        Self {
            nanos: self.nanos.saturating_add(other.nanos),
            scale: self.scale.min(other.scale),
            notation: self.notation,
        }
    }

    /// The value in billionths, for comparing.
    pub(crate) fn nanos(self) -> i128 {
        self.nanos
    }

    /// The value as whole units, rounded away from zero and capped.
    pub(crate) fn value(self) -> i64 {
        let rest = self.nanos % NANOS_PER_UNIT;
        let up = if rest == 0 { 0 } else { self.nanos.signum() };
        let units = self.nanos / NANOS_PER_UNIT + up;
        i64::try_from(units).unwrap_or(if units < 0 { i64::MIN } else { i64::MAX })
    }

    /// Whether it is a whole number.
    pub(crate) fn is_whole(self) -> bool {
        self.nanos % NANOS_PER_UNIT == 0
    }

    /// Whether it is below zero.
    pub(crate) fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// A text for a sum. Upstream remembers the text of a quantity that it read in canonical form, which its UID of a
    /// static pod can see, but it never read a sum; so this is a text of the same number that it would not remember.
    pub(crate) fn as_computed(self) -> String {
        if self.nanos == 0 {
            return "00".to_owned();
        }
        let sign = if self.nanos < 0 { "-" } else { "" };
        if self.notation == Notation::Binary {
            let units = self.nanos / NANOS_PER_UNIT;
            let is_remembered = |mantissa: i128| mantissa % 8 != 0;
            let mut forms = BINARY_SUFFIXES.iter().rev().map(|(suffix, power)| (suffix, 1_i128 << power));
            let form = forms.find(|(_, unit)| units % unit == 0 && !is_remembered(units / unit));
            return form
                .map_or_else(|| self.to_string(), |(suffix, unit)| format!("{}{suffix}", units / unit));
        }
        let unit = u32::try_from(self.scale + 9).ok().and_then(|power| 10_i128.checked_pow(power));
        let Some(digits) = unit.map(|unit| (self.nanos / unit).unsigned_abs().to_string()) else {
            return self.as_written();
        };
        let length = i32::try_from(digits.len()).unwrap_or(i32::MAX);
        if length > MAX_DIGITS {
            return self.as_written();
        }
        if self.notation == Notation::Exponent {
            return format!("{sign}0.{digits}e{}", self.scale + length);
        }
        let fits = |power: i32| (length..=MAX_DIGITS).contains(&(power - self.scale));
        match DECIMAL_SUFFIXES.iter().find(|(_, power)| fits(*power)) {
            Some((suffix, power)) if self.scale % 3 == 0 => {
                let width = usize::try_from(power - self.scale).unwrap_or_default();
                format!("{sign}0.{digits:0>width$}{suffix}")
            }
            Some(_) | None => self.as_written(),
        }
    }

    /// The value with the scale it was written in (`2000m` stays `2000m`).
    pub(crate) fn as_written(self) -> String {
        let canonical_is_same = self.notation == Notation::Binary || self.nanos == 0;
        let suffix = DECIMAL_SUFFIXES.iter().find(|(_, power)| *power == self.scale);
        let unit = u32::try_from(self.scale + 9).ok().and_then(|power| 10_i128.checked_pow(power));
        match (canonical_is_same, suffix, unit) {
            (false, Some((suffix, _)), Some(unit)) if self.notation == Notation::Decimal => {
                format!("{}{suffix}", self.nanos / unit)
            }
            (false, _, Some(unit)) if self.notation == Notation::Exponent || self.scale > 0 => {
                format!("{}e{}", self.nanos / unit, self.scale)
            }
            (false, None, Some(_)) => {
                let digits = usize::try_from(-self.scale).unwrap_or(0);
                let fraction = format!("{:09}", (self.nanos % NANOS_PER_UNIT).unsigned_abs());
                let sign = if self.nanos < 0 { "-" } else { "" };
                let whole = (self.nanos / NANOS_PER_UNIT).unsigned_abs();
                format!("{sign}{whole}.{}", fraction.get(..digits).unwrap_or(&fraction))
            }
            _ => self.to_string(),
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.nanos.partial_cmp(&other.nanos)
    }
}

impl Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let units = self.nanos / NANOS_PER_UNIT;
        if self.notation == Notation::Binary && self.is_whole() && units.abs() >= 1024 {
            let (mut mantissa, mut suffix) = (units, "");
            for (next, _) in BINARY_SUFFIXES {
                if mantissa % 1024 != 0 {
                    break;
                }
                mantissa /= 1024;
                suffix = next;
            }
            return write!(f, "{mantissa}{suffix}");
        }
        let (mut mantissa, mut power) = (self.nanos, -9);
        while mantissa % 1000 == 0 && (power < 18 || self.notation == Notation::Exponent) {
            mantissa /= 1000;
            power += 3;
        }
        write!(f, "{mantissa}")?;
        match DECIMAL_SUFFIXES.iter().find(|(_, suffix_power)| *suffix_power == power) {
            _ if power == 0 => Ok(()),
            Some((suffix, _)) if self.notation != Notation::Exponent => f.write_str(suffix),
            _ => {
                f.write_char('e')?;
                power.fmt(f)
            }
        }
    }
}

enum Multiplier {
    PowerOfTen(i32),
    PowerOfTwo(u32),
}

fn interpret_suffix(suffix: &str) -> Result<(Notation, Multiplier), InvalidQuantity> {
    if let Some((_, power)) = DECIMAL_SUFFIXES.iter().find(|(name, _)| *name == suffix) {
        return Ok((Notation::Decimal, Multiplier::PowerOfTen(*power)));
    }
    if let Some((_, power)) = BINARY_SUFFIXES.iter().find(|(name, _)| *name == suffix) {
        return Ok((Notation::Binary, Multiplier::PowerOfTwo(*power)));
    }
    let exponent = suffix.strip_prefix(['e', 'E']).ok_or(InvalidQuantity)?;
    let power = exponent.parse::<i32>().map_err(|_| InvalidQuantity)?;
    Ok((Notation::Exponent, Multiplier::PowerOfTen(power)))
}

/// The digits as a number; anything beyond what a quantity can mean is capped.
fn significant(digits: &str) -> i128 {
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() { 0 } else { digits.parse().unwrap_or(i128::MAX) }
}

fn scaled(digits: &str, power: i32) -> i128 {
    shifted(significant(digits), power)
}

/// `number` × 10^`power`, rounded up.
fn shifted(number: i128, power: i32) -> i128 {
    let factor = 10_i128.checked_pow(power.unsigned_abs());
    match (number, factor) {
        (0, _) => 0,
        (_, Some(factor)) if power >= 0 => number.saturating_mul(factor),
        (_, Some(factor)) => number / factor + i128::from(number % factor != 0),
        (_, None) if power >= 0 => i128::MAX,
        (_, None) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_the_canonical_form() {
        for (text, canonical) in [
            ("0", "0"),
            ("1000m", "1"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1.", "1"),
            ("1.5Gi", "1536Mi"),
            ("1024Mi", "1Gi"),
            ("1023", "1023"),
            ("512Ki", "512Ki"),
            ("0.5Ki", "512"),
            ("100000", "100k"),
            ("2e3", "2e3"),
            ("12e2", "1200"),
            ("1E", "1E"),
            ("-3", "-3"),
            ("+3", "3"),
            ("1n", "1n"),
            ("0.0000000001", "1n"),
            ("0.1Ki", "102400m"),
        ] {
            assert_eq!(Quantity::parse(text).unwrap().to_string(), canonical, "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_quantity() {
        for text in ["", " ", "abc", "1.2.3", "1 Gi", "1gi", "1e", "--1", "m", "0x10", "1Zi"] {
            assert_eq!(Quantity::parse(text).err(), Some(InvalidQuantity), "{text}");
        }
    }

    #[test]
    fn rounds_up_to_thousandths() {
        for (text, rounded) in [("100u", "1m"), ("1500u", "2m"), ("1.0005", "1001m"), ("7", "7")] {
            assert_eq!(Quantity::parse(text).unwrap().rounded_to_milli().to_string(), rounded, "{text}");
        }
    }

    #[test]
    fn keeps_the_written_scale() {
        for text in ["1000m", "1.5", "0.25", "12e2", "250m", "3"] {
            assert_eq!(Quantity::parse(text).unwrap().as_written(), text);
        }
        let sum = Quantity::parse("1").unwrap().plus(Quantity::parse("1000m").unwrap());
        assert_eq!(sum.as_written(), "2000m");
    }

    #[test]
    fn sums_have_a_text_of_their_own() {
        for (first, second, sum) in [
            ("100m", "200m", "0.300"),
            ("1", "500m", "0.001500k"),
            ("1.5", "1", "2.5"),
            ("1e3", "1e3", "0.2e4"),
            ("512Mi", "512Mi", "1024Mi"),
            ("0", "0", "00"),
        ] {
            let [first, second] = [first, second].map(|text| Quantity::parse(text).unwrap());
            let text = first.plus(second).as_computed();
            assert_eq!(text, sum);
            assert_eq!(Quantity::parse(&text).unwrap(), first.plus(second));
        }
    }

    #[test]
    fn never_overflows() {
        let huge = Quantity::parse(&"9".repeat(60)).unwrap();
        assert_eq!(huge.plus(huge).value(), i64::MAX);
        assert_eq!(Quantity::parse("1e999999").unwrap().value(), i64::MAX);
        assert_eq!(Quantity::parse("1e-999999").unwrap().nanos(), 1);
        let _ = (huge.as_written(), huge.as_computed());
        let _ = Quantity::parse("99999999999Ei").unwrap().as_written();
    }
}
