//! The report of a run, from the JSON of ginkgo.

use anyhow::{Context, Result};
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Passed,
    Failed,
    Skipped,
}

impl State {
    pub(crate) const ALL: [Self; 3] = [Self::Passed, Self::Failed, Self::Skipped];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) name: String,
    pub(crate) state: State,
    /// Why it failed or was skipped: the first line.
    pub(crate) message: String,
}

#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) specs: Vec<Spec>,
    pub(crate) seconds: f64,
}

impl Report {
    /// Reads a report. Specs that the arguments did not select are left out.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let suites: Vec<Value> = serde_json::from_str(text).context("parse the report")?;
        let entries = suites.iter().filter_map(|suite| suite["SpecReports"].as_array()).flatten();
        let specs = entries.filter(|entry| entry["LeafNodeType"] == "It").filter_map(spec).collect();
        Ok(Self { specs, seconds: 0.0 })
    }

    pub(crate) fn in_state(&self, state: State) -> impl Iterator<Item = &Spec> {
        self.specs.iter().filter(move |spec| spec.state == state)
    }

    pub(crate) fn count(&self, state: State) -> usize {
        self.in_state(state).count()
    }

    pub(crate) fn summary(&self) -> String {
        State::ALL.map(|state| format!("{} {}", self.count(state), state.name())).join(", ")
    }
}

fn spec(entry: &Value) -> Option<Spec> {
    let message = entry["Failure"]["Message"].as_str().unwrap_or_default();
    let state = match entry["State"].as_str().unwrap_or_default() {
        "passed" => State::Passed,
        // Without a reason it was not selected.
        "skipped" if message.is_empty() => return None,
        "skipped" | "pending" => State::Skipped,
        _ => State::Failed,
    };
    let mut words: Vec<&str> =
        entry["ContainerHierarchyTexts"].as_array()?.iter().filter_map(Value::as_str).collect();
    words.extend(entry["LeafNodeText"].as_str());
    let lines: Vec<&str> = message.lines().map(str::trim).filter(|line| !line.is_empty()).take(3).collect();
    Some(Spec { name: words.join(" "), state, message: lines.join(" ") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_without_a_reason_to_skip_were_not_selected() {
        let spec = |state: &str, message: &str| {
            format!(
                r#"{{"LeafNodeType":"It","ContainerHierarchyTexts":["[CRI] A"],"LeafNodeText":"b","State":"{state}",
                    "Failure":{{"Message":"{message}"}}}}"#
            )
        };
        let specs = [
            spec("passed", ""),
            spec("skipped", ""),
            spec("skipped", "no SELinux"),
            spec("timedout", "slow"),
        ];
        let text = format!(r#"[{{"SpecReports":[{{"LeafNodeType":"BeforeSuite"}},{}]}}]"#, specs.join(","));
        let report = Report::parse(&text).unwrap();
        assert_eq!(report.summary(), "1 passed, 1 failed, 1 skipped");
        assert_eq!(report.in_state(State::Skipped).next().unwrap().message, "no SELinux");
        assert_eq!(report.specs[0].name, "[CRI] A b");
    }
}
