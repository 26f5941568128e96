//! The path of a field inside a document.

use std::{fmt, str::FromStr};

/// One step into a document.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Segment {
    /// A key of a mapping.
    Key(String),
    /// An item of a list, counted from 0.
    Index(usize),
}

/// The way from the root of a document to a field: `spec.containers[0].image`.
///
/// Keys that are not plain words are quoted: `metadata.labels["a.b/c"]`. Printing and parsing are inverse.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath(Vec<Segment>);

/// A text is not a field path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("parse field path {text:?}: {reason}")]
pub struct PathError {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl FieldPath {
    /// The document itself.
    pub fn root() -> Self {
        Self::default()
    }

    /// This path with a key appended.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.0.push(Segment::Key(key.into()));
        self
    }

    /// This path with an index appended.
    #[must_use]
    pub fn index(mut self, index: usize) -> Self {
        self.0.push(Segment::Index(index));
        self
    }

    /// This path followed by the steps of another one.
    #[must_use]
    pub fn join(&self, below: Self) -> Self {
        let mut path = self.clone();
        path.0.extend(below.0);
        path
    }

    /// The steps from the root.
    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// Whether this is the document itself.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The path of the mapping or list that holds this field; `None` for the root.
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
                Segment::Key(key) if !is_word(key) => {
                    write!(f, "[{}]", serde_json::Value::from(key.as_str()))?;
                }
                Segment::Key(key) if depth == 0 => f.write_str(key)?,
                Segment::Key(key) => write!(f, ".{key}")?,
            }
        }
        Ok(())
    }
}

impl FromStr for FieldPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let fail = |reason| PathError { text: text.to_owned(), reason };
        let mut path = Self::root();
        let mut rest = text;
        while !rest.is_empty() {
            let (segment, after) = if let Some(inner) = rest.strip_prefix('[') {
                bracketed(inner).map_err(fail)?
            } else {
                let word = match rest.strip_prefix('.') {
                    Some(word) if !path.is_root() => word,
                    None if path.is_root() => rest,
                    Some(_) | None => return Err(fail("a key starts with one dot, the first key with none")),
                };
                let end = word.find(['.', '[']).unwrap_or(word.len());
                let (word, after) = word.split_at(end);
                if !is_word(word) {
                    return Err(fail("such a key is written [\"key\"]"));
                }
                (Segment::Key(word.to_owned()), after)
            };
            path.0.push(segment);
            rest = after;
        }
        Ok(path)
    }
}

/// Reads `0]…` or `"key"]…`, returning what follows the bracket.
fn bracketed(inner: &str) -> Result<(Segment, &str), &'static str> {
    const OPEN: &str = "a bracket is not closed";
    if inner.starts_with('"') {
        let mut keys = serde_json::Deserializer::from_str(inner).into_iter::<String>();
        let key = keys.next().and_then(Result::ok).ok_or("a quoted key is not a JSON string")?;
        let after = inner.get(keys.byte_offset()..).and_then(|after| after.strip_prefix(']')).ok_or(OPEN)?;
        return Ok((Segment::Key(key), after));
    }
    let (index, after) = inner.split_once(']').ok_or(OPEN)?;
    let index = index.parse().map_err(|_| "an index is a number")?;
    Ok((Segment::Index(index), after))
}

fn is_word(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_and_parses_back() {
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
    fn refuses_what_is_not_a_path() {
        for text in [".a", "a..b", "a.", "a[", "a[x]", "a[\"x]", "a b", "a[0]b"] {
            assert!(text.parse::<FieldPath>().is_err(), "{text}");
        }
    }
}
