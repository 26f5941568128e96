//! The state of each pod source, for the local socket. Each source writes its own row.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

use model::PodSource;
use model::local_api::{SourceReport, SourceState};
use ports::clock::Clock;

pub struct SourceReports {
    clock: Arc<dyn Clock>,
    rows: Mutex<BTreeMap<PodSource, SourceReport>>,
}

impl SourceReports {
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, rows: Mutex::default() }
    }

    /// Adds a source that was not read yet.
    pub fn add_source(&self, source: PodSource, location: String) {
        let (state, since) = (SourceState::Waiting, self.clock.now());
        let report = SourceReport { source, location, state, problem: None, pods: 0, since };
        self.rows.lock().insert(source, report);
    }

    pub fn record_success(&self, source: PodSource, pods: usize) {
        self.set(source, SourceState::Good, None, Some(pods));
    }

    pub fn record_failure(&self, source: PodSource, problem: String) {
        self.set(source, SourceState::Failing, Some(problem), None);
    }

    #[must_use]
    pub fn all(&self) -> Vec<SourceReport> {
        self.rows.lock().values().cloned().collect()
    }

    fn set(&self, source: PodSource, state: SourceState, problem: Option<String>, pods: Option<usize>) {
        let now = self.clock.now();
        if let Some(row) = self.rows.lock().get_mut(&source) {
            if row.state != state {
                row.since = now;
            }
            row.state = state;
            row.problem = problem;
            row.pods = pods.unwrap_or(row.pods);
        }
    }
}

/// A URL without user, password, query and fragment, which may contain secrets.
#[must_use]
pub fn redacted_url(url: &str) -> String {
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
    fn failing_source_keeps_its_pod_count() {
        let reports = SourceReports::new(Arc::new(SystemClock));
        reports.record_success(PodSource::Http, 7);
        assert!(reports.all().is_empty(), "a source that is not configured has no row");
        reports.add_source(PodSource::Http, "http://h/".to_owned());
        assert_eq!(reports.all()[0].state, SourceState::Waiting);
        reports.record_success(PodSource::Http, 2);
        let since = reports.all()[0].since;
        reports.record_success(PodSource::Http, 3);
        assert_eq!((reports.all()[0].pods, reports.all()[0].since), (3, since));
        reports.record_failure(PodSource::Http, "answered 500".to_owned());
        let row = &reports.all()[0];
        assert_eq!((row.state, row.pods), (SourceState::Failing, 3));
        assert_eq!(row.problem.as_deref(), Some("answered 500"));
    }

    #[test]
    fn redacts_credentials_and_query_of_url() {
        assert_eq!(redacted_url("https://me:word@host:1/a/b?token=x#y"), "https://host:1/a/b");
        assert_eq!(redacted_url("http://host"), "http://host");
        assert_eq!(redacted_url("host/a?b"), "host/a");
    }
}
