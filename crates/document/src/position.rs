//! Positions in a text, and the errors that contain them.

use std::fmt;

use crate::path::FieldPath;

/// A position in a text; lines and columns start at 1, columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

impl Position {
    /// The position of the first character.
    pub(crate) const START: Self = Self { line: 1, column: 1 };

    /// The position right after `text`.
    pub(crate) fn at_end_of(text: &str) -> Self {
        let line = text.matches('\n').count() + 1;
        let last = text.rsplit('\n').next().unwrap_or_default();
        Self { line, column: last.chars().count() + 1 }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// The text is not well-formed YAML or JSON, or exceeds a bound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{position}: {reason}")]
pub struct SyntaxError {
    /// Where parsing stopped.
    pub position: Position,
    /// Addressed to the author of the text.
    pub reason: String,
}

/// One field of a document is wrong, missing or unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct FieldError {
    pub path: FieldPath,
    /// The position of the field, or of its nearest existing parent if the field is missing.
    pub position: Option<Position>,
    /// Addressed to the author of the text.
    pub reason: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(position) = self.position {
            write!(f, "line {}: ", position.line)?;
        }
        if !self.path.is_root() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.reason)
    }
}
