//! Whole amounts as the API writes them: with the largest unit that loses nothing.

const DECIMAL: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// In powers of 1000.
#[must_use]
pub fn decimal(number: i64) -> String {
    scaled(number, 1000, &DECIMAL)
}

/// In powers of 1024; upstream's rule: less than 1024 is written in decimals.
#[must_use]
pub fn binary(number: i64) -> String {
    if number.unsigned_abs() < 1024 { decimal(number) } else { scaled(number, 1024, &BINARY) }
}

fn scaled(mut number: i64, step: i64, units: &[&'static str]) -> String {
    let mut unit = "";
    for larger in units.iter().skip(1) {
        if number == 0 || number % step != 0 {
            break;
        }
        (number, unit) = (number / step, larger);
    }
    format!("{number}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_the_largest_unit_that_leaves_them_whole() {
        for (number, in_binary, in_decimal) in [
            (0, "0", "0"),
            (1000, "1k", "1k"),
            (1024, "1Ki", "1024"),
            (1536, "1536", "1536"),
            (100 << 20, "100Mi", "104857600"),
            (3 << 29, "1536Mi", "1610612736"),
            (-2048, "-2Ki", "-2048"),
            (1_500_000, "1500000", "1500k"),
        ] {
            assert_eq!((binary(number), decimal(number)), (in_binary.to_owned(), in_decimal.to_owned()));
        }
    }
}
