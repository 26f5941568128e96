use std::time::Duration;

use model::Timestamp;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogStreams {
    /// Both, in the order of writing.
    #[default]
    All,
    Stdout,
    Stderr,
}

/// The query parameters of `v1.PodLogOptions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Continue until the container exits.
    pub follow: bool,
    /// Show the previous container.
    pub previous: bool,
    /// Prefix each line with its time.
    pub timestamps: bool,
    /// Only lines since this time.
    pub since: Option<Timestamp>,
    /// Only this many last lines.
    pub tail_lines: Option<u64>,
    pub limit_bytes: Option<u64>,
    pub streams: LogStreams,
}

/// A rejected query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogQueryError {
    /// A value cannot be parsed (400).
    Unreadable(&'static str),
    /// A value or combination is not allowed (422).
    Invalid(&'static str),
    /// A stream was selected without the feature gate (400); carries the value.
    SplitStreamsOff(String),
}

impl LogOptions {
    /// Parses a decoded query. `split_streams` is the gate `PodLogsQuerySplitStreams`.
    ///
    /// # Errors
    /// When the query is rejected.
    pub fn read(
        query: &[(String, String)],
        split_streams: bool,
        now: Timestamp,
    ) -> Result<Self, LogQueryError> {
        let get = |name: &str| query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        // `tail` is the old name of `tailLines` and takes precedence.
        let tail_lines = match get("tail").filter(|tail| !tail.is_empty()) {
            Some("all") => None,
            Some(tail) => Some(integer("tail", tail)?),
            None => get("tailLines").map(|text| integer("tailLines", text)).transpose()?,
        };
        let limit_bytes = get("limitBytes").map(|text| integer("limitBytes", text)).transpose()?;
        let since_seconds = get("sinceSeconds").map(|text| integer("sinceSeconds", text)).transpose()?;
        let since_time = get("sinceTime").map(time).transpose()?;
        let streams = match get("stream").filter(|stream| !stream.is_empty()) {
            None | Some("All") => LogStreams::All,
            Some("Stdout") => LogStreams::Stdout,
            Some("Stderr") => LogStreams::Stderr,
            Some(_) => return Err(LogQueryError::Invalid("stream: must be All, Stdout or Stderr")),
        };
        if streams != LogStreams::All && tail_lines.is_some() {
            return Err(LogQueryError::Invalid("tailLines: cannot be used with one stream only"));
        }
        if since_seconds.is_some() && since_time.is_some() {
            return Err(LogQueryError::Invalid("only one of sinceTime and sinceSeconds may be given"));
        }
        let at_least = |value: Option<i64>, least: i64, problem| match value {
            Some(value) if value < least => Err(LogQueryError::Invalid(problem)),
            value => Ok(value.and_then(|value| u64::try_from(value).ok())),
        };
        let since_seconds = at_least(since_seconds, 1, "sinceSeconds: must be greater than 0")?;
        let since = since_seconds.map(|seconds| seconds_before(now, seconds)).or(since_time.flatten());
        let options = Self {
            follow: get("follow").is_some_and(truth),
            previous: get("previous").is_some_and(truth),
            timestamps: get("timestamps").is_some_and(truth),
            since,
            tail_lines: at_least(tail_lines, 0, "tailLines: must not be negative")?,
            limit_bytes: at_least(limit_bytes, 1, "limitBytes: must be greater than 0")?,
            streams,
        };
        match get("stream") {
            Some(asked) if !split_streams && streams != LogStreams::All => {
                Err(LogQueryError::SplitStreamsOff(asked.to_owned()))
            }
            _ => Ok(options),
        }
    }
}

/// Like the API server: only `0` and `false` are false.
fn truth(text: &str) -> bool {
    text != "0" && !text.eq_ignore_ascii_case("false")
}

fn integer(name: &'static str, text: &str) -> Result<i64, LogQueryError> {
    text.parse().map_err(|_| LogQueryError::Unreadable(name))
}

/// `None` for the values that old clients send for no time.
fn time(text: &str) -> Result<Option<Timestamp>, LogQueryError> {
    if text.is_empty() || text == "null" {
        return Ok(None);
    }
    let unreadable = LogQueryError::Unreadable("sinceTime");
    let time: jiff::Timestamp = text.parse().map_err(|_| unreadable.clone())?;
    // Times outside the range of our clock are before or after every line.
    let limit = if time < jiff::Timestamp::UNIX_EPOCH { i64::MIN } else { i64::MAX };
    Ok(Some(Timestamp::from_nanos(i64::try_from(time.as_nanosecond()).unwrap_or(limit))))
}

fn seconds_before(now: Timestamp, seconds: u64) -> Timestamp {
    let nanos = i64::try_from(Duration::from_secs(seconds).as_nanos()).unwrap_or(i64::MAX);
    Timestamp::from_nanos(now.as_nanos().saturating_sub(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_000_000);

    fn read(query: &[(&str, &str)]) -> Result<LogOptions, LogQueryError> {
        let query: Vec<_> =
            query.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        LogOptions::read(&query, true, NOW)
    }

    #[test]
    fn empty_query_shows_the_whole_log() {
        assert_eq!(read(&[]), Ok(LogOptions::default()));
    }

    #[test]
    fn parses_every_log_option() {
        let found = read(&[
            ("follow", "true"),
            ("previous", "1"),
            ("timestamps", ""),
            ("sinceSeconds", "10"),
            ("tailLines", "5"),
            ("limitBytes", "100"),
        ]);
        let expected = LogOptions {
            follow: true,
            previous: true,
            timestamps: true,
            since: Some(Timestamp::from_secs(999_990)),
            tail_lines: Some(5),
            limit_bytes: Some(100),
            streams: LogStreams::All,
        };
        assert_eq!(found, Ok(expected));
        assert_eq!(read(&[("follow", "False"), ("previous", "0")]), Ok(LogOptions::default()));
        let since = read(&[("sinceTime", "1970-01-01T00:00:02Z")]).unwrap().since;
        assert_eq!(since, Some(Timestamp::from_secs(2)));
        assert_eq!(read(&[("sinceTime", "null")]), Ok(LogOptions::default()));
    }

    #[test]
    fn old_tail_parameter_takes_precedence() {
        assert_eq!(read(&[("tailLines", "5"), ("tail", "3")]).unwrap().tail_lines, Some(3));
        assert_eq!(read(&[("tailLines", "5"), ("tail", "all")]).unwrap().tail_lines, None);
    }

    #[test]
    fn distinguishes_parse_errors_from_invalid_values() {
        for (query, unreadable) in [
            (("tailLines", "x"), true),
            (("limitBytes", ""), true),
            (("sinceTime", "yesterday"), true),
            (("sinceSeconds", "1.5"), true),
            (("tailLines", "-1"), false),
            (("limitBytes", "0"), false),
            (("sinceSeconds", "0"), false),
            (("stream", "stdout"), false),
        ] {
            let error = read(&[query]).unwrap_err();
            assert_eq!(matches!(error, LogQueryError::Unreadable(_)), unreadable, "{query:?}: {error:?}");
        }
        let both = [("sinceSeconds", "5"), ("sinceTime", "1970-01-01T00:00:02Z")];
        assert!(matches!(read(&both), Err(LogQueryError::Invalid(_))));
        let split = [("stream", "Stdout"), ("tailLines", "1")];
        assert!(matches!(read(&split), Err(LogQueryError::Invalid(_))));
    }

    #[test]
    fn single_stream_requires_its_gate() {
        let query = [("stream".to_owned(), "Stderr".to_owned())];
        assert_eq!(
            LogOptions::read(&query, false, NOW),
            Err(LogQueryError::SplitStreamsOff("Stderr".to_owned()))
        );
        assert_eq!(LogOptions::read(&query, true, NOW).unwrap().streams, LogStreams::Stderr);
    }
}
