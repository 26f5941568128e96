use proptest::prelude::*;

use super::*;

const LOG: &str = "\
2026-01-02T03:04:05.5Z stdout F one
2026-01-02T03:04:06Z stderr P par
2026-01-02T03:04:06.000000001Z stderr F tial
2026-01-02T03:04:07.123456789+02:00 stdout F:x:y three
";

fn shown(log: &str, options: &LogOptions) -> String {
    let mut transcript = Transcript::new(options);
    let mut all = Vec::new();
    transcript.feed(log.as_bytes(), &mut all);
    String::from_utf8(all).unwrap()
}

fn check(options: &LogOptions, expected: &str) {
    assert_eq!(shown(LOG, options), expected);
}

#[test]
fn shows_text_and_joins_partial_lines() {
    check(&LogOptions::default(), "one\npartial\nthree\n");
}

#[test]
fn prefixes_each_line_once_with_full_timestamp() {
    let options = LogOptions { timestamps: true, ..Default::default() };
    check(
        &options,
        "2026-01-02T03:04:05.500000000Z one\n\
         2026-01-02T03:04:06.000000000Z partial\n\
         2026-01-02T03:04:07.123456789+02:00 three\n",
    );
}

#[test]
fn skips_lines_before_since_time() {
    let since: jiff::Timestamp = "2026-01-02T03:04:06Z".parse().unwrap();
    let since = Some(Timestamp::from_nanos(i64::try_from(since.as_nanosecond()).unwrap()));
    // The last line is of 01:04 UTC.
    check(&LogOptions { since, ..Default::default() }, "partial\n");
}

#[test]
fn byte_limit_counts_output() {
    for (limit, expected) in [(1, "o"), (4, "one\n"), (6, "one\npa"), (1000, "one\npartial\nthree\n")] {
        check(&LogOptions { limit_bytes: Some(limit), ..Default::default() }, expected);
    }
    let options = LogOptions { limit_bytes: Some(5), timestamps: true, ..Default::default() };
    check(&options, "2026-");
}

#[test]
fn line_limit_counts_partial_lines_and_ignores_followers() {
    let options = LogOptions { tail_lines: Some(2), ..Default::default() };
    check(&options, "one\npar");
    check(&LogOptions { follow: true, ..options }, "one\npartial\nthree\n");
}

#[test]
fn shows_a_single_stream() {
    check(&LogOptions { streams: LogStreams::Stdout, ..Default::default() }, "one\nthree\n");
    check(&LogOptions { streams: LogStreams::Stderr, ..Default::default() }, "partial\n");
}

#[test]
fn skips_invalid_lines() {
    let long = "x".repeat(10_000);
    let good = "2026-01-02T03:04:05Z stdout F good\n";
    for bad in [
        "",
        "nonsense",
        "2026-01-02T03:04:05Z stdin F text",
        "2026-01-02T03:04:05Z stdout F",
        "yesterday stdout F text",
        "2026-13-02T03:04:05Z stdout F text",
        &long,
    ] {
        assert_eq!(shown(&format!("{bad}\n{good}"), &LogOptions::default()), "good\n", "{bad}");
    }
}

#[test]
fn shows_empty_lines() {
    let log = "2026-01-02T03:04:05Z stdout F \n2026-01-02T03:04:05Z stdout F x\n";
    assert_eq!(shown(log, &LogOptions::default()), "\nx\n");
}

#[test]
fn memory_does_not_grow_with_line_length() {
    let mut transcript = Transcript::new(&LogOptions::default());
    let mut all = Vec::new();
    transcript.feed(b"2026-01-02T03:04:05Z stdout F ", &mut all);
    for _ in 0..1000 {
        transcript.feed(&[b'x'; 1000], &mut all);
        assert_eq!(all.len(), 1000);
        assert!(transcript.head.capacity() <= MAX_HEADER_LENGTH);
        all.clear();
    }
    transcript.feed(b"\n", &mut all);
    assert_eq!(all, b"\n");
}

#[test]
fn end_of_file_ends_a_partial_line() {
    let mut transcript = Transcript::new(&LogOptions::default());
    let mut all = Vec::new();
    transcript.feed(b"2026-01-02T03:04:05Z stdout F on", &mut all);
    transcript.end_of_file();
    transcript.feed(b"2026-01-02T03:04:05Z stdout F two\n", &mut all);
    assert_eq!(all, b"ontwo\n");
}

proptest! {
    #[test]
    fn output_does_not_depend_on_chunking(cuts in prop::collection::vec(1usize..60, 0..20), timestamps: bool) {
        let options = LogOptions { timestamps, ..Default::default() };
        let mut transcript = Transcript::new(&options);
        let (mut all, mut left) = (Vec::new(), LOG.as_bytes());
        for cut in cuts {
            let (piece, after) = left.split_at(cut.min(left.len()));
            transcript.feed(piece, &mut all);
            left = after;
        }
        transcript.feed(left, &mut all);
        prop_assert_eq!(String::from_utf8(all).unwrap(), shown(LOG, &options));
    }

    #[test]
    fn accepts_arbitrary_bytes(bytes: Vec<u8>, limit in 1u64..50) {
        let options = LogOptions { limit_bytes: Some(limit), ..Default::default() };
        let mut all = Vec::new();
        Transcript::new(&options).feed(&bytes, &mut all);
        prop_assert!(u64::try_from(all.len()).unwrap() <= limit);
    }
}
