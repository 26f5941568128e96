//! Records which file or flag set each value: files in the order in which they were applied, then flags.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use document::{Document, FieldPath, Segment};
use serde_json::Value;

use crate::{
    configuration::{API_VERSION, KIND},
    flags::{CommandLine, FlagKind, Target},
    problem::{Origin, Problem},
};

/// The files and flags that a configuration consists of.
#[derive(Default)]
pub(crate) struct Sources {
    files: Vec<(PathBuf, Document)>,
    flags: Vec<(&'static str, FieldPath)>,
}

impl Sources {
    pub(crate) fn add_file(&mut self, path: &Path, document: Document) {
        self.files.push((path.to_owned(), document));
    }

    pub(crate) fn add_flags(&mut self, line: &CommandLine) {
        for used in line.used() {
            let (Target::Field(field), Some(value)) = (used.flag.target, &used.value) else { continue };
            let path = field.split('.').fold(FieldPath::root(), FieldPath::key);
            match (used.flag.kind, value) {
                // A flag sets single gates; the other gates still belong to the file.
                (FlagKind::Gates, Value::Object(gates)) => {
                    self.flags
                        .extend(gates.keys().map(|gate| (used.flag.name, path.clone().key(gate.as_str()))));
                }
                _ => self.flags.push((used.flag.name, path)),
            }
        }
    }

    /// The last source that set a field, one of its subfields or one of its parents.
    pub(crate) fn origin(&self, field: &FieldPath) -> Origin {
        let related = |other: &FieldPath| {
            let (field, other) = (field.segments(), other.segments());
            field.starts_with(other) || other.starts_with(field)
        };
        if let Some((name, _)) = self.flags.iter().rev().find(|(_, path)| related(path)) {
            return Origin::Flag(name);
        }
        let file_with =
            |path: &FieldPath| self.files.iter().rev().find(|(_, document)| document.get(path).is_some());
        let top: FieldPath = field.segments().iter().take(1).cloned().collect();
        match file_with(field).or_else(|| file_with(&top)) {
            Some((path, document)) => Origin::File { path: path.clone(), position: document.position(field) },
            None => Origin::Default,
        }
    }

    pub(crate) fn problem(&self, field: FieldPath, reason: impl Into<String>) -> Problem {
        Problem { origin: self.origin(&field), field, reason: reason.into() }
    }

    /// The top-level fields that any source sets. An empty text means that a field is not set.
    pub(crate) fn set_fields(&self) -> BTreeSet<String> {
        let keys = self.files.iter().filter_map(|(_, document)| document.value().as_object()).flatten();
        let in_files = keys
            .filter(|(_, value)| !value.is_null() && value.as_str() != Some(""))
            .map(|(key, _)| key.clone());
        let by_flags = self.flags.iter().filter_map(|(_, path)| match path.segments().first() {
            Some(Segment::Key(key)) => Some(key.clone()),
            Some(Segment::Index(_)) | None => None,
        });
        in_files.chain(by_flags).filter(|key| key != "apiVersion" && key != "kind").collect()
    }
}

/// Parses a configuration file, which must contain one document of the right API version and kind.
pub(crate) fn parse_document(path: &Path, text: &[u8]) -> Result<Document, Vec<Problem>> {
    let problem = |position, field, reason: &str| Problem::in_file(path, position, field, reason);
    let mut documents = document::parse(text)
        .map_err(|error| vec![problem(Some(error.position), FieldPath::root(), &error.reason)])?;
    let Some(document) = documents.pop() else {
        return Err(vec![problem(None, FieldPath::root(), "the file is empty")]);
    };
    if !documents.is_empty() {
        let position = document.position(&FieldPath::root());
        return Err(vec![problem(position, FieldPath::root(), "the file must contain exactly one document")]);
    }
    let mut problems = Vec::new();
    for (name, expected) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        let field = FieldPath::root().key(name);
        let reason = match document.get(&field).map(|value| value.as_str()) {
            Some(Some(found)) if found == expected => continue,
            Some(found) => format!("{:?} must be {expected:?}", found.unwrap_or_default()),
            None => format!("required field is missing; it must be {expected:?}"),
        };
        problems.push(problem(document.position(&field), field, &reason));
    }
    if problems.is_empty() { Ok(document) } else { Err(problems) }
}
