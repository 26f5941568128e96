use proptest::prelude::*;

use super::*;

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap_or_else(|_| panic!("{text:?}"))
}

/// Texts without a digit, which upstream takes as zero.
const WITHOUT_DIGITS: [&str; 5] = ["-", "+", ".", "m", "e3"];

#[test]
fn matches_upstream_on_the_golden_table() {
    for line in include_str!("../../testdata/quantities.txt").lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let (text, expected) = (columns[0], &columns[1..]);
        let Ok(quantity) = text.parse::<Quantity>() else {
            assert!(expected == ["invalid"] || WITHOUT_DIGITS.contains(&text), "{text:?}");
            continue;
        };
        assert_eq!(quantity.to_string(), expected[0], "{text}");
        // Upstream rounds a negative big decimal towards zero, and -9223372036854775807 even to 1.
        let is_reliable = !(quantity.is_negative() && matches!(quantity.number, Number::Big(_)));
        let amount = Amount::from(&quantity);
        for (actual, expected) in [(amount.units(), expected[1]), (amount.milli(), expected[2])] {
            if expected == "overflow" {
                assert_eq!(actual, if quantity.is_negative() { i64::MIN } else { i64::MAX }, "{text}");
            } else if is_reliable {
                assert_eq!(actual.to_string(), expected, "{text}");
            }
        }
    }
}

#[test]
fn prints_the_canonical_form() {
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
        // Upstream has no suffix above `E` and prints `1` and `12`.
        ("1000E", "1000E"),
        ("12000E", "12000E"),
    ] {
        assert_eq!(quantity(text).to_string(), canonical, "{text}");
    }
}

#[test]
fn prints_whole_units_with_the_largest_exact_suffix() {
    for (number, in_binary, in_decimal) in [
        (0, "0", "0"),
        (1000, "1k", "1k"),
        (1024, "1Ki", "1024"),
        (1536, "1536", "1536"),
        (100 << 20, "100Mi", "104857600"),
        (3 << 29, "1536Mi", "1610612736"),
        (-2048, "-2Ki", "-2048"),
        (1_500_000, "1500000", "1500k"),
        (i64::MIN, "-8Ei", "-9223372036854775808"),
    ] {
        assert_eq!((binary_si(number), decimal_si(number)), (in_binary.to_owned(), in_decimal.to_owned()));
    }
}

#[test]
fn refuses_what_is_not_a_quantity() {
    for text in [
        "",
        " ",
        "-",
        "abc",
        "ten",
        "1.2.3",
        "1 Gi",
        "1gi",
        "10mi",
        "10MiB",
        "Mi",
        "1e",
        "--1",
        "m",
        "0x10",
        "1Zi",
        "1K",
        "1e3k",
        " 1",
        "1e99999999999",
    ] {
        assert_eq!(text.parse::<Quantity>().err(), Some(InvalidQuantity), "{text}");
        assert_eq!(Amount::parse(text), None, "{text}");
    }
}

#[test]
fn only_the_trimming_parser_accepts_white_space() {
    assert_eq!(Quantity::parse_trimmed(" 1Gi\n").unwrap(), quantity("1Gi"));
    assert!(Quantity::parse_trimmed(" ").is_err());
}

#[test]
fn rounds_up_to_thousandths() {
    for (text, rounded) in [
        ("100u", "1m"),
        ("1500u", "2m"),
        ("1.0005", "1001m"),
        ("7", "7"),
        ("-1n", "-1m"),
        ("0.0000000001", "1m"),
        ("1.5Gi", "1536Mi"),
    ] {
        assert_eq!(quantity(text).rounded_up_to_milli().to_string(), rounded, "{text}");
    }
}

#[test]
fn sums_keep_the_first_format_unless_it_is_zero() {
    for (first, second, sum) in [
        ("1", "1000m", "2"),
        ("512Mi", "512Mi", "1Gi"),
        ("1.5Gi", "512Mi", "2Gi"),
        ("512Mi", "1", "536870913"),
        ("1e3", "1k", "2e3"),
        ("0", "1Gi", "1Gi"),
        ("1Gi", "-512Mi", "512Mi"),
        ("0.5", "-1.5", "-1"),
        ("123456789012345678901", "-123456789012345678901", "0"),
        ("9223372036854775807", "1", "9223372036854775808"),
    ] {
        assert_eq!((&quantity(first) + &quantity(second)).to_string(), sum, "{first} + {second}");
    }
}

