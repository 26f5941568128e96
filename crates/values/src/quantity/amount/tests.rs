use proptest::prelude::*;

use super::*;

#[test]
fn reads_every_notation_and_rounds_away_from_zero() {
    for (text, milli, units) in [
        ("0", 0, 0),
        ("1", 1000, 1),
        ("500m", 500, 1),
        ("0.5", 500, 1),
        (".5", 500, 1),
        ("1.", 1000, 1),
        ("+3", 3000, 3),
        ("-1", -1000, -1),
        ("-1500m", -1500, -2),
        ("1n", 1, 1),
        ("0.000000001", 1, 1),
        ("100u", 1, 1),
        ("1500u", 2, 1),
        ("1.5", 1500, 2),
        ("2", 2000, 2),
        ("1k", 1_000_000, 1000),
        ("1e3", 1_000_000, 1000),
        ("2e3", 2_000_000, 2000),
        ("12E3", 12_000_000, 12_000),
        ("2E-3", 2, 1),
        ("1Ki", 1_024_000, 1024),
        ("0.1Ki", 102_400, 103),
        ("10Mi", 10_485_760_000, 10 << 20),
        ("1.5Gi", 1_610_612_736_000, 1_610_612_736),
        ("128974848000m", 128_974_848_000, 128_974_848),
        ("8Ei", i64::MAX, i64::MAX),
        ("9999999999999999999999Ei", i64::MAX, i64::MAX),
        ("1e999999", i64::MAX, i64::MAX),
        ("-1e999999", i64::MIN, i64::MIN),
        ("1e-999999", 1, 1),
    ] {
        let amount = Amount::parse(text).unwrap();
        assert_eq!((amount.milli(), amount.units()), (milli, units), "{text}");
        assert_eq!(text.parse::<Quantity>().unwrap().value(), units, "{text}");
    }
}

#[test]
fn amounts_beyond_the_cap_are_equal_however_they_are_written() {
    for (text, canonical) in [
        ("-10000000000000000e32", "-1e48"),
        ("10000000000000000e32", "1e48"),
        ("-170141183460469231731687303716", "-170141183460469231731687303716"),
    ] {
        let amount = Amount::parse(text).unwrap();
        assert_eq!(text.parse::<Quantity>().unwrap().to_string(), canonical);
        assert_eq!(Amount::parse(canonical), Some(amount), "{text}");
        assert_eq!(Amount::parse(&canonical.replace('-', "")).unwrap().nanos, amount.nanos.abs(), "{text}");
    }
}

#[test]
fn numbers_have_amounts() {
    assert_eq!(Amount::parse("2"), Some(Amount::from_units(2)));
    assert_eq!(Amount::parse("2m"), Some(Amount::from_milli(2)));
    assert_eq!(Amount::from_units(1) + Amount::from_milli(500), Amount::from_milli(1500));
    assert_eq!(Amount::parse("nonsense"), None);
}

proptest! {
    #[test]
    fn notations_of_one_number_have_the_same_amount(units in any::<i32>(), thousandths in 0_i64..1000) {
        let value = i64::from(units) * 1000 + if units < 0 { -thousandths } else { thousandths };
        let sign = if value < 0 { "-" } else { "" };
        let magnitude = value.unsigned_abs();
        let texts = [
            format!("{value}m"),
            format!("{sign}{}.{:03}", magnitude / 1000, magnitude % 1000),
            format!("{value}e-3"),
            format!("{value}000u"),
        ];
        for text in texts {
            prop_assert_eq!(Amount::parse(&text).unwrap().milli(), value, "{}", text);
        }
    }

    #[test]
    fn binary_suffixes_are_shifts(number in 0_i64..1 << 20, step in 0_usize..5) {
        let suffix = ["", "Ki", "Mi", "Gi", "Ti"][step];
        prop_assert_eq!(Amount::parse(&format!("{number}{suffix}")).unwrap().units(), number << (10 * step));
    }

    #[test]
    fn never_panics(text in "[-+0-9.eEinumkKMGTP]{0,40}|[-+]?[0-9.]{0,45}[a-zA-Z]{0,2}[-+]?[0-9]{0,5}|.{0,20}") {
        if let Some(amount) = Amount::parse(&text) {
            let _ = (amount.milli(), amount.units(), amount + amount);
        }
    }

    #[test]
    fn rounding_never_goes_down(nanos in 0_i64..i64::MAX) {
        let amount = Amount::parse(&format!("{nanos}n")).unwrap();
        prop_assert!(i128::from(amount.units()) * NANOS_PER_UNIT >= i128::from(nanos));
        prop_assert!(i128::from(amount.milli()) * NANOS_PER_MILLI >= i128::from(nanos));
    }
}
