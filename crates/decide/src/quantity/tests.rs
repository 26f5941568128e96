use proptest::prelude::*;

use super::*;

#[test]
fn reads_every_notation_and_rounds_up() {
    for (text, milli, units) in [
        ("0", 0, 0),
        ("1", 1000, 1),
        ("500m", 500, 1),
        ("0.5", 500, 1),
        (".5", 500, 1),
        ("1.", 1000, 1),
        ("+3", 3000, 3),
        ("-1500m", -1500, -2),
        ("1n", 1, 1),
        ("100u", 1, 1),
        ("1500u", 2, 1),
        ("1k", 1_000_000, 1000),
        ("2e3", 2_000_000, 2000),
        ("2E-3", 2, 1),
        ("1Ki", 1_024_000, 1024),
        ("0.1Ki", 102_400, 103),
        ("1.5Gi", 1_610_612_736_000, 1_610_612_736),
        ("128974848000m", 128_974_848_000, 128_974_848),
        ("8Ei", i64::MAX, i64::MAX),
        ("1e999999", i64::MAX, i64::MAX),
        ("1e-999999", 1, 1),
    ] {
        let quantity = Quantity(text.into());
        assert_eq!((super::milli(&quantity), bytes(&quantity)), (milli, units), "{text}");
    }
}

#[test]
fn refuses_what_is_no_quantity() {
    for text in ["", " ", "abc", "1.2.3", "1 Gi", "1gi", "1e", "--1", "m", "0x10", "1Zi", "1K"] {
        assert_eq!(Amount::parse(text), None, "{text}");
    }
    assert_eq!(bytes(&Quantity("nonsense".into())), 0);
}

#[test]
fn lists_answer_nothing_for_absent_names() {
    let list: ResourceList = [("cpu".to_owned(), Quantity("2".into()))].into();
    assert_eq!(Amount::in_list(Some(&list), "cpu"), Amount::whole(2));
    assert_eq!(Amount::in_list(Some(&list), "memory"), Amount::ZERO);
    assert_eq!(Amount::in_list(None, "cpu"), Amount::ZERO);
}

proptest! {
    #[test]
    fn numbers_survive_being_written_and_read(units in any::<i32>(), thousandths in 0_i64..1000) {
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
    fn binary_units_are_shifts(number in 0_i64..1 << 20, step in 0_usize..5) {
        let suffix = ["", "Ki", "Mi", "Gi", "Ti"][step];
        prop_assert_eq!(bytes(&Quantity(format!("{number}{suffix}"))), number << (10 * step));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[-+0-9.eEinumkKMGTP]{0,40}|.{0,20}") {
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