#[test]
fn keeps_the_scale_of_the_text() {
    let short = |quantity: &Quantity| match quantity.number {
        Number::Short { value, scale } => (value, scale),
        Number::Big(_) => panic!("{quantity}"),
    };
    for (text, expected) in [
        ("1000m", (1000, -3)),
        ("1.5", (15, -1)),
        ("0.25", (25, -2)),
        ("12e2", (12, 2)),
        ("250m", (250, -3)),
        ("3", (3, 0)),
    ] {
        assert_eq!(short(&quantity(text)), expected, "{text}");
    }
    assert_eq!(short(&(&quantity("1") + &quantity("1000m"))), (2000, -3));
}

#[test]
fn compares_by_value() {
    assert_eq!(quantity("1Gi"), quantity("1073741824"));
    assert_eq!(quantity("0.0"), quantity("0Ki"));
    let ascending = [
        "-1e30",
        "-16Ei",
        "-1.5",
        "-1",
        "-1n",
        "0",
        "1n",
        "1u",
        "999m",
        "1",
        "1.0000000001",
        "1500m",
        "1Ki",
        "8Ei",
        "99999999999999999999999",
        "1e30",
        "1e999",
    ];
    for pair in ascending.windows(2) {
        assert!(quantity(pair[0]) < quantity(pair[1]), "{pair:?}");
    }
}

#[test]
fn tells_whole_numbers_from_fractions() {
    for (text, is_whole) in [("0", true), ("1000m", true), ("1500m", false), ("0.5Ki", true), ("1n", false)] {
        assert_eq!(quantity(text).is_whole(), is_whole, "{text}");
    }
}

#[test]
fn huge_numbers_are_capped_and_take_no_time() {
    let huge = quantity(&"9".repeat(60));
    assert_eq!((&huge + &huge).value(), i64::MAX);
    assert_eq!(quantity("1e999999").value(), i64::MAX);
    assert_eq!(quantity("1e-999999").to_string(), "1e-9");
    for text in [
        "1.0000000000000000001e2147483647",
        "0.00000000000000000000e-2147483648",
        "1e2147483647",
        "1e-2147483648",
        "99999999999Ei",
    ] {
        let quantity = quantity(text);
        let _ = (quantity.to_string(), &quantity + &self::quantity("1n"), quantity.rounded_up_to_milli());
    }
}

#[test]
fn written_quantities_keep_their_text() {
    for (json, text) in [("\"1024Mi\"", "1024Mi"), ("10", "10"), ("1.5", "1.5"), ("-3", "-3")] {
        let quantity: WrittenQuantity = serde_json::from_str(json).unwrap();
        assert_eq!(quantity.to_string(), text);
        assert_eq!(serde_json::to_string(&quantity).unwrap(), format!("{text:?}"));
    }
    let error = |json: &str| serde_json::from_str::<WrittenQuantity>(json).unwrap_err().to_string();
    assert_eq!(error("\"lots\""), "\"lots\" is not a quantity such as \"10Mi\", \"500m\" or \"2\"");
    assert_eq!(error("true"), "expected a quantity such as \"10Mi\"");
    assert!("-1".parse::<WrittenQuantity>().unwrap().is_negative());
    assert!(WrittenQuantity::zero().is_zero());
}

proptest! {
    #[test]
    fn canonical_form_survives_parsing(
        text in "[-+]?([0-9]{1,25}[.]?[0-9]{0,12}|[.][0-9]{1,12})([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]{1,3}|)",
    ) {
        let quantity = quantity(&text);
        let canonical = quantity.to_string();
        let again = self::quantity(&canonical);
        prop_assert_eq!(&again, &quantity, "{} as {}", text, canonical);
        prop_assert_eq!(again.to_string(), canonical);
        prop_assert_eq!(Amount::from(&again), Amount::from(&quantity));
    }

    #[test]
    fn sums_and_order_agree_with_fixed_point(first in any::<i32>(), second in any::<i32>(), step in 0_usize..6) {
        let suffixes = ["", "m", "k", "e-3", "Ki", "u"];
        let [first, second] = [format!("{first}{}", suffixes[step]), format!("{second}m")].map(|text| quantity(&text));
        let [first_amount, second_amount] = [&first, &second].map(Amount::from);
        prop_assert_eq!(Amount::from(&(&first + &second)), first_amount + second_amount);
        prop_assert_eq!(first.cmp(&second), first_amount.cmp(&second_amount));
    }
}
