//! `ConfigMap` and `Secret` documents: decode, default, validate.
//!
//! What a Secret holds never appears in a problem; the field and its key are enough to find it.

mod secret_types;

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

use crate::path::{Path, Segment};
use crate::problem::Problem;
use crate::validate::{self, Checker, Findings, formats};

/// All values of an object together.
const LARGEST: usize = 1024 * 1024;

/// The kinds of objects that pods take values and files from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    /// A `ConfigMap`.
    ConfigMap,
    /// A `Secret`.
    Secret,
}

/// A ConfigMap or a Secret, decoded and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigObject {
    /// Which of the two.
    pub kind: ObjectKind,
    /// Its namespace, `default` unless given.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// `data`; of a Secret decoded, with `stringData` merged in.
    pub data: BTreeMap<String, Vec<u8>>,
    /// `binaryData` of a ConfigMap, decoded.
    pub binary_data: BTreeMap<String, Vec<u8>>,
    /// `type` of a Secret, `Opaque` unless given.
    pub secret_type: String,
    /// Whether its content may never change.
    pub immutable: bool,
    /// The line of the text on which it starts, from 1.
    pub line: usize,
}

impl ConfigObject {
    /// Whether two objects have the same kind, namespace and name.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.kind, &self.namespace, &self.name) == (other.kind, &other.namespace, &other.name)
    }
}

type Texts = Option<BTreeMap<String, Option<String>>>;

/// A ConfigMap as written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConfigMapText {
    #[serde(default, rename = "apiVersion")]
    _api_version: Value,
    #[serde(default, rename = "kind")]
    _kind: Value,
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    data: Texts,
    #[serde(default)]
    binary_data: Texts,
    #[serde(default)]
    immutable: Option<bool>,
}

/// A Secret as written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SecretText {
    #[serde(default, rename = "apiVersion")]
    _api_version: Value,
    #[serde(default, rename = "kind")]
    _kind: Value,
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    data: Texts,
    #[serde(default)]
    string_data: Texts,
    #[serde(default, rename = "type")]
    secret_type: Option<String>,
    #[serde(default)]
    immutable: Option<bool>,
}

/// What is wrong with an object, and its name if it has one.
type Refusal = (Option<String>, Findings);

/// Checks a ConfigMap.
pub(crate) fn config_map(text: ConfigMapText) -> Result<ConfigObject, Refusal> {
    let mut check = Checker::default();
    let (namespace, name) = identity(text.metadata.clone(), &mut check);
    let data = plain(text.data);
    let binary_data = decoded(text.binary_data, "binaryData", &mut check);
    for key in data.keys().filter(|key| binary_data.contains_key(*key)) {
        let at = Path::root().field("data").key(key);
        check.invalid(&at, key.as_str(), "duplicate of key present in binaryData");
    }
    keys(&data, "data", &mut check);
    keys(&binary_data, "binaryData", &mut check);
    size(data.values().chain(binary_data.values()), &Path::root(), &mut check);
    let object = ConfigObject {
        kind: ObjectKind::ConfigMap,
        namespace,
        name,
        data,
        binary_data,
        secret_type: String::new(),
        immutable: text.immutable == Some(true),
        line: 0,
    };
    finish(object, check)
}

/// Checks a Secret.
pub(crate) fn secret(text: SecretText) -> Result<ConfigObject, Refusal> {
    let mut check = Checker::default();
    let (namespace, name) = identity(text.metadata.clone(), &mut check);
    let mut data = decoded(text.data, "data", &mut check);
    keys(&data, "data", &mut check);
    let plain = plain(text.string_data);
    keys(&plain, "stringData", &mut check);
    data.extend(plain);
    size(data.values(), &Path::root().field("data"), &mut check);
    let given = text.secret_type.filter(|name| !name.is_empty());
    let secret_type = given.unwrap_or_else(|| "Opaque".to_owned());
    secret_types::check(&secret_type, &data, &text.metadata, &mut check);
    let object = ConfigObject {
        kind: ObjectKind::Secret,
        namespace,
        name,
        data,
        binary_data: BTreeMap::new(),
        secret_type,
        immutable: text.immutable == Some(true),
        line: 0,
    };
    finish(object, check)
}

/// Problems of decoding without the values they speak of, which may be secret.
pub(crate) fn redacted(mut problems: Vec<Problem>) -> Vec<Problem> {
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

fn identity(mut metadata: ObjectMeta, check: &mut Checker) -> (String, String) {
    let namespace = metadata.namespace.get_or_insert_default();
    if namespace.is_empty() {
        "default".clone_into(namespace);
    }
    validate::object_metadata(&metadata, check);
    (metadata.namespace.unwrap_or_default(), metadata.name.unwrap_or_default())
}

fn plain(texts: Texts) -> BTreeMap<String, Vec<u8>> {
    let texts = texts.unwrap_or_default().into_iter();
    texts.map(|(key, text)| (key, text.unwrap_or_default().into_bytes())).collect()
}

fn decoded(texts: Texts, field: &str, check: &mut Checker) -> BTreeMap<String, Vec<u8>> {
    let mut values = BTreeMap::new();
    for (key, text) in texts.unwrap_or_default() {
        // Line breaks are no part of base64, and block scalars are full of them.
        let text: String = text.unwrap_or_default().chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
        match serde_json::from_value::<ByteString>(Value::String(text)) {
            Ok(bytes) => {
                values.insert(key, bytes.0);
            }
            Err(_) => {
                let hint = match field {
                    "data" => "; plain text belongs into stringData",
                    _ => "; plain text belongs into data",
                };
                let at = Path::root().field(field).key(&key);
                check.invalid(&at, "<contents redacted>", &format!("must be base64{hint}"));
            }
        }
    }
    values
}

fn keys(data: &BTreeMap<String, Vec<u8>>, field: &str, check: &mut Checker) {
    for key in data.keys() {
        check.format(&Path::root().field(field).key(key), key, formats::config_key(key));
    }
}

fn size<'a>(values: impl Iterator<Item = &'a Vec<u8>>, at: &Path, check: &mut Checker) {
    if values.map(Vec::len).sum::<usize>() > LARGEST {
        check.too_long(at, LARGEST);
    }
}

fn finish(object: ConfigObject, check: Checker) -> Result<ConfigObject, Refusal> {
    let findings = check.finish();
    if findings.is_empty() {
        return Ok(object);
    }
    Err((Some(object.name).filter(|name| !name.is_empty()), findings))
}

#[cfg(test)]
mod tests;
