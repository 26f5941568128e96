//! A quantity as upstream holds it in memory.
//!
//! Equal quantities differ inside: the scale is that of the text, some texts are kept beside the number, and large
//! numbers are big decimals. The debug printer shows all of it.

use std::fmt::{self, Write};

use values::quantity::{Decimal, Format, Number, Parts, Quantity, Suffix};

/// Longer texts and larger exponents are refused, because big decimals would take too long.
const MAX_TEXT: usize = 256;
const MAX_BIG_EXPONENT: u32 = 1000;

pub(super) struct InternalQuantity {
    quantity: Quantity,
    /// The text, where upstream keeps it; otherwise empty.
    text: String,
}

impl InternalQuantity {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let parts = Parts::parse(text).filter(|_| text.len() <= MAX_TEXT)?;
        let quantity = parts.to_quantity();
        match (quantity.number(), parts.suffix()) {
            (Number::Big(_), Suffix::DecimalSi(exponent) | Suffix::DecimalExponent(exponent))
                if exponent.unsigned_abs() > MAX_BIG_EXPONENT =>
            {
                return None;
            }
            (Number::Big(_) | Number::Short { .. }, _) => {}
        }
        let text = if parts.is_kept_as_written() { text.to_owned() } else { String::new() };
        Some(Self { quantity, text })
    }

    /// Keeps the text of a quantity that is not finer than thousandths.
    pub(super) fn rounded_up_to_milli(self) -> Self {
        let is_coarse = matches!(self.quantity.number(), Number::Short { scale: -3.., .. });
        let text = if is_coarse { self.text } else { String::new() };
        Self { quantity: self.quantity.rounded_up_to_milli(), text }
    }

    /// Writes the fields, without the type.
    pub(super) fn write(&self, out: &mut impl Write) -> fmt::Result {
        let format = match self.quantity.format() {
            Format::DecimalSi => "DecimalSI",
            Format::BinarySi => "BinarySI",
            Format::DecimalExponent => "DecimalExponent",
        };
        write_fields(out, self.quantity.number(), &self.text, format)
    }
}

/// Writes a quantity that the pod does not have.
pub(super) fn write_unset(out: &mut impl Write) -> fmt::Result {
    write_fields(out, &Number::Short { value: 0, scale: 0 }, "", "")
}

fn write_fields(out: &mut impl Write, number: &Number, text: &str, format: &str) -> fmt::Result {
    let (value, scale) = match number {
        Number::Short { value, scale } => (*value, *scale),
        Number::Big(_) => (0, 0),
    };
    write!(out, "{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} ")?;
    out.write_str("d:(resource.infDecAmount){Dec:(*inf.Dec)")?;
    match number {
        Number::Short { .. } => out.write_str("<nil>")?,
        Number::Big(decimal) => write_decimal(out, decimal)?,
    }
    write!(out, "}} s:(string){text} Format:(resource.Format){format}}}")
}

fn write_decimal(out: &mut impl Write, decimal: &Decimal) -> fmt::Result {
    write!(out, "{{unscaled:(big.Int){{neg:(bool){} abs:(big.nat)", decimal.is_negative())?;
    let words: Vec<String> = decimal.unscaled_words().iter().map(ToString::to_string).collect();
    if words.is_empty() {
        out.write_str("<nil>")?;
    } else {
        write!(out, "[{}]", words.join(" "))?;
    }
    write!(out, "}} scale:(inf.Scale){}}}", decimal.scale())
}

#[cfg(test)]
mod tests {
    use super::super::sum_text::exact_text_of_sum;
    use super::*;

    fn dumped(quantity: &InternalQuantity) -> String {
        let mut text = "(resource.Quantity)".to_owned();
        quantity.write(&mut text).unwrap();
        text
    }

    #[test]
    fn has_the_same_internals_as_upstream() {
        let table = include_str!("../../testdata/static_uid/quantities.txt");
        for line in table.lines().filter(|line| !line.starts_with('#')) {
            let (text, expected) = line.split_once('\t').unwrap();
            let actual = InternalQuantity::parse(text).map_or("invalid".to_owned(), |quantity| {
                let parsed = dumped(&quantity);
                format!("{parsed}\t{}", dumped(&quantity.rounded_up_to_milli()))
            });
            assert_eq!(actual, expected, "{text}");
        }
    }

    #[test]
    fn text_of_a_sum_has_the_same_internals_as_upstreams_sum() {
        let table = include_str!("../../testdata/static_uid/sums.txt");
        let mut exact = 0;
        for line in table.lines().filter(|line| !line.starts_with('#')) {
            let [first, second, internals, canonical] =
                line.split('\t').collect::<Vec<_>>().try_into().unwrap();
            let [left, right] = [first, second].map(|text| text.parse::<Quantity>().unwrap());
            let sum = &left + &right;
            assert_eq!(sum.to_string(), canonical, "{first} + {second}");
            if let Some(text) = exact_text_of_sum(&sum) {
                let parsed = InternalQuantity::parse(&text).unwrap();
                assert_eq!(dumped(&parsed), internals, "{first} + {second} as {text}");
                exact += 1;
            }
        }
        assert!(exact >= 200, "only {exact} sums have an exact text");
    }

    #[test]
    fn refuses_numbers_that_would_take_forever() {
        for text in ["1.0000000000000000001e2147483647", "1e-2147483648", "1e99999999999", &"9".repeat(300)] {
            assert!(InternalQuantity::parse(text).is_none(), "{text}");
        }
    }
}
