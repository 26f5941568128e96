//! Places in a text, and the errors that carry them.

use std::fmt;

use crate::path::FieldPath;

/// A place in a text; lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
}

impl Position {
    /// The first character of a text.
    pub(crate) const START: Self = Self { line: 1, column: 1 };

    /// The place right after `text`.
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

/// The text is not well-formed YAML or JSON, or it exceeds a bound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{position}: {reason}")]
pub struct SyntaxError {
    /// Where reading stopped.
    pub position: Position,
    /// Why, in words for the author of the text.
    pub reason: String,
}

/// One field of a document is wrong, missing or unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct FieldError {
    /// The field.
    pub path: FieldPath,
    /// Where it stands; for a missing field, where its nearest parent stands.
    pub position: Option<Position>,
    /// Why it is refused, in words for the author of the text.
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
