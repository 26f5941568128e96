use proptest::prelude::*;

use super::*;

#[test]
fn matches_go_on_the_golden_table() {
    for line in include_str!("../../testdata/durations.txt").lines().filter(|line| !line.starts_with('#')) {
        let (text, expected) = line.split_once('\t').unwrap();
        let parsed = text.parse::<GoDuration>();
        let actual = parsed.map_or("invalid".to_owned(), |found| format!("{}\t{found}", found.as_nanos()));
        assert_eq!(actual, expected, "{text:?}");
    }
}

#[test]
fn parses_and_prints_like_go() {
    let table = [
        ("0", "0s"),
        ("1m30s", "1m30s"),
        ("90s", "1m30s"),
        ("1h", "1h0m0s"),
        ("6h", "6h0m0s"),
        ("100ms", "100ms"),
        ("1.5h", "1h30m0s"),
        (".5s", "500ms"),
        ("1500ms", "1.5s"),
        ("-5s", "-5s"),
        ("+5s", "5s"),
        ("1us", "1µs"),
        ("1500ns", "1.5µs"),
        ("2h0m0.000000001s", "2h0m0.000000001s"),
        ("2562047h47m16.854775807s", "2562047h47m16.854775807s"),
    ];
    for (text, printed) in table {
        assert_eq!(text.parse::<GoDuration>().unwrap().to_string(), printed, "{text}");
    }
}

#[test]
fn refuses_what_go_refuses() {
    let texts = ["", "-", "5", "1.", "s", "1x", "1d", "1 s", "1..5s", "3000000h", "1m30", "1e3s"];
    for text in texts.into_iter().chain(["9999999999999h1e9s"]) {
        assert!(text.parse::<GoDuration>().is_err(), "{text:?}");
    }
    let error = serde_json::from_str::<GoDuration>("5").unwrap_err().to_string();
    assert!(error.contains("integer `5`, expected a duration with its unit"), "{error}");
}

#[test]
fn errors_name_the_text_and_the_reason() {
    for (text, expected) in [
        ("soon", "\"soon\" is not a duration such as \"1m30s\", \"100ms\" or \"2h\""),
        ("1m30", "\"1m30\" is a duration without a unit; write \"1m30s\" for seconds"),
        ("3000000h", "\"3000000h\" is too long a duration"),
        ("99999999999999999999s", "\"99999999999999999999s\" is too long a duration"),
    ] {
        assert_eq!(text.parse::<GoDuration>().unwrap_err().to_string(), expected);
    }
}

#[test]
fn truncates_to_milliseconds() {
    for (micros, text) in [
        (0, "0s"),
        (900, "0s"),
        (203_000, "203ms"),
        (250_999, "250ms"),
        (1_000_000, "1s"),
        (1_200_000, "1.2s"),
        (1_500_000, "1.5s"),
        (60_000_000, "1m0s"),
        (62_050_000, "1m2.05s"),
        (90_000_000, "1m30s"),
        (3_600_000_000, "1h0m0s"),
        (7_325_001_000, "2h2m5.001s"),
    ] {
        assert_eq!(GoDuration::from(Duration::from_micros(micros)).truncated_to_millis().to_string(), text);
    }
}

#[test]
fn converts_to_and_from_standard_durations() {
    assert_eq!(GoDuration::from(Duration::MAX).as_nanos(), i64::MAX);
    assert_eq!(GoDuration::from_secs(-1).to_std(), Duration::ZERO);
    assert_eq!(GoDuration::from(Duration::from_millis(1500)), GoDuration::from_millis(1500));
}

proptest! {
    #[test]
    fn any_duration_survives_printing_and_parsing(nanos in any::<i64>()) {
        let duration = GoDuration::from_nanos(nanos);
        prop_assert_eq!(duration.to_string().parse::<GoDuration>(), Ok(duration));
        let json = serde_json::to_string(&duration).unwrap();
        prop_assert_eq!(serde_json::from_str::<GoDuration>(&json).unwrap(), duration);
    }

    #[test]
    fn any_parsed_text_survives_printing_and_parsing(text in "[-+]?([0-9]{0,9}[.]?[0-9]{0,22}(ns|us|µs|ms|s|m|h)){1,3}") {
        if let Ok(duration) = text.parse::<GoDuration>() {
            prop_assert_eq!(duration.to_string().parse::<GoDuration>(), Ok(duration));
        }
    }

    #[test]
    fn never_panics(text in "[-+0-9.a-zµ]{0,40}") {
        let _ = text.parse::<GoDuration>();
    }
}
