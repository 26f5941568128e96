//! Values from ConfigMaps and Secrets.

use k8s_openapi::api::core::v1::EnvFromSource;
use model::{ConfigObject, ObjectError, ObjectKey, ObjectKind};

use super::EnvironmentInputs;

/// `None` when the key is missing and optional.
pub(super) fn value(
    inputs: &EnvironmentInputs<'_>,
    kind: ObjectKind,
    name: &str,
    key: &str,
    optional: Option<bool>,
) -> Result<Option<String>, String> {
    let Some(object) = object(inputs, kind, name, optional)? else { return Ok(None) };
    match object.data.get(key) {
        Some(value) => text(object, key, value).map(Some),
        None if optional == Some(true) => Ok(None),
        None => {
            Err(format!("couldn't find key {key} in {} {}/{name}", kind.as_str(), inputs.pod.namespace()))
        }
    }
}

/// All variables of an `envFrom` source, with its prefix. The binary data of a ConfigMap is ignored.
pub(super) fn all(
    inputs: &EnvironmentInputs<'_>,
    source: &EnvFromSource,
) -> Result<Vec<(String, String)>, String> {
    let (kind, name, optional) = match (&source.config_map_ref, &source.secret_ref) {
        (Some(source), _) => (ObjectKind::ConfigMap, &source.name, source.optional),
        (None, Some(source)) => (ObjectKind::Secret, &source.name, source.optional),
        (None, None) => return Ok(Vec::new()),
    };
    let Some(object) = object(inputs, kind, name, optional)? else { return Ok(Vec::new()) };
    let prefix = source.prefix.as_deref().unwrap_or_default();
    let variable =
        |(key, value): (&String, &Vec<u8>)| Ok((format!("{prefix}{key}"), text(object, key, value)?));
    object.data.iter().map(variable).collect()
}

fn object<'a>(
    inputs: &EnvironmentInputs<'a>,
    kind: ObjectKind,
    name: &str,
    optional: Option<bool>,
) -> Result<Option<&'a ConfigObject>, String> {
    let key = ObjectKey { kind, namespace: inputs.pod.namespace().to_owned(), name: name.to_owned() };
    match inputs.sources.objects.get(&key) {
        Some(Ok(object)) => Ok(Some(object)),
        Some(Err(ObjectError::NotFound(_))) | None if optional == Some(true) => Ok(None),
        Some(Err(error)) => Err(error.to_string()),
        None => Err(ObjectError::NotFound(key).to_string()),
    }
}

/// The runtime accepts only UTF-8 text, and a NUL byte would truncate the environment of the process.
fn text(object: &ConfigObject, key: &str, value: &[u8]) -> Result<String, String> {
    let location =
        || format!("key {key} in {} {}/{}", object.key.kind.as_str(), object.key.namespace, object.key.name);
    match std::str::from_utf8(value) {
        Ok(text) if text.contains('\0') => Err(format!(
            "{} holds a NUL byte, which no environment variable can; mount it as a file",
            location()
        )),
        Ok(text) => Ok(text.to_owned()),
        Err(_) => {
            Err(format!("{} is not UTF-8 text, which a variable must be; mount it as a file", location()))
        }
    }
}
