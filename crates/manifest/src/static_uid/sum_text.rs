//! Text for the sum of quantities.
//!
//! Defaulting adds up the resources of containers. The pod is JSON at that point, so the sum has to be written as text,
//! and the UID is computed from that text. Upstream never parses a sum, so it keeps no text beside it; the text has to
//! be one that upstream would not keep, with the sum's scale and format.

use values::quantity::{Amount, Format, Number, Parts, Quantity, Suffix};

const NANOS_PER_UNIT: i128 = 1_000_000_000;

/// A text of the sum; its canonical form if no text has exactly its internals.
pub(crate) fn text_of_sum(sum: &Quantity) -> String {
    exact_text_of_sum(sum).unwrap_or_else(|| sum.to_string())
}

/// A text that parses to the same internals as upstream's sum.
pub(super) fn exact_text_of_sum(sum: &Quantity) -> Option<String> {
    let candidates = match (sum.number(), sum.format()) {
        (Number::Short { value, .. }, Format::BinarySi) => short_binary(*value),
        (Number::Short { value, scale }, Format::DecimalSi) => short_decimal(*value, *scale),
        (Number::Short { value, scale }, Format::DecimalExponent) => vec![short_exponent(*value, *scale)],
        (Number::Big(_), format) => Vec::from_iter(big(sum, format)),
    };
    candidates.into_iter().find(|text| has_same_internals(text, sum))
}

fn has_same_internals(text: &str, sum: &Quantity) -> bool {
    let Some(parts) = Parts::parse(text).filter(|parts| !parts.is_kept_as_written()) else { return false };
    let parsed = parts.to_quantity();
    let is_same_form = match (parsed.number(), sum.number()) {
        (Number::Short { scale, .. }, Number::Short { scale: expected, .. }) => scale == expected,
        (Number::Big(decimal), Number::Big(expected)) => decimal.scale() == expected.scale(),
        (Number::Short { .. }, Number::Big(_)) | (Number::Big(_), Number::Short { .. }) => false,
    };
    is_same_form && parsed == *sum && parsed.format() == sum.format()
}

/// Upstream does not keep the text of a binary quantity whose digits are a multiple of eight.
fn short_binary(value: i64) -> Vec<String> {
    let suffixes = Suffix::BINARY.iter().rev();
    suffixes.map(|(power, suffix)| format!("{}{suffix}", value / (1_i64 << power))).collect()
}

/// Upstream does not keep the text of a decimal quantity that begins with a zero.
fn short_decimal(value: i64, scale: i32) -> Vec<String> {
    let digits = if value == 0 { "00".to_owned() } else { value.unsigned_abs().to_string() };
    let text = |(power, suffix): &(i32, &str)| {
        let fraction = usize::try_from(power.checked_sub(scale)?).ok()?;
        let padded = format!("{digits:0>width$}", width = fraction + 1);
        let (whole, fraction) = padded.split_at(padded.len() - fraction);
        let point = if fraction.is_empty() { "" } else { "." };
        Some(format!("{}{whole}{point}{fraction}{suffix}", sign(value)))
    };
    Suffix::DECIMAL.iter().filter_map(text).collect()
}

fn short_exponent(value: i64, scale: i32) -> String {
    let digits = value.unsigned_abs().to_string();
    let length = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    format!("{}0.{digits}e{}", sign(value), scale.saturating_add(length))
}

/// Ten digits after the point force the big form.
fn big(sum: &Quantity, format: Format) -> Option<String> {
    let nanos = Amount::from(sum).exact_nanos()?;
    let sign = if nanos < 0 { "-" } else { "" };
    let (units, rest) = (nanos.abs() / NANOS_PER_UNIT, nanos.abs() % NANOS_PER_UNIT);
    Some(match format {
        Format::DecimalSi => format!("{sign}{units}.{rest:09}0"),
        Format::DecimalExponent => format!("{sign}{units}.{rest:09}0e0"),
        // Ten decimal digits hold every multiple of 1/1024.
        Format::BinarySi => format!("{sign}{}.{:010}Ki", units / 1024, units % 1024 * 9_765_625),
    })
}

fn sign(value: i64) -> &'static str {
    if value < 0 { "-" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_have_texts_that_upstream_would_not_keep() {
        for (first, second, sum) in [
            ("100m", "200m", "0.300"),
            ("1", "500m", "0.001500k"),
            ("1.5", "1", "2.5"),
            ("1e3", "1e3", "0.2e4"),
            ("512Mi", "512Mi", "1024Mi"),
            ("0", "0", "00"),
            ("1.5Gi", "1Gi", "2621440.0000000000Ki"),
        ] {
            let [first, second] = [first, second].map(|text| text.parse::<Quantity>().unwrap());
            let text = text_of_sum(&(&first + &second));
            assert_eq!(text, sum);
            assert_eq!(text.parse::<Quantity>().unwrap(), &first + &second);
        }
    }

    #[test]
    fn every_sum_has_a_text_of_the_same_value() {
        let huge = "9".repeat(60);
        for text in [huge.as_str(), "999999999999999999", "99999999999Ei", "1025Ki", "0.0Ki", "1e400"] {
            let quantity: Quantity = text.parse().unwrap();
            let sum = &quantity + &quantity;
            assert_eq!(text_of_sum(&sum).parse::<Quantity>().unwrap(), sum, "{text}");
        }
    }
}
