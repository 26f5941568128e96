//! A field under validation. It collects violations and formats them like the API server does.

use std::cell::RefCell;

use serde_json::Value;

use crate::path::Path;

/// The violations of one object: path and reason.
pub(crate) type Violations = Vec<(Path, String)>;

/// The violations found so far, in the order in which they were found.
#[derive(Debug, Default)]
pub(crate) struct Report(RefCell<Violations>);

impl Report {
    /// The object itself.
    pub(crate) fn root(&self) -> Field<'_> {
        self.at(Path::root())
    }

    pub(crate) fn at(&self, path: Path) -> Field<'_> {
        Field { path, report: self }
    }

    pub(crate) fn into_violations(self) -> Violations {
        self.0.into_inner()
    }
}

/// Returns a message if the text does not have a format; see [`super::formats`].
pub(crate) type Format = fn(&str) -> Option<String>;

/// A field of the object that is validated. The report of a violation names its path.
#[derive(Debug, Clone)]
pub(crate) struct Field<'a> {
    path: Path,
    report: &'a Report,
}

impl<'a> Field<'a> {
    /// A field below this one, or several fields separated by dots.
    pub(crate) fn field(&self, name: &str) -> Self {
        self.report.at(self.path.field(name))
    }

    pub(crate) fn key(&self, key: &str) -> Self {
        self.report.at(self.path.key(key))
    }

    /// The items of the list in this field.
    pub(crate) fn items<'v, T>(&self, list: &'v [T]) -> impl Iterator<Item = (Self, &'v T)> + use<'a, 'v, T> {
        let report = self.report;
        self.path.items(list).map(move |(path, item)| (report.at(path), item))
    }

    /// The items of an optional list below this field.
    pub(crate) fn list<'v, T>(
        &self,
        name: &str,
        list: &'v Option<Vec<T>>,
    ) -> impl Iterator<Item = (Self, &'v T)> + use<'a, 'v, T> {
        self.field(name).items(list.as_deref().unwrap_or_default())
    }

    /// Checks a field below this one if it is set.
    pub(crate) fn if_set<T>(&self, name: &str, value: &Option<T>, check: impl FnOnce(&T, &Self)) {
        if let Some(value) = value {
            check(value, &self.field(name));
        }
    }

    /// A required value is missing; `detail` may be empty.
    pub(crate) fn required(&self, detail: &str) {
        let separator = if detail.is_empty() { "" } else { ": " };
        self.push(format!("Required value{separator}{detail}"));
    }

    /// Reports an empty string; returns whether it is not empty.
    pub(crate) fn require(&self, value: &str) -> bool {
        if value.is_empty() {
            self.required("");
        }
        !value.is_empty()
    }

    /// Reports those of the fields below this one that are empty.
    pub(crate) fn require_all(&self, fields: &[(&str, &str)]) {
        for (name, value) in fields {
            self.field(name).require(value);
        }
    }

    pub(crate) fn invalid(&self, value: impl Into<Value>, detail: &str) {
        let value: Value = value.into();
        self.push(format!("Invalid value: {value}: {detail}"));
    }

    /// Reports a text that does not have the format.
    pub(crate) fn format(&self, value: &str, format: impl FnOnce(&str) -> Option<String>) {
        if let Some(message) = format(value) {
            self.invalid(value, &message);
        }
    }

    /// Reports a text that is empty or does not have the format.
    pub(crate) fn required_format(&self, value: &str, format: Format) {
        if self.require(value) {
            self.format(value, format);
        }
    }

    /// Reports a text that is set and does not have the format.
    pub(crate) fn optional_format(&self, value: &Option<String>, format: Format) {
        if let Some(value) = value {
            self.format(value, format);
        }
    }

    /// Reports a text that is neither empty nor has the format.
    pub(crate) fn empty_or_format(&self, value: &Option<String>, format: Format) {
        if let Some(value) = value.as_deref().filter(|value| !value.is_empty()) {
            self.format(value, format);
        }
    }

    pub(crate) fn unsupported(&self, value: &str, supported: &[&str]) {
        let supported: Vec<_> = supported.iter().map(|value| format!("{value:?}")).collect();
        self.push(format!("Unsupported value: {value:?}: supported values: {}", supported.join(", ")));
    }

    /// Reports a value that is not in the list.
    pub(crate) fn one_of(&self, value: &str, supported: &[&str]) {
        if !supported.contains(&value) {
            self.unsupported(value, supported);
        }
    }

    /// Reports a value that is set and not in the list.
    pub(crate) fn optional_one_of(&self, value: &Option<String>, supported: &[&str]) {
        if let Some(value) = value {
            self.one_of(value, supported);
        }
    }

    pub(crate) fn duplicate(&self, value: &str) {
        self.push(format!("Duplicate value: {value:?}"));
    }

    pub(crate) fn forbidden(&self, detail: &str) {
        self.push(format!("Forbidden: {detail}"));
    }

    /// Forbids those of the fields below this one that are set.
    pub(crate) fn forbid_set(&self, fields: &[(&str, bool)], detail: &str) {
        for (name, _) in fields.iter().filter(|(_, is_set)| *is_set) {
            self.field(name).forbidden(detail);
        }
    }

    pub(crate) fn not_found(&self, value: &str) {
        self.push(format!("Not found: {value:?}"));
    }

    pub(crate) fn too_long(&self, limit: usize) {
        self.push(format!("Too long: may not be more than {limit} bytes"));
    }

    pub(crate) fn too_many(&self, count: usize, limit: usize) {
        self.push(format!("Too many: {count}: must have at most {limit} items"));
    }

    pub(crate) fn in_range(&self, value: i64, min: i64, max: i64) {
        if value < min || value > max {
            self.invalid(value, &format!("must be between {min} and {max}, inclusive"));
        }
    }

    pub(crate) fn not_negative(&self, value: i64) {
        if value < 0 {
            self.invalid(value, "must be greater than or equal to 0");
        }
    }

    pub(crate) fn positive(&self, value: i64) {
        if value <= 0 {
            self.invalid(value, "must be greater than 0");
        }
    }

    fn push(&self, reason: String) {
        self.report.0.borrow_mut().push((self.path.clone(), reason));
    }
}
