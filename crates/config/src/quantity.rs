//! Resource quantities (`10Mi`, `500m`, `1e3`), as far as the configuration needs them.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, de};

/// A resource quantity, kept as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Quantity(String);

/// A text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a quantity such as \"10Mi\", \"500m\" or \"2\"")]
pub struct QuantityError(String);

impl Quantity {
    /// Nothing.
    pub fn zero() -> Self {
        Self("0".to_owned())
    }

    /// The value in units of 10⁻⁹, saturating far beyond anything a node has.
    pub fn nanos(&self) -> i128 {
        nanos(&self.0).unwrap_or(0)
    }

    /// Whether the value is zero.
    pub fn is_zero(&self) -> bool {
        self.nanos() == 0
    }

    /// Whether the value is below zero.
    pub fn is_negative(&self) -> bool {
        self.nanos() < 0
    }

    /// The value in whole units, rounded up; `None` when it does not fit 64 bits.
    pub fn value(&self) -> Option<i64> {
        let nanos = self.nanos();
        let whole = nanos.div_euclid(NANO) + i128::from(nanos.rem_euclid(NANO) != 0);
        i64::try_from(whole).ok()
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        match nanos(text) {
            Some(_) => Ok(Self(text.to_owned())),
            None => Err(QuantityError(text.to_owned())),
        }
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a quantity such as \"10Mi\"")]
        enum Written {
            Text(String),
            Number(serde_json::Number),
        }
        let text = match Written::deserialize(deserializer)? {
            Written::Text(text) => text,
            Written::Number(number) => number.to_string(),
        };
        text.parse().map_err(de::Error::custom)
    }
}

const NANO: i128 = 1_000_000_000;
/// Beyond this a quantity has no meaning; upstream caps at 2⁶³ as well.
const CAP: i128 = (1 << 63) * NANO;

fn nanos(text: &str) -> Option<i128> {
    let (sign, unsigned) = match text.as_bytes().first()? {
        b'-' => (-1, text.get(1..)?),
        b'+' => (1, text.get(1..)?),
        _ => (1, text),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let digits: String = [whole, fraction].concat();
    let digits = digits.trim_start_matches('0');
    let mantissa = match digits {
        "" => 0,
        digits if digits.len() > 36 => return Some(sign * CAP),
        digits => digits.parse::<i128>().ok()?,
    };
    let decimals = i32::try_from(fraction.len()).ok()?;
    let (base, exponent) = scale(suffix)?;
    let value = match base {
        Base::Two => {
            power_of_ten(mantissa.checked_mul(1_i128.checked_shl(exponent.unsigned_abs())?), 9 - decimals)
        }
        Base::Ten => power_of_ten(Some(mantissa), exponent.saturating_add(9).saturating_sub(decimals)),
    };
    Some(sign * value.min(CAP))
}

enum Base {
    Two,
    Ten,
}

fn scale(suffix: &str) -> Option<(Base, i32)> {
    let found = match suffix {
        "n" => (Base::Ten, -9),
        "u" => (Base::Ten, -6),
        "m" => (Base::Ten, -3),
        "" => (Base::Ten, 0),
        "k" => (Base::Ten, 3),
        "M" => (Base::Ten, 6),
        "G" => (Base::Ten, 9),
        "T" => (Base::Ten, 12),
        "P" => (Base::Ten, 15),
        "E" => (Base::Ten, 18),
        "Ki" => (Base::Two, 10),
        "Mi" => (Base::Two, 20),
        "Gi" => (Base::Two, 30),
        "Ti" => (Base::Two, 40),
        "Pi" => (Base::Two, 50),
        "Ei" => (Base::Two, 60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            (Base::Ten, exponent.parse::<i16>().ok()?.into())
        }
    };
    Some(found)
}

/// `value × 10^exponent`, rounded up, or the cap when it overflows.
fn power_of_ten(value: Option<i128>, exponent: i32) -> i128 {
    let Some(mut value) = value else { return CAP };
    let mut rounded = false;
    for _ in 0..exponent.unsigned_abs() {
        if value == 0 {
            break;
        }
        if exponent > 0 {
            match value.checked_mul(10) {
                Some(next) => value = next,
                None => return CAP,
            }
        } else {
            rounded |= value % 10 != 0;
            value /= 10;
        }
    }
    value + i128::from(rounded)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantities_have_values() {
        let table = [
            ("0", 0),
            ("2", 2),
            ("1.5", 2),
            ("500m", 1),
            ("-1", -1),
            ("10Mi", 10 << 20),
            ("1.5Gi", 3 << 29),
            ("1k", 1000),
            ("1e3", 1000),
            ("12E3", 12_000),
            ("0.000000001", 1),
            ("1n", 1),
        ];
        for (text, value) in table {
            assert_eq!(text.parse::<Quantity>().unwrap().value(), Some(value), "{text}");
        }
        assert_eq!("9999999999999999999999Ei".parse::<Quantity>().unwrap().value(), None);
    }

    #[test]
    fn refuses_other_texts() {
        for text in ["", "-", "Mi", "1.2.3", "10MiB", "1 Gi", "10mi", "1e", "ten"] {
            assert!(text.parse::<Quantity>().is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "[-+]?[0-9.]{0,45}[a-zA-Z]{0,2}[-+]?[0-9]{0,5}") {
            let _ = text.parse::<Quantity>().map(|quantity| quantity.value());
        }
    }
}
