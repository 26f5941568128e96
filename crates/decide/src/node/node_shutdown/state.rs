//! The recorded state of the last node shutdown.

use model::Timestamp;
use serde_json::{Value, json};

/// Go's zero time, written for a time that was never reached.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// How the agent detected the shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownOnset {
    /// By a signal at its start.
    Signalled,
    /// The agent started or reconnected to logind while the shutdown was in progress.
    FoundInProgress,
}

/// When the last shutdown started and ended, in upstream's on-disk format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShutdownState {
    /// When the termination of pods started.
    pub started: Option<Timestamp>,
    /// When the last pod had terminated, or its period had elapsed.
    pub ended: Option<Timestamp>,
}

impl ShutdownState {
    /// Parses the file; `None` if it is invalid.
    pub fn read(content: &[u8]) -> Option<Self> {
        let document: Value = serde_json::from_slice(content).ok()?;
        Some(Self { started: time(&document, "startTime")?, ended: time(&document, "endTime")? })
    }

    /// The file content.
    pub fn write(self) -> Vec<u8> {
        let text = |time: Option<Timestamp>| time.map_or_else(|| NEVER.to_owned(), Timestamp::to_rfc3339);
        json!({"startTime": text(self.started), "endTime": text(self.ended)}).to_string().into_bytes()
    }

    /// The state of a shutdown that starts now. A shutdown that a previous agent process started but did not complete is
    /// continued.
    #[must_use]
    pub fn start(self, onset: ShutdownOnset, now: Timestamp) -> Self {
        let resumed =
            self.started.filter(|_| onset == ShutdownOnset::FoundInProgress && self.ended.is_none());
        Self { started: Some(resumed.unwrap_or(now)), ended: None }
    }
}

/// `Some(None)` is a time that was never reached, `None` an invalid one.
fn time(document: &Value, field: &str) -> Option<Option<Timestamp>> {
    let Some(value) = document.get(field) else { return Some(None) };
    let time: jiff::Timestamp = value.as_str()?.parse().ok()?;
    // Times out of range, such as the zero time, mean "never".
    let nanos = i64::try_from(time.as_nanosecond()).unwrap_or(0);
    Some(Some(Timestamp::from_nanos(nanos)).filter(|time| !time.is_zero()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: i64) -> Option<Timestamp> {
        Some(Timestamp::from_secs(seconds))
    }

    #[test]
    fn round_trips_through_file_format() {
        for state in [
            ShutdownState::default(),
            ShutdownState { started: at(5), ended: None },
            ShutdownState { started: at(5), ended: at(9) },
        ] {
            assert_eq!(ShutdownState::read(&state.write()), Some(state));
        }
        let text = String::from_utf8(ShutdownState { started: at(5), ended: None }.write()).unwrap();
        assert_eq!(text, r#"{"endTime":"0001-01-01T00:00:00Z","startTime":"1970-01-01T00:00:05Z"}"#);
    }

    #[test]
    fn reads_upstream_file() {
        let content =
            br#"{"startTime":"2026-02-03T04:05:06.789012345+02:00","endTime":"0001-01-01T00:00:00Z"}"#;
        let state = ShutdownState::read(content).unwrap();
        assert_eq!(state.started.unwrap().to_rfc3339(), "2026-02-03T02:05:06.789012345Z");
        assert_eq!(state.ended, None);
        for invalid in [&b"x"[..], br#"{"startTime": 3}"#, br#"{"endTime": "soon"}"#] {
            assert_eq!(ShutdownState::read(invalid), None);
        }
    }

    #[test]
    fn continues_only_interrupted_shutdown() {
        let now = Timestamp::from_secs(100);
        let interrupted = ShutdownState { started: at(5), ended: None };
        let complete = ShutdownState { started: at(5), ended: at(9) };
        for (before, onset, started) in [
            (ShutdownState::default(), ShutdownOnset::Signalled, 100),
            (ShutdownState::default(), ShutdownOnset::FoundInProgress, 100),
            (interrupted, ShutdownOnset::FoundInProgress, 5),
            (interrupted, ShutdownOnset::Signalled, 100),
            (complete, ShutdownOnset::FoundInProgress, 100),
        ] {
            let start = before.start(onset, now);
            assert_eq!(start, ShutdownState { started: at(started), ended: None }, "{before:?} {onset:?}");
        }
    }
}
