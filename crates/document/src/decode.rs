//! Documents into typed structs, with errors that name field and place.

use serde::de::DeserializeOwned;
use serde_ignored::Path as IgnoredPath;
use serde_path_to_error::{Path as SerdePath, Segment as SerdeSegment};

use crate::{
    path::{FieldPath, Segment},
    position::FieldError,
    tree::Document,
};

impl Document {
    /// Decodes the document; fields that `T` does not know are ignored.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, FieldError> {
        self.decode_at(&FieldPath::root())
    }

    /// Decodes the part of the document at a path; fields that `T` does not know are ignored.
    pub fn decode_at<T: DeserializeOwned>(&self, at: &FieldPath) -> Result<T, FieldError> {
        let part = self.part(at)?;
        decode_part(part, &mut |_| {}).map_err(|error| self.decode_error(at, error))
    }

    /// Decodes the document; fields that `T` does not know are errors.
    ///
    /// All unknown fields are reported at once, in the order of the text; a wrong value ends the search.
    pub fn decode_strict<T: DeserializeOwned>(&self) -> Result<T, Vec<FieldError>> {
        self.decode_strict_at(&FieldPath::root())
    }

    /// The same for the part of the document at a path.
    pub fn decode_strict_at<T: DeserializeOwned>(&self, at: &FieldPath) -> Result<T, Vec<FieldError>> {
        let part = self.part(at).map_err(|error| vec![error])?;
        let mut unknown = Vec::new();
        let mut note = |path: IgnoredPath<'_>| unknown.push(at.join(ignored_path(&path)));
        let decoded = decode_part(part, &mut note);
        let mut errors: Vec<FieldError> =
            unknown.into_iter().map(|path| self.field_error(path, "unknown field")).collect();
        errors.sort_by_key(|error| error.position);
        match decoded {
            Ok(value) if errors.is_empty() => Ok(value),
            Ok(_) => Err(errors),
            Err(error) => {
                errors.push(self.decode_error(at, error));
                Err(errors)
            }
        }
    }

    /// An error about a field of this document.
    pub fn field_error(&self, path: FieldPath, reason: impl Into<String>) -> FieldError {
        FieldError { position: self.position(&path), path, reason: reason.into() }
    }

    fn part(&self, at: &FieldPath) -> Result<&serde_json::Value, FieldError> {
        self.get(at).ok_or_else(|| self.field_error(at.clone(), "required field is missing"))
    }

    fn decode_error(
        &self,
        at: &FieldPath,
        error: serde_path_to_error::Error<serde_json::Error>,
    ) -> FieldError {
        let path = at.join(serde_path(error.path()));
        let reason = error.into_inner().to_string();
        // serde blames the struct; the author looks for the field.
        let missing = reason.strip_prefix("missing field `").and_then(|rest| rest.split_once('`'));
        match missing {
            Some((field, _)) => self.field_error(path.key(field), "required field is missing"),
            None => self.field_error(path, reason),
        }
    }
}

/// One way for all forms of decoding: the code for a type as large as a pod is there once.
fn decode_part<T: DeserializeOwned>(
    part: &serde_json::Value,
    mut note: &mut dyn FnMut(IgnoredPath<'_>),
) -> Result<T, serde_path_to_error::Error<serde_json::Error>> {
    serde_path_to_error::deserialize(serde_ignored::Deserializer::new(part, &mut note))
}

fn serde_path(path: &SerdePath) -> FieldPath {
    path.iter()
        .filter_map(|segment| match segment {
            SerdeSegment::Seq { index } => Some(Segment::Index(*index)),
            SerdeSegment::Map { key } => Some(Segment::Key(key.clone())),
            // Not a step of the text: the variant's name is a key that was visited as such.
            SerdeSegment::Enum { .. } | SerdeSegment::Unknown => None,
        })
        .collect()
}

fn ignored_path(path: &IgnoredPath<'_>) -> FieldPath {
    match path {
        IgnoredPath::Root => FieldPath::root(),
        IgnoredPath::Seq { parent, index } => ignored_path(parent).index(*index),
        IgnoredPath::Map { parent, key } => ignored_path(parent).key(key.as_str()),
        IgnoredPath::Some { parent }
        | IgnoredPath::NewtypeStruct { parent }
        | IgnoredPath::NewtypeVariant { parent } => ignored_path(parent),
    }
}
