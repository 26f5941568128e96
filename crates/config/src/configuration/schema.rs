//! Strict reading of a flat document into sections: which fields exist, and every error in one pass.

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
/// Fields of every Kubernetes object that belong to no section.
const TYPE_META: [&str; 2] = ["apiVersion", "kind"];

/// Reads all sections, taking wrong top-level fields out one by one so that all of them are reported.
///
/// The configuration holds what could be read; wrong fields have their defaults.
pub(super) fn read(document: &Document) -> (KubeletConfiguration, Vec<FieldError>) {
    let mut errors = unknown_fields(document);
    let mut document = document.clone();
    document.drop_nulls();
    if !document.value().is_object() {
        let error = document.field_error(FieldPath::root(), "a KubeletConfiguration is a mapping");
        return (KubeletConfiguration::default(), vec![error]);
    }
    loop {
        let (config, found) = KubeletConfiguration::read_sections(&document);
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

/// Reads one section; top-level fields it does not know are none of its business.
pub(super) fn read_section<T: DeserializeOwned>(document: &Document) -> Result<T, Vec<FieldError>> {
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

/// The field names a derived struct asks its deserializer for.
pub(super) fn field_names<T: DeserializeOwned>() -> &'static [&'static str] {
    match T::deserialize(Probe) {
        Err(Asked(names)) => names,
        Ok(_) => &[],
    }
}

/// A deserializer that answers nothing and only notes the names it is asked for.
struct Probe;

#[derive(Debug)]
struct Asked(&'static [&'static str]);

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl std::error::Error for Asked {}

impl de::Error for Asked {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self(&[])
    }
}

impl<'de> Deserializer<'de> for Probe {
    type Error = Asked;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Asked> {
        Err(Asked(&[]))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Asked> {
        Err(Asked(fields))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
