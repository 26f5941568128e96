//! The list of what was found wrong, in the short forms that users of the API know.

use serde_json::Value;

use crate::path::Path;

/// Problems of one pod: where, and why.
pub(crate) type Findings = Vec<(Path, String)>;

/// Collects problems.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    findings: Findings,
}

impl Checker {
    /// What was found, in the order of finding.
    pub(crate) fn finish(self) -> Findings {
        self.findings
    }

    /// A value must be there; `detail` may be empty.
    pub(crate) fn required(&mut self, at: &Path, detail: &str) {
        let separator = if detail.is_empty() { "" } else { ": " };
        self.push(at, format!("Required value{separator}{detail}"));
    }

    /// A text must be there; tells whether it is.
    pub(crate) fn require_text(&mut self, at: &Path, value: &str) -> bool {
        if value.is_empty() {
            self.required(at, "");
        }
        !value.is_empty()
    }

    /// A value is not allowed.
    pub(crate) fn invalid(&mut self, at: &Path, value: impl Into<Value>, detail: &str) {
        let value: Value = value.into();
        self.push(at, format!("Invalid value: {value}: {detail}"));
    }

    /// A text does not have its format; `complaint` is what the format says, if anything.
    pub(crate) fn format(&mut self, at: &Path, value: &str, complaint: Option<String>) {
        if let Some(complaint) = complaint {
            self.invalid(at, value, &complaint);
        }
    }

    /// A value is none of a fixed set.
    pub(crate) fn unsupported(&mut self, at: &Path, value: &str, supported: &[&str]) {
        let supported: Vec<_> = supported.iter().map(|value| format!("{value:?}")).collect();
        self.push(at, format!("Unsupported value: {value:?}: supported values: {}", supported.join(", ")));
    }

    /// A text must be one of a fixed set.
    pub(crate) fn one_of(&mut self, at: &Path, value: &str, supported: &[&str]) {
        if !supported.contains(&value) {
            self.unsupported(at, value, supported);
        }
    }

    /// A value that must be unique is given twice.
    pub(crate) fn duplicate(&mut self, at: &Path, value: &str) {
        self.push(at, format!("Duplicate value: {value:?}"));
    }

    /// Something may not be said here.
    pub(crate) fn forbidden(&mut self, at: &Path, detail: &str) {
        self.push(at, format!("Forbidden: {detail}"));
    }

    /// A name refers to nothing.
    pub(crate) fn not_found(&mut self, at: &Path, value: &str) {
        self.push(at, format!("Not found: {value:?}"));
    }

    /// A text is too long.
    pub(crate) fn too_long(&mut self, at: &Path, limit: usize) {
        self.push(at, format!("Too long: may not be more than {limit} bytes"));
    }

    /// A list has too many items.
    pub(crate) fn too_many(&mut self, at: &Path, count: usize, limit: usize) {
        self.push(at, format!("Too many: {count}: must have at most {limit} items"));
    }

    /// A number must lie in a range.
    pub(crate) fn in_range(&mut self, at: &Path, value: i64, lowest: i64, highest: i64) {
        if value < lowest || value > highest {
            self.invalid(at, value, &format!("must be between {lowest} and {highest}, inclusive"));
        }
    }

    /// A number may not be below zero.
    pub(crate) fn not_negative(&mut self, at: &Path, value: i64) {
        if value < 0 {
            self.invalid(at, value, "must be greater than or equal to 0");
        }
    }

    /// A number must be above zero.
    pub(crate) fn positive(&mut self, at: &Path, value: i64) {
        if value <= 0 {
            self.invalid(at, value, "must be greater than 0");
        }
    }

    fn push(&mut self, at: &Path, reason: String) {
        self.findings.push((at.clone(), reason));
    }
}
