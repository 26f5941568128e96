use model::Timestamp;
use serde_json::{Value, json};

/// How a time that was never reached is written.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// How an agent comes to know that the machine ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Onset {
    /// It was told when that began.
    Signalled,
    /// It started, or heard again of the machine, when that was under way.
    FoundUnderWay,
}

/// When the last end of the machine began and was through, in upstream's form on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// When pods began to be ended.
    pub started: Option<Timestamp>,
    /// When the last one had ended, or its time was over.
    pub ended: Option<Timestamp>,
}

impl Record {
    /// Reads what was written, `None` when it makes no sense. What was never written is no record.
    #[must_use]
    pub fn read(content: &[u8]) -> Option<Self> {
        let document: Value = serde_json::from_slice(content).ok()?;
        Some(Self { started: time(&document, "startTime")?, ended: time(&document, "endTime")? })
    }

    /// As it is written.
    #[must_use]
    pub fn write(self) -> Vec<u8> {
        let text = |time: Option<Timestamp>| time.map_or_else(|| NEVER.to_owned(), Timestamp::to_rfc3339);
        json!({"startTime": text(self.started), "endTime": text(self.ended)}).to_string().into_bytes()
    }

    /// The record of an end that begins now. One that an agent before this one began and did not bring to its end goes
    /// on.
    #[must_use]
    pub fn begun(self, onset: Onset, now: Timestamp) -> Self {
        let kept = self.started.filter(|_| onset == Onset::FoundUnderWay && self.ended.is_none());
        Self { started: Some(kept.unwrap_or(now)), ended: None }
    }
}

/// `Some(None)` is a time that was never reached.
fn time(document: &Value, field: &str) -> Option<Option<Timestamp>> {
    let Some(value) = document.get(field) else { return Some(None) };
    let time: jiff::Timestamp = value.as_str()?.parse().ok()?;
    // Times before the epoch do not fit; they stand for "never".
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
    fn what_is_written_is_read_again() {
        for record in [
            Record::default(),
            Record { started: at(5), ended: None },
            Record { started: at(5), ended: at(9) },
        ] {
            assert_eq!(Record::read(&record.write()), Some(record));
        }
        let text = String::from_utf8(Record { started: at(5), ended: None }.write()).unwrap();
        assert_eq!(text, r#"{"endTime":"0001-01-01T00:00:00Z","startTime":"1970-01-01T00:00:05Z"}"#);
    }

    #[test]
    fn upstreams_file_is_read() {
        let content =
            br#"{"startTime":"2026-02-03T04:05:06.789012345+02:00","endTime":"0001-01-01T00:00:00Z"}"#;
        let record = Record::read(content).unwrap();
        assert_eq!(record.started.unwrap().to_rfc3339(), "2026-02-03T02:05:06.789012345Z");
        assert_eq!(record.ended, None);
        for nonsense in [&b"x"[..], br#"{"startTime": 3}"#, br#"{"endTime": "soon"}"#] {
            assert_eq!(Record::read(nonsense), None);
        }
    }

    #[test]
    fn only_an_end_that_was_broken_off_goes_on() {
        let now = Timestamp::from_secs(100);
        let broken_off = Record { started: at(5), ended: None };
        let through = Record { started: at(5), ended: at(9) };
        for (before, onset, started) in [
            (Record::default(), Onset::Signalled, 100),
            (Record::default(), Onset::FoundUnderWay, 100),
            (broken_off, Onset::FoundUnderWay, 5),
            (broken_off, Onset::Signalled, 100),
            (through, Onset::FoundUnderWay, 100),
        ] {
            let begun = before.begun(onset, now);
            assert_eq!(begun, Record { started: at(started), ended: None }, "{before:?} {onset:?}");
        }
    }
}
