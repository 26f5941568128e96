//! Configuration errors, and where the wrong values were set.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use document::{FieldError, FieldPath, Position};

use crate::flags::FlagError;

/// The configuration cannot be loaded; the agent must not start.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    CommandLine(#[from] FlagError),
    #[error("failed to read configuration {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("failed to read configuration {}: the file is larger than {limit} bytes", path.display())]
    TooLarge { path: PathBuf, limit: u64 },
    /// All invalid values, one per line.
    #[error("{}", lines(problems))]
    Invalid { problems: Vec<Problem> },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub origin: Origin,
    /// The root if the problem concerns a whole file, or a flag that sets no field.
    pub field: FieldPath,
    /// Addressed to the operator.
    pub reason: String,
}

/// Where a value was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    File {
        path: PathBuf,
        position: Option<Position>,
    },
    /// The name of a flag, without dashes.
    Flag(&'static str),
    /// The value is a default, or the problem is that it is missing.
    Default,
}

impl Problem {
    pub(crate) fn in_file(
        path: &Path,
        position: Option<Position>,
        field: FieldPath,
        reason: impl Into<String>,
    ) -> Self {
        let origin = Origin::File { path: path.to_owned(), position };
        Self { origin, field, reason: reason.into() }
    }

    pub(crate) fn of_field(path: &Path, error: FieldError) -> Self {
        Self::in_file(path, error.position, error.path, error.reason)
    }

    pub(crate) fn of_flag(name: &'static str, reason: impl Into<String>) -> Self {
        Self { origin: Origin::Flag(name), field: FieldPath::root(), reason: reason.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::File { path, position: Some(position) } => {
                write!(f, "{}: line {}: ", path.display(), position.line)?;
            }
            Origin::File { path, position: None } => write!(f, "{}: ", path.display())?,
            Origin::Flag(name) => write!(f, "flag --{name}: ")?,
            Origin::Default => {}
        }
        if !self.field.is_root() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.reason)
    }
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
