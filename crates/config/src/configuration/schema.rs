//! Decodes a flat document strictly into sections and collects all errors.

use std::fmt;

use document::{Document, FieldError, FieldPath};
use serde::{
    Deserializer,
    de::{self, DeserializeOwned, Visitor},
    forward_to_deserialize_any,
};

use super::KubeletConfiguration;
use crate::suggestion;

const UNKNOWN: &str = "unknown field";
/// Fields of every Kubernetes object that are not part of a section.
const TYPE_META: [&str; 2] = ["apiVersion", "kind"];

/// Decodes all sections. Wrong top-level fields are removed and decoding is repeated, so that all of them are reported.
///
/// Wrong fields have their defaults in the returned configuration.
pub(super) fn decode(document: &Document) -> (KubeletConfiguration, Vec<FieldError>) {
    let mut errors = unknown_fields(document);
    let mut document = document.clone();
    document.drop_nulls();
    if !document.value().is_object() {
        let error = document.field_error(FieldPath::root(), "a KubeletConfiguration must be a mapping");
        return (KubeletConfiguration::default(), vec![error]);
    }
    loop {
        let (config, found) = KubeletConfiguration::decode_sections(&document);
        let removed = found.iter().filter(|error| remove_top_level(&mut document, error)).count();
        errors.extend(found);
        if removed == 0 {
            errors.sort_by_key(|error| error.position);
            return (config, errors);
        }
    }
}

fn unknown_fields(document: &Document) -> Vec<FieldError> {
    let known = KubeletConfiguration::field_names();
    let names = document.value().as_object().into_iter().flat_map(serde_json::Map::keys);
    let unknown = names.filter(|name| !known.contains(&name.as_str()) && !TYPE_META.contains(&name.as_str()));
    let error = |name: &String| {
        let near = suggestion::nearest(name, known.iter().copied());
        let hint = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
        document.field_error(FieldPath::root().key(name.as_str()), format!("{UNKNOWN}{hint}"))
    };
    unknown.map(error).collect()
}

fn remove_top_level(document: &mut Document, error: &FieldError) -> bool {
    let top: FieldPath = error.path.segments().iter().take(1).cloned().collect();
    document.remove(&top)
}

/// Decodes one section and ignores the top-level fields of other sections.
pub(super) fn decode_section<T: DeserializeOwned>(document: &Document) -> Result<T, Vec<FieldError>> {
    let mut errors = match document.decode_strict::<T>() {
        Ok(section) => return Ok(section),
        Err(errors) => errors,
    };
    errors.retain(|error| error.reason != UNKNOWN || error.path.segments().len() > 1);
    if !errors.is_empty() {
        return Err(errors);
    }
    document.decode().map_err(|error| vec![error])
}

/// The field names that a derived `Deserialize` passes to its deserializer.
pub(super) fn field_names<T: DeserializeOwned>() -> &'static [&'static str] {
    match T::deserialize(FieldNameProbe) {
        Err(FieldNames(names)) => names,
        Ok(_) => &[],
    }
}

/// A deserializer that fails with the field names it receives.
struct FieldNameProbe;

#[derive(Debug)]
struct FieldNames(&'static [&'static str]);

impl fmt::Display for FieldNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl std::error::Error for FieldNames {}

impl de::Error for FieldNames {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self(&[])
    }
}

impl<'de> Deserializer<'de> for FieldNameProbe {
    type Error = FieldNames;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, FieldNames> {
        Err(FieldNames(&[]))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, FieldNames> {
        Err(FieldNames(fields))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
