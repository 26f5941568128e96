//! The environment variables of a container.

mod env_file;
mod expansion;
pub(crate) mod fields;
mod objects;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, FileKeySelector};
use model::{NodeSettings, ObjectKind, Pod, ReadObjects};

pub use env_file::value_in_env_file;

pub use expansion::expand;

#[derive(Clone, Copy, Debug)]
pub struct EnvironmentInputs<'a> {
    pub pod: &'a Pod,
    /// As reported by the runtime.
    pub pod_ips: &'a [String],
    pub settings: &'a NodeSettings,
    pub sources: &'a EnvironmentSources,
}

/// Values from outside the pod, read before the environment is computed.
#[derive(Clone, Debug, Default)]
pub struct EnvironmentSources {
    /// ConfigMaps and Secrets; an object that is not in the map counts as missing.
    pub objects: ReadObjects,
    pub files: EnvFiles,
    /// Service variables; empty without a cluster.
    pub services: Vec<(String, String)>,
    /// Node addresses from the API server; if empty, the addresses in the settings are used.
    pub host_ips: Vec<IpAddr>,
}

/// By volume name and path.
pub type EnvFiles = BTreeMap<(String, String), EnvFile>;

#[derive(Clone, Debug)]
pub struct EnvFile {
    /// Host path, for error messages.
    pub path: PathBuf,
    /// The content, or why it could not be read.
    pub content: Result<Vec<u8>, String>,
}

/// The variables of a container: `envFrom`, then `env` in order of declaration, then services. A repeated name keeps its
/// first position and gets the last value; service variables never override others.
///
/// # Errors
/// When a source cannot be read; the message names the source.
pub fn environment(
    inputs: &EnvironmentInputs<'_>,
    container: &Container,
) -> Result<Vec<(String, String)>, String> {
    let mut variables: Vec<(String, String)> = Vec::new();
    for source in container.env_from.iter().flatten() {
        for (name, value) in objects::all(inputs, source)? {
            set(&mut variables, &name, value);
        }
    }
    for variable in container.env.iter().flatten() {
        if let Some(value) = value(inputs, container, variable, &variables)? {
            set(&mut variables, &variable.name, value);
        }
    }
    for (name, value) in &inputs.sources.services {
        if lookup(&variables, name).is_none() {
            variables.push((name.clone(), value.clone()));
        }
    }
    Ok(variables)
}

/// Volume name and path of every file that a `fileKeyRef` refers to.
pub fn env_files(container: &Container, settings: &NodeSettings) -> Vec<(String, String)> {
    if !settings.gates.env_files {
        return Vec::new();
    }
    let selectors = container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref());
    let files = selectors.filter_map(|source| source.file_key_ref.as_ref());
    files.map(|file| (file.volume_name.clone(), file.path.clone())).collect()
}

fn set(variables: &mut Vec<(String, String)>, name: &str, value: String) {
    match variables.iter_mut().find(|(existing, _)| existing == name) {
        Some((_, earlier)) => *earlier = value,
        None => variables.push((name.to_owned(), value)),
    }
}

/// At most one address per family, that of the node's primary address first.
pub(crate) fn ordered_pod_ips(pod_ips: &[String], node: Option<&IpAddr>) -> Vec<String> {
    let addresses: Vec<IpAddr> = pod_ips.iter().filter_map(|ip| ip.parse().ok()).collect();
    let is_primary = |ip: &IpAddr| ip.is_ipv4() == node.is_none_or(IpAddr::is_ipv4);
    let primary = addresses.iter().find(|ip| is_primary(ip));
    let secondary = addresses.iter().find(|ip| !is_primary(ip));
    primary.into_iter().chain(secondary).map(ToString::to_string).collect()
}

/// `None` when an optional source is missing.
fn value(
    inputs: &EnvironmentInputs<'_>,
    container: &Container,
    variable: &EnvVar,
    earlier: &[(String, String)],
) -> Result<Option<String>, String> {
    let text = variable.value.as_deref().unwrap_or_default();
    match &variable.value_from {
        Some(source) if text.is_empty() => value_from(inputs, container, source),
        _ => Ok(Some(expand(text, |name| {
            lookup(earlier, name).or_else(|| lookup(&inputs.sources.services, name))
        }))),
    }
}

fn value_from(
    inputs: &EnvironmentInputs<'_>,
    container: &Container,
    source: &EnvVarSource,
) -> Result<Option<String>, String> {
    if let Some(field) = &source.field_ref {
        return fields::pod_field(inputs, field).map(Some);
    }
    if let Some(field) = &source.resource_field_ref {
        return fields::resource_field(inputs, container, field).map(Some);
    }
    if let Some(reference) = &source.config_map_key_ref {
        let (name, key) = (&reference.name, &reference.key);
        return objects::value(inputs, ObjectKind::ConfigMap, name, key, reference.optional);
    }
    if let Some(reference) = &source.secret_key_ref {
        let (name, key) = (&reference.name, &reference.key);
        return objects::value(inputs, ObjectKind::Secret, name, key, reference.optional);
    }
    match &source.file_key_ref {
        Some(selector) if inputs.settings.gates.env_files => file_value(inputs, selector),
        Some(_) | None => Ok(Some(String::new())),
    }
}

/// A variable from an env file; an empty value counts as missing.
fn file_value(inputs: &EnvironmentInputs<'_>, selector: &FileKeySelector) -> Result<Option<String>, String> {
    let key = (selector.volume_name.clone(), selector.path.clone());
    let Some(file) = inputs.sources.files.get(&key) else {
        return Err(format!("cannot find the volume {:?} referenced by FileKeyRef", selector.volume_name));
    };
    let value = file
        .content
        .as_ref()
        .map_err(Clone::clone)
        .and_then(|content| value_in_env_file(content, &selector.key))
        .and_then(|value| String::from_utf8(value).map_err(|_| "the value is not UTF-8 text".to_owned()));
    let path = &file.path;
    match value {
        Ok(value) if !value.is_empty() => Ok(Some(value)),
        Ok(_) if selector.optional == Some(true) => Ok(None),
        Ok(_) => Err(missing_key_error(&selector.key, path)),
        Err(problem) => Err(format!("couldn't parse env file: {}: {problem}", path.display())),
    }
}

fn missing_key_error(key: &str, path: &Path) -> String {
    format!("environment variable key {key:?} not found in file {:?}", path.display().to_string())
}

pub(crate) fn lookup(variables: &[(String, String)], name: &str) -> Option<String> {
    variables.iter().find(|(existing, _)| existing == name).map(|(_, value)| value.clone())
}

#[cfg(test)]
mod tests;
