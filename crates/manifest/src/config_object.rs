//! Decodes, defaults and validates `ConfigMap` and `Secret` documents.
//!
//! Problems never contain values of a Secret, only the field and its key.

mod secret_types;

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

use crate::path::Segment;
use crate::problem::Problem;
use crate::validate::{self, Field, Report, Violations, formats};

/// Maximum total size of all values of an object in bytes.
const MAX_DATA_BYTES: usize = 1024 * 1024;

/// The kinds of objects that pods get values and files from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    ConfigMap,
    Secret,
}

/// A valid ConfigMap or Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigObject {
    pub kind: ObjectKind,
    /// `default` if not set.
    pub namespace: String,
    pub name: String,
    /// For a Secret: decoded, with `stringData` merged in.
    pub data: BTreeMap<String, Vec<u8>>,
    /// Decoded `binaryData` of a ConfigMap.
    pub binary_data: BTreeMap<String, Vec<u8>>,
    /// `type` of a Secret; `Opaque` if not set.
    pub secret_type: String,
    /// Whether the content must not change.
    pub immutable: bool,
    /// The line on which the object starts, from 1.
    pub line: usize,
}

impl ConfigObject {
    /// Whether the kind, namespace and name are the same.
    pub(crate) fn has_same_identity(&self, other: &Self) -> bool {
        (self.kind, &self.namespace, &self.name) == (other.kind, &other.namespace, &other.name)
    }
}

type StringMap = Option<BTreeMap<String, Option<String>>>;

/// The fields of a ConfigMap manifest.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConfigMapManifest {
    #[serde(default, rename = "apiVersion")]
    _api_version: Value,
    #[serde(default, rename = "kind")]
    _kind: Value,
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    data: StringMap,
    #[serde(default)]
    binary_data: StringMap,
    #[serde(default)]
    immutable: Option<bool>,
}

/// The fields of a Secret manifest.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SecretManifest {
    #[serde(default, rename = "apiVersion")]
    _api_version: Value,
    #[serde(default, rename = "kind")]
    _kind: Value,
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    data: StringMap,
    #[serde(default)]
    string_data: StringMap,
    #[serde(default, rename = "type")]
    secret_type: Option<String>,
    #[serde(default)]
    immutable: Option<bool>,
}

/// The name of an invalid object, if it has one, and its violations.
type InvalidObject = (Option<String>, Violations);

pub(crate) fn config_map(manifest: ConfigMapManifest) -> Result<ConfigObject, InvalidObject> {
    let report = Report::default();
    let at = report.root();
    let (namespace, name) = check_identity(manifest.metadata, &at);
    let data = plain_values(manifest.data);
    let binary_data =
        decode_base64_values(manifest.binary_data, "use data for plain text", &at.field("binaryData"));
    for key in data.keys().filter(|key| binary_data.contains_key(*key)) {
        at.field("data").key(key).invalid(key.as_str(), "duplicate of key present in binaryData");
    }
    check_keys(&data, &at.field("data"));
    check_keys(&binary_data, &at.field("binaryData"));
    check_total_size(data.values().chain(binary_data.values()), &at);
    let object = ConfigObject {
        kind: ObjectKind::ConfigMap,
        namespace,
        name,
        data,
        binary_data,
        secret_type: String::new(),
        immutable: manifest.immutable == Some(true),
        line: 0,
    };
    finish(object, report)
}

pub(crate) fn secret(manifest: SecretManifest) -> Result<ConfigObject, InvalidObject> {
    let report = Report::default();
    let at = report.root();
    let (namespace, name) = check_identity(manifest.metadata.clone(), &at);
    let mut data = decode_base64_values(manifest.data, "use stringData for plain text", &at.field("data"));
    check_keys(&data, &at.field("data"));
    let plain = plain_values(manifest.string_data);
    check_keys(&plain, &at.field("stringData"));
    data.extend(plain);
    check_total_size(data.values(), &at.field("data"));
    let explicit_type = manifest.secret_type.filter(|name| !name.is_empty());
    let secret_type = explicit_type.unwrap_or_else(|| "Opaque".to_owned());
    secret_types::check(&secret_type, &data, &manifest.metadata, &at);
    let object = ConfigObject {
        kind: ObjectKind::Secret,
        namespace,
        name,
        data,
        binary_data: BTreeMap::new(),
        secret_type,
        immutable: manifest.immutable == Some(true),
        line: 0,
    };
    finish(object, report)
}

/// Removes values, which may be secret, from decoding problems.
pub(crate) fn redact(mut problems: Vec<Problem>) -> Vec<Problem> {
    for problem in &mut problems {
        let depth = problem.path.segments().iter().position(|segment| {
            matches!(segment, Segment::Field(name) if matches!(name.as_str(), "data" | "stringData" | "binaryData"))
        });
        let Some(depth) = depth else { continue };
        let is_value = problem.path.segments().len() > depth + 1;
        let reason = if is_value { "must be a string; quote the value" } else { "must map keys to strings" };
        reason.clone_into(&mut problem.reason);
    }
    problems
}

fn check_identity(mut metadata: ObjectMeta, object: &Field<'_>) -> (String, String) {
    let namespace = metadata.namespace.get_or_insert_default();
    if namespace.is_empty() {
        "default".clone_into(namespace);
    }
    validate::check_object_metadata(&metadata, object);
    (metadata.namespace.unwrap_or_default(), metadata.name.unwrap_or_default())
}

fn plain_values(values: StringMap) -> BTreeMap<String, Vec<u8>> {
    let values = values.unwrap_or_default().into_iter();
    values.map(|(key, value)| (key, value.unwrap_or_default().into_bytes())).collect()
}

fn decode_base64_values(values: StringMap, hint: &str, at: &Field<'_>) -> BTreeMap<String, Vec<u8>> {
    let mut decoded = BTreeMap::new();
    for (key, value) in values.unwrap_or_default() {
        // YAML block scalars contain line breaks, which are not part of base64.
        let value: String = value.unwrap_or_default().chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
        match serde_json::from_value::<ByteString>(Value::String(value)) {
            Ok(bytes) => {
                decoded.insert(key, bytes.0);
            }
            Err(_) => at.key(&key).invalid("<contents redacted>", &format!("must be base64; {hint}")),
        }
    }
    decoded
}

fn check_keys(data: &BTreeMap<String, Vec<u8>>, at: &Field<'_>) {
    data.keys().for_each(|key| at.key(key).format(key, formats::config_key));
}

fn check_total_size<'a>(values: impl Iterator<Item = &'a Vec<u8>>, at: &Field<'_>) {
    if values.map(Vec::len).sum::<usize>() > MAX_DATA_BYTES {
        at.too_long(MAX_DATA_BYTES);
    }
}

fn finish(object: ConfigObject, report: Report) -> Result<ConfigObject, InvalidObject> {
    let violations = report.into_violations();
    if violations.is_empty() {
        return Ok(object);
    }
    Err((Some(object.name).filter(|name| !name.is_empty()), violations))
}

#[cfg(test)]
mod tests;
