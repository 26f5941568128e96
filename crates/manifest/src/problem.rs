//! Problems in a manifest and their positions.

use std::fmt::{self, Display};

use document::{FieldPath, Position};

use crate::path::{Path, Segment};

/// An error or a warning about one field of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Index of the document in the text, from 0.
    pub document: usize,
    /// The name of the object, if it has one.
    pub object: Option<String>,
    /// Relative to the root of the document.
    pub path: Path,
    /// The position of the field, or of its nearest existing parent if it is missing.
    pub position: Option<Position>,
    /// Addressed to the author of the manifest.
    pub reason: String,
}

impl Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(position) = self.position {
            write!(f, "line {}: ", position.line)?;
        }
        if !self.path.segments().is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.reason)
    }
}

/// Converts a path for lookups in a [`document::Document`].
pub(crate) fn field_path(path: &Path) -> FieldPath {
    let segments = path.segments().iter().map(|segment| match segment {
        Segment::Field(name) | Segment::Key(name) => document::Segment::Key(name.clone()),
        Segment::Index(index) => document::Segment::Index(*index),
    });
    segments.collect()
}

/// Converts a path that the crate `document` returned.
pub(crate) fn from_field_path(path: &FieldPath) -> Path {
    path.segments().iter().fold(Path::root(), |path, segment| match segment {
        document::Segment::Index(index) => path.index(*index),
        document::Segment::Key(key) if key.contains(['.', '/']) => path.key(key),
        document::Segment::Key(key) => path.field(key),
    })
}
