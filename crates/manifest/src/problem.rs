//! What is wrong with a manifest, and where.

use std::fmt::{self, Display};

use document::{FieldPath, Position};

use crate::path::{Path, Segment};

/// One thing that is wrong (or ignored) in a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Which document of the text, from 0.
    pub document: usize,
    /// The name of the pod, if it has one.
    pub object: Option<String>,
    /// The field, from the root of the document.
    pub path: Path,
    /// Where the field stands, or its nearest parent if it is missing.
    pub position: Option<Position>,
    /// Why, in words for the author of the manifest.
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

/// The path as `document` knows it, to look up positions.
pub(crate) fn field_path(path: &Path) -> FieldPath {
    let segments = path.segments().iter().map(|segment| match segment {
        Segment::Field(name) | Segment::Key(name) => document::Segment::Key(name.clone()),
        Segment::Index(index) => document::Segment::Index(*index),
    });
    segments.collect()
}

/// A path that `document` reported.
pub(crate) fn from_field_path(path: &FieldPath) -> Path {
    path.segments().iter().fold(Path::root(), |path, segment| match segment {
        document::Segment::Index(index) => path.index(*index),
        document::Segment::Key(key) if key.contains(['.', '/']) => path.key(key),
        document::Segment::Key(key) => path.field(key),
    })
}
