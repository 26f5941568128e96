//! What became of each source of pods, for whoever asks. Each source writes its own row.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::{PodSource, Timestamp};
use ports::clock::Clock;

/// How a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceState {
    /// It has not spoken yet.
    Waiting,
    /// What it said last is wanted.
    Good,
    /// It cannot be read; what it said before stays wanted.
    Failing,
}

impl SourceState {
    /// The word shown to users.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "Waiting",
            Self::Good => "Good",
            Self::Failing => "Failing",
        }
    }
}

/// The state of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceReport {
    /// Which.
    pub source: PodSource,
    /// The folder or file, or the URL without what may be secret in it.
    pub place: String,
    /// How it is.
    pub state: SourceState,
    /// Why it is failing.
    pub problem: Option<String>,
    /// How many pods it wants.
    pub pods: usize,
    /// Since when it is in this state.
    pub since: Timestamp,
}

/// The states of all configured sources.
pub struct SourceReports {
    clock: Arc<dyn Clock>,
    rows: Mutex<BTreeMap<PodSource, SourceReport>>,
}

impl SourceReports {
    /// No sources yet.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, rows: Mutex::default() }
    }

    /// There is a source, which has not spoken yet.
    pub fn configured(&self, source: PodSource, place: String) {
        let (state, since) = (SourceState::Waiting, self.clock.now());
        let report = SourceReport { source, place, state, problem: None, pods: 0, since };
        self.rows().insert(source, report);
    }

    /// A source was read.
    pub fn good(&self, source: PodSource, pods: usize) {
        self.set(source, SourceState::Good, None, Some(pods));
    }

    /// A source cannot be read.
    pub fn failing(&self, source: PodSource, problem: String) {
        self.set(source, SourceState::Failing, Some(problem), None);
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> Vec<SourceReport> {
        self.rows().values().cloned().collect()
    }

    fn set(&self, source: PodSource, state: SourceState, problem: Option<String>, pods: Option<usize>) {
        let now = self.clock.now();
        if let Some(row) = self.rows().get_mut(&source) {
            if row.state != state {
                row.since = now;
            }
            row.state = state;
            row.problem = problem;
            row.pods = pods.unwrap_or(row.pods);
        }
    }

    fn rows(&self) -> MutexGuard<'_, BTreeMap<PodSource, SourceReport>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A URL without user, password and query, which may be secret.
#[must_use]
pub fn shown_url(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use ports::clock::SystemClock;

    use super::*;

    #[test]
    fn a_failing_source_keeps_its_pods() {
        let reports = SourceReports::new(Arc::new(SystemClock));
        reports.good(PodSource::Http, 7);
        assert!(reports.all().is_empty(), "a source that is not configured has no row");
        reports.configured(PodSource::Http, "http://h/".to_owned());
        assert_eq!(reports.all()[0].state, SourceState::Waiting);
        reports.good(PodSource::Http, 2);
        let since = reports.all()[0].since;
        reports.good(PodSource::Http, 3);
        assert_eq!((reports.all()[0].pods, reports.all()[0].since), (3, since));
        reports.failing(PodSource::Http, "answered 500".to_owned());
        let row = &reports.all()[0];
        assert_eq!((row.state, row.pods), (SourceState::Failing, 3));
        assert_eq!(row.problem.as_deref(), Some("answered 500"));
    }

    #[test]
    fn secrets_of_a_url_are_not_shown() {
        assert_eq!(shown_url("https://me:word@host:1/a/b?token=x#y"), "https://host:1/a/b");
        assert_eq!(shown_url("http://host"), "http://host");
        assert_eq!(shown_url("host/a?b"), "host/a");
    }
}
