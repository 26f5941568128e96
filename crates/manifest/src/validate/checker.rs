//! Collects violations and formats them like the API server does.

use serde_json::Value;

use crate::path::Path;

/// The violations of one object: path and reason.
pub(crate) type Violations = Vec<(Path, String)>;

#[derive(Debug, Default)]
pub(crate) struct Checker {
    violations: Violations,
}

impl Checker {
    /// The violations in the order in which they were found.
    pub(crate) fn finish(self) -> Violations {
        self.violations
    }

    /// A required value is missing; `detail` may be empty.
    pub(crate) fn required(&mut self, path: &Path, detail: &str) {
        let separator = if detail.is_empty() { "" } else { ": " };
        self.push(path, format!("Required value{separator}{detail}"));
    }

    /// Reports an empty string; returns whether it is not empty.
    pub(crate) fn require_text(&mut self, path: &Path, value: &str) -> bool {
        if value.is_empty() {
            self.required(path, "");
        }
        !value.is_empty()
    }

    pub(crate) fn invalid(&mut self, path: &Path, value: impl Into<Value>, detail: &str) {
        let value: Value = value.into();
        self.push(path, format!("Invalid value: {value}: {detail}"));
    }

    /// Reports the message of a format function from [`super::formats`], if there is one.
    pub(crate) fn format(&mut self, path: &Path, value: &str, message: Option<String>) {
        if let Some(message) = message {
            self.invalid(path, value, &message);
        }
    }

    pub(crate) fn unsupported(&mut self, path: &Path, value: &str, supported: &[&str]) {
        let supported: Vec<_> = supported.iter().map(|value| format!("{value:?}")).collect();
        self.push(path, format!("Unsupported value: {value:?}: supported values: {}", supported.join(", ")));
    }

    /// Reports a value that is not in the list.
    pub(crate) fn one_of(&mut self, path: &Path, value: &str, supported: &[&str]) {
        if !supported.contains(&value) {
            self.unsupported(path, value, supported);
        }
    }

    pub(crate) fn duplicate(&mut self, path: &Path, value: &str) {
        self.push(path, format!("Duplicate value: {value:?}"));
    }

    pub(crate) fn forbidden(&mut self, path: &Path, detail: &str) {
        self.push(path, format!("Forbidden: {detail}"));
    }

    pub(crate) fn not_found(&mut self, path: &Path, value: &str) {
        self.push(path, format!("Not found: {value:?}"));
    }

    pub(crate) fn too_long(&mut self, path: &Path, limit: usize) {
        self.push(path, format!("Too long: may not be more than {limit} bytes"));
    }

    pub(crate) fn too_many(&mut self, path: &Path, count: usize, limit: usize) {
        self.push(path, format!("Too many: {count}: must have at most {limit} items"));
    }

    pub(crate) fn in_range(&mut self, path: &Path, value: i64, min: i64, max: i64) {
        if value < min || value > max {
            self.invalid(path, value, &format!("must be between {min} and {max}, inclusive"));
        }
    }

    pub(crate) fn not_negative(&mut self, path: &Path, value: i64) {
        if value < 0 {
            self.invalid(path, value, "must be greater than or equal to 0");
        }
    }

    pub(crate) fn positive(&mut self, path: &Path, value: i64) {
        if value <= 0 {
            self.invalid(path, value, "must be greater than 0");
        }
    }

    fn push(&mut self, path: &Path, reason: String) {
        self.violations.push((path.clone(), reason));
    }
}
