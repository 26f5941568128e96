//! Decodes documents into typed structs, with errors that name the field and its position.

use serde::de::DeserializeOwned;
use serde_ignored::Path as IgnoredPath;
use serde_path_to_error::{Path as SerdePath, Segment as SerdeSegment};

use crate::{
    path::{FieldPath, Segment},
    position::FieldError,
    tree::Document,
};

impl Document {
    /// Decodes the document and ignores fields that `T` does not have.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, FieldError> {
        self.decode_at(&FieldPath::root())
    }

    /// Decodes the part of the document at a path and ignores fields that `T` does not have.
    pub fn decode_at<T: DeserializeOwned>(&self, base: &FieldPath) -> Result<T, FieldError> {
        let part = self.part(base)?;
        decode_part(part, &mut |_| {}).map_err(|error| self.decode_error(base, error))
    }

    /// Decodes the document; fields that `T` does not have are errors.
    ///
    /// All unknown fields up to the first wrong value are reported together, in the order of the text.
    pub fn decode_strict<T: DeserializeOwned>(&self) -> Result<T, Vec<FieldError>> {
        self.decode_strict_at(&FieldPath::root())
    }

    /// Like [`Self::decode_strict`], for the part of the document at a path.
    pub fn decode_strict_at<T: DeserializeOwned>(&self, base: &FieldPath) -> Result<T, Vec<FieldError>> {
        let part = self.part(base).map_err(|error| vec![error])?;
        let mut unknown = Vec::new();
        let mut on_unknown = |path: IgnoredPath<'_>| unknown.push(base.join(ignored_path(&path)));
        let decoded = decode_part(part, &mut on_unknown);
        let mut errors: Vec<FieldError> =
            unknown.into_iter().map(|path| self.field_error(path, "unknown field")).collect();
        errors.sort_by_key(|error| error.position);
        match decoded {
            Ok(value) if errors.is_empty() => Ok(value),
            Ok(_) => Err(errors),
            Err(error) => {
                errors.push(self.decode_error(base, error));
                Err(errors)
            }
        }
    }

    pub fn field_error(&self, path: FieldPath, reason: impl Into<String>) -> FieldError {
        FieldError { position: self.position(&path), path, reason: reason.into() }
    }

    fn part(&self, base: &FieldPath) -> Result<&serde_json::Value, FieldError> {
        self.get(base).ok_or_else(|| self.field_error(base.clone(), "required field is missing"))
    }

    fn decode_error(
        &self,
        base: &FieldPath,
        error: serde_path_to_error::Error<serde_json::Error>,
    ) -> FieldError {
        let path = base.join(serde_path(error.path()));
        let reason = error.into_inner().to_string();
        // serde reports the struct; the path of the missing field is more useful to the author.
        let missing = reason.strip_prefix("missing field `").and_then(|rest| rest.split_once('`'));
        match missing {
            Some((field, _)) => self.field_error(path.key(field), "required field is missing"),
            None => self.field_error(path, reason),
        }
    }
}

/// Shared by all forms of decoding, so that the code for a type as large as a pod is generated only once.
fn decode_part<T: DeserializeOwned>(
    part: &serde_json::Value,
    mut on_unknown: &mut dyn FnMut(IgnoredPath<'_>),
) -> Result<T, serde_path_to_error::Error<serde_json::Error>> {
    serde_path_to_error::deserialize(serde_ignored::Deserializer::new(part, &mut on_unknown))
}

fn serde_path(path: &SerdePath) -> FieldPath {
    path.iter()
        .filter_map(|segment| match segment {
            SerdeSegment::Seq { index } => Some(Segment::Index(*index)),
            SerdeSegment::Map { key } => Some(Segment::Key(key.clone())),
            // Not a step in the text: the name of the variant was already visited as a key.
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
