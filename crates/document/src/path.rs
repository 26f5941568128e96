//! The path of a field inside a document.

use std::fmt;

/// One step of a [`FieldPath`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Segment {
    Key(String),
    /// An item of a list, starting at 0.
    Index(usize),
}

/// The path from the root of a document to a field: `spec.containers[0].image`.
///
/// Keys with characters other than letters, digits, `-` and `_` are quoted: `metadata.labels["a.b/c"]`. Parsing a
/// printed path gives the same path.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath(Vec<Segment>);

impl FieldPath {
    /// The path of the document itself.
    pub fn root() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.0.push(Segment::Key(key.into()));
        self
    }

    #[must_use]
    pub fn index(mut self, index: usize) -> Self {
        self.0.push(Segment::Index(index));
        self
    }

    /// This path followed by the segments of another one.
    #[must_use]
    pub fn join(&self, below: Self) -> Self {
        let mut path = self.clone();
        path.0.extend(below.0);
        path
    }

    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The path of the mapping or list that contains this field; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        let (_, parents) = self.0.split_last()?;
        Some(Self(parents.to_vec()))
    }
}

impl FromIterator<Segment> for FieldPath {
    fn from_iter<I: IntoIterator<Item = Segment>>(segments: I) -> Self {
        Self(segments.into_iter().collect())
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Key(key) if !is_plain_key(key) => {
                    write!(f, "[{}]", serde_json::Value::from(key.as_str()))?;
                }
                Segment::Key(key) if depth == 0 => f.write_str(key)?,
                Segment::Key(key) => write!(f, ".{key}")?,
            }
        }
        Ok(())
    }
}

pub(crate) fn is_plain_key(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_printed_paths_back() {
        let table = [
            (FieldPath::root(), ""),
            (
                FieldPath::root().key("spec").key("containers").index(0).key("image"),
                "spec.containers[0].image",
            ),
            (FieldPath::root().key("metadata").key("labels").key("a.b/c"), r#"metadata.labels["a.b/c"]"#),
            (FieldPath::root().index(3).index(4), "[3][4]"),
            (FieldPath::root().key("").key("say \"]\""), r#"[""]["say \"]\""]"#),
        ];
        for (path, text) in table {
            assert_eq!(path.to_string(), text);
            assert_eq!(text.parse::<FieldPath>(), Ok(path));
        }
    }

    #[test]
    fn rejects_malformed_paths() {
        for text in [".a", "a..b", "a.", "a[", "a[x]", "a[\"x]", "a b", "a[0]b"] {
            assert!(text.parse::<FieldPath>().is_err(), "{text}");
        }
    }
}
