//! Paths of fields in an object, such as `spec.containers[0].resources.limits[cpu]`.

use std::fmt::{self, Display};

/// One step of a [`Path`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Segment {
    /// A field of an object, printed as `.name`.
    Field(String),
    /// An entry of a map, printed as `[key]`.
    Key(String),
    /// An item of a list, printed as `[3]`.
    Index(usize),
}

/// A path from the object's root; the empty path is the object itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Path(Vec<Segment>);

impl Path {
    pub(crate) fn root() -> Self {
        Self::default()
    }

    /// Appends a field, or several fields separated by dots.
    pub(crate) fn field(&self, name: &str) -> Self {
        self.with(name.split('.').map(|step| Segment::Field(step.to_owned())))
    }

    pub(crate) fn key(&self, key: &str) -> Self {
        self.with([Segment::Key(key.to_owned())])
    }

    pub(crate) fn index(&self, index: usize) -> Self {
        self.with([Segment::Index(index)])
    }

    fn with(&self, segments: impl IntoIterator<Item = Segment>) -> Self {
        Self(self.0.iter().cloned().chain(segments).collect())
    }

    /// The items of the list at this path, each with its path.
    pub(crate) fn items<'a, T>(&self, list: &'a [T]) -> impl Iterator<Item = (Self, &'a T)> + use<'a, T> {
        let path = self.clone();
        list.iter().enumerate().map(move |(index, item)| (path.index(index), item))
    }

    /// Prepends `prefix`.
    pub(crate) fn below(&self, prefix: &Self) -> Self {
        prefix.with(self.0.iter().cloned())
    }

    pub fn segments(&self) -> &[Segment] {
        &self.0
    }
}

impl Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Field(name) if position == 0 => f.write_str(name)?,
                Segment::Field(name) => write!(f, ".{name}")?,
                Segment::Key(key) => write!(f, "[{key}]")?,
                Segment::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_fields_keys_and_indexes() {
        let path =
            Path::root().field("spec.containers").index(2).field("resources.limits").key("example.com/gpu");
        assert_eq!(path.to_string(), "spec.containers[2].resources.limits[example.com/gpu]");
    }
}
