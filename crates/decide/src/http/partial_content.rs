//! Range and conditional requests for files, as Go's HTTP server answers them.

use jiff::fmt::rfc2822::{DateTimeParser, DateTimePrinter};
use model::Timestamp;

/// The request headers that select a part of a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct RangeHeaders<'a> {
    /// `Range`.
    pub range: Option<&'a str>,
    /// `If-Range`.
    pub if_range: Option<&'a str>,
    /// `If-Modified-Since`.
    pub if_modified_since: Option<&'a str>,
}

/// The response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Whole,
    /// A range of bytes.
    Bytes {
        first: u64,
        /// At least one.
        count: u64,
    },
    /// The client's copy is current.
    Unchanged,
    /// The range does not exist; the message is Go's.
    Nowhere(&'static str),
}

/// Decides the response by Go's rules. Several ranges get the whole file.
pub fn part(headers: &RangeHeaders<'_>, size: u64, changed_at: Timestamp) -> Part {
    let changed = in_seconds(changed_at);
    if headers.if_modified_since.and_then(seconds).is_some_and(|known| changed <= known) {
        return Part::Unchanged;
    }
    if headers.if_range.is_some_and(|known| seconds(known) != Some(changed)) {
        return Part::Whole;
    }
    headers.range.map_or(Part::Whole, |range| bytes(range, size))
}

/// Formats an HTTP date; `None` outside its range.
pub fn http_date(time: Timestamp) -> Option<String> {
    let time = jiff::Timestamp::from_second(in_seconds(time)).ok()?;
    DateTimePrinter::new().timestamp_to_rfc9110_string(&time).ok()
}

fn in_seconds(time: Timestamp) -> i64 {
    time.as_nanos().div_euclid(1_000_000_000)
}

fn seconds(date: &str) -> Option<i64> {
    DateTimeParser::new().parse_timestamp(date).ok().map(jiff::Timestamp::as_second)
}

fn bytes(range: &str, size: u64) -> Part {
    const INVALID: Part = Part::Nowhere("invalid range");
    const BEYOND: Part = Part::Nowhere("invalid range: failed to overlap");
    let Some(range) = range.strip_prefix("bytes=") else { return INVALID };
    if range.contains(',') || range.trim().is_empty() {
        return Part::Whole;
    }
    let Some((first, end)) = first_and_end(range, size) else { return INVALID };
    match end.checked_sub(first).filter(|count| *count > 0) {
        Some(count) => Part::Bytes { first, count },
        None => BEYOND,
    }
}

/// The first byte of a range and the one behind its last; `None` if the range is malformed.
fn first_and_end(range: &str, size: u64) -> Option<(u64, u64)> {
    let number = |text: &str| text.parse().ok().filter(|_| text.bytes().all(|digit| digit.is_ascii_digit()));
    let (from, to) = range.split_once('-')?;
    match (from.trim(), to.trim()) {
        ("", count) => Some((size.saturating_sub(number(count)?), size)),
        (first, "") => Some((number(first)?, size)),
        (first, last) => {
            let (first, last): (u64, u64) = (number(first)?, number(last)?);
            (first <= last).then_some((first, size.min(last.saturating_add(1))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGED: Timestamp = Timestamp::from_nanos(784_111_777_500_000_000);
    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

    #[test]
    fn parses_ranges_like_go() {
        let some = |first, count| Part::Bytes { first, count };
        for (range, expected) in [
            ("bytes=0-3", some(0, 4)),
            ("bytes=4-", some(4, 6)),
            ("bytes=-3", some(7, 3)),
            ("bytes=-30", some(0, 10)),
            ("bytes=8-30", some(8, 2)),
            ("bytes= 1 - 1 ", some(1, 1)),
            ("bytes=", Part::Whole),
            ("bytes=0-1,4-5", Part::Whole),
            ("bytes=10-", Part::Nowhere("invalid range: failed to overlap")),
            ("bytes=-0", Part::Nowhere("invalid range: failed to overlap")),
            ("bytes=3-1", Part::Nowhere("invalid range")),
            ("bytes=-", Part::Nowhere("invalid range")),
            ("bytes=+1-2", Part::Nowhere("invalid range")),
            ("lines=1-2", Part::Nowhere("invalid range")),
        ] {
            let headers = RangeHeaders { range: Some(range), ..RangeHeaders::default() };
            assert_eq!(part(&headers, 10, CHANGED), expected, "{range}");
        }
    }

    #[test]
    fn current_copy_is_not_sent_again() {
        let since = |date| {
            part(&RangeHeaders { if_modified_since: Some(date), ..RangeHeaders::default() }, 10, CHANGED)
        };
        assert_eq!(since(DATE), Part::Unchanged);
        assert_eq!(since("Sun, 06 Nov 1994 08:49:36 GMT"), Part::Whole);
        assert_eq!(since("yesterday"), Part::Whole);
        let range = |date| {
            let headers =
                RangeHeaders { range: Some("bytes=0-0"), if_range: Some(date), ..RangeHeaders::default() };
            part(&headers, 10, CHANGED)
        };
        assert_eq!(range(DATE), Part::Bytes { first: 0, count: 1 });
        assert_eq!(range("Sun, 06 Nov 1994 08:49:36 GMT"), Part::Whole);
    }

    #[test]
    fn formats_http_dates() {
        assert_eq!(http_date(CHANGED).as_deref(), Some(DATE));
    }
}
