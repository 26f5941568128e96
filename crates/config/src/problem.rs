//! What is wrong with a configuration, and where it was said.

use std::{fmt, path::PathBuf};

use document::{FieldPath, Position};

use crate::flags::FlagError;

/// The configuration cannot be loaded; the agent must not start with it.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The command line cannot be read.
    #[error(transparent)]
    CommandLine(#[from] FlagError),
    /// A configuration file or directory cannot be read.
    #[error("read configuration {}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A configuration file is larger than any real one.
    #[error("read configuration {}: larger than {limit} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The largest size accepted.
        limit: u64,
    },
    /// Values are refused; all of them are listed.
    #[error("{}", lines(problems))]
    Invalid {
        /// What is wrong, one by one.
        problems: Vec<Problem>,
    },
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where the value was set.
    pub origin: Origin,
    /// The field it is about; the root for a whole file or a flag without a field.
    pub field: FieldPath,
    /// What is wrong, for the operator.
    pub reason: String,
}

/// Where a value was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In a file.
    File {
        /// The file.
        path: PathBuf,
        /// The place in it.
        position: Option<Position>,
    },
    /// By a flag, named without dashes.
    Flag(&'static str),
    /// Nowhere: it is a default, or its absence is the problem.
    Default,
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
