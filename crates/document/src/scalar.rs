//! Resolves plain YAML scalars by the rules of `sigs.k8s.io/yaml`, which are closer to YAML 1.1 than to 1.2.

use serde_json::{Number, Value};

/// A scalar that has no JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScalarError {
    /// Infinity or NaN, which JSON cannot represent.
    NotFinite,
}

/// Resolves an unquoted, untagged scalar.
pub(crate) fn resolve(text: &str) -> Result<Value, ScalarError> {
    let value = match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Value::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Value::Bool(false)
        }
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf"
        | "-.Inf" | "-.INF" => return Err(ScalarError::NotFinite),
        _ => number(text).unwrap_or_else(|| Value::from(text)),
    };
    Ok(value)
}

/// The text of a scalar key, with numbers and booleans printed as Go prints them. Null, lists and mappings cannot be keys.
pub(crate) fn key_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) if number.is_f64() => number.as_f64().map(float_key),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Prints a float key as upstream does: the shortest 32-bit form, with an exponent from 1e+06 upwards and below 1e-04.
#[expect(clippy::cast_possible_truncation, reason = "upstream narrows to 32 bits as well")]
fn float_key(value: f64) -> String {
    let short = value as f32;
    if !short.is_finite() {
        return if short > 0.0 { ".inf".to_owned() } else { "-.inf".to_owned() };
    }
    let scientific = format!("{short:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return short.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

fn number(text: &str) -> Option<Value> {
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return None;
    }
    let plain = text.replace('_', "");
    integer(&plain).or_else(|| float(&plain).and_then(go_float))
}

/// Parses a signed integer with Go's base prefixes: `0x`, `0o`, `0b`, and a leading `0` for octal.
fn integer(plain: &str) -> Option<Value> {
    let (negative, digits) = match plain.as_bytes().first()? {
        b'-' => (true, plain.get(1..)?),
        b'+' => (false, plain.get(1..)?),
        _ => (false, plain),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, digits.get(2..)?),
        [b'0', b'o' | b'O', ..] => (8, digits.get(2..)?),
        [b'0', b'b' | b'B', ..] => (2, digits.get(2..)?),
        [b'0', _, ..] => (8, digits.get(1..)?),
        _ => (10, digits),
    };
    // `from_str_radix` would accept a second sign.
    if !digits.starts_with(|c: char| c.is_ascii_hexdigit()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if negative {
        return 0_i64.checked_sub_unsigned(magnitude).map(Value::from);
    }
    // Upstream accepts a plus sign only in front of a number that fits into 63 bits.
    if plain.starts_with('+') && i64::try_from(magnitude).is_err() {
        return None;
    }
    Some(Value::from(magnitude))
}

fn float(plain: &str) -> Option<f64> {
    let has_digit_first = {
        let unsigned = plain.strip_prefix(['+', '-']).unwrap_or(plain);
        let fraction = unsigned.strip_prefix('.').unwrap_or(unsigned);
        fraction.starts_with(|c: char| c.is_ascii_digit())
    };
    let only_float_characters =
        plain.chars().all(|c| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E'));
    if !has_digit_first || !only_float_characters {
        return None;
    }
    plain.parse::<f64>().ok().filter(|value| value.is_finite())
}

/// Turns a float without a fraction into an integer, as Go does, so that an integer field accepts `80.0`.
#[expect(clippy::cast_possible_truncation, reason = "guarded by the range check")]
fn go_float(value: f64) -> Option<Value> {
    const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= MAX_EXACT_INTEGER {
        return Some(Value::from(value as i64));
    }
    Number::from_f64(value).map(Value::Number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn resolves_plain_scalars_like_upstream() {
        let table = [
            ("", json!(null)),
            ("~", json!(null)),
            ("Null", json!(null)),
            ("nUll", json!("nUll")),
            ("yes", json!(true)),
            ("On", json!(true)),
            ("y", json!(true)),
            ("OFF", json!(false)),
            ("tRue", json!("tRue")),
            ("0", json!(0)),
            ("-0", json!(0)),
            ("+12", json!(12)),
            ("1_000", json!(1000)),
            ("0644", json!(420)),
            ("-0644", json!(-420)),
            ("0o17", json!(15)),
            ("0x1F", json!(31)),
            ("0b101", json!(5)),
            ("-0b101", json!(-5)),
            ("08", json!(8)),
            ("0x", json!("0x")),
            ("0x-1", json!("0x-1")),
            ("--1", json!("--1")),
            ("18446744073709551615", json!(18_446_744_073_709_551_615_u64)),
            ("-9223372036854775808", json!(-9_223_372_036_854_775_808_i64)),
            ("1.5", json!(1.5)),
            (".5", json!(0.5)),
            ("80.0", json!(80)),
            ("1e3", json!(1000)),
            ("1e400", json!("1e400")),
            ("1.2.3", json!("1.2.3")),
            ("100m", json!("100m")),
            ("1:30", json!("1:30")),
            ("2024-01-02", json!("2024-01-02")),
            ("2024-01-02T03:04:05Z", json!("2024-01-02T03:04:05Z")),
            ("-", json!("-")),
            (".", json!(".")),
            ("e5", json!("e5")),
            ("inf", json!("inf")),
            ("nan", json!("nan")),
        ];
        for (text, expected) in table {
            assert_eq!(resolve(text), Ok(expected), "{text:?}");
        }
        for text in [".inf", "-.INF", "+.Inf", ".nan"] {
            assert_eq!(resolve(text), Err(ScalarError::NotFinite), "{text:?}");
        }
    }

    #[test]
    fn prints_keys_like_go() {
        let table = [
            (json!(true), "true"),
            (json!(8080), "8080"),
            (json!(1.5), "1.5"),
            (json!(1.0e-7), "1e-07"),
            (json!("a"), "a"),
        ];
        for (key, expected) in table {
            assert_eq!(key_text(&key).as_deref(), Some(expected));
        }
        assert_eq!(key_text(&json!(null)), None);
    }
}
