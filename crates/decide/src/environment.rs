//! The environment of a container.

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

/// What the values of variables may come from.
#[derive(Clone, Copy, Debug)]
pub struct EnvironmentFacts<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// Its addresses as the runtime reported them.
    pub pod_ips: &'a [String],
    /// The node.
    pub settings: &'a NodeSettings,
    /// What was read from outside the pod.
    pub sources: &'a EnvironmentSources,
}

/// What was read for a container's environment from outside its pod.
#[derive(Clone, Debug, Default)]
pub struct EnvironmentSources {
    /// ConfigMaps and Secrets; one that was not asked for does not exist.
    pub objects: ReadObjects,
    /// Files that variables come from.
    pub files: EnvFiles,
    /// Variables for the services of the cluster; none without one.
    pub services: Vec<(String, String)>,
    /// The addresses that the API server shows of the node; those the agent found itself count without any.
    pub host_ips: Vec<IpAddr>,
}

/// Files of variables by volume and path.
pub type EnvFiles = BTreeMap<(String, String), EnvFile>;

/// A file of variables.
#[derive(Clone, Debug)]
pub struct EnvFile {
    /// Where it is on the host, for messages.
    pub place: PathBuf,
    /// What it holds, or why it could not be read.
    pub content: Result<Vec<u8>, String>,
}

/// The variables of a container: those of bulk sources, then its own in the order they are declared, then those of
/// services. A name given twice keeps its first place and takes its last value; services give way to all others.
///
/// # Errors
/// When a variable's source cannot be read; the text names variable and source.
pub fn environment(
    facts: &EnvironmentFacts<'_>,
    container: &Container,
) -> Result<Vec<(String, String)>, String> {
    let mut variables: Vec<(String, String)> = Vec::new();
    for source in container.env_from.iter().flatten() {
        for (name, value) in objects::all(facts, source)? {
            set(&mut variables, &name, value);
        }
    }
    for variable in container.env.iter().flatten() {
        if let Some(value) = value(facts, container, variable, &variables)? {
            set(&mut variables, &variable.name, value);
        }
    }
    for (name, value) in &facts.sources.services {
        if lookup(&variables, name).is_none() {
            variables.push((name.clone(), value.clone()));
        }
    }
    Ok(variables)
}

/// The files a container's variables come from, as volume and path.
#[must_use]
pub fn env_files(container: &Container, settings: &NodeSettings) -> Vec<(String, String)> {
    if !settings.gates.env_files {
        return Vec::new();
    }
    let selectors = container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref());
    let files = selectors.filter_map(|source| source.file_key_ref.as_ref());
    files.map(|file| (file.volume_name.clone(), file.path.clone())).collect()
}

fn set(variables: &mut Vec<(String, String)>, name: &str, value: String) {
    match variables.iter_mut().find(|(known, _)| known == name) {
        Some((_, earlier)) => *earlier = value,
        None => variables.push((name.to_owned(), value)),
    }
}

/// A pod's addresses as its containers see them: one per family, the node's primary family first.
#[must_use]
pub fn ordered_pod_ips(pod_ips: &[String], settings: &NodeSettings) -> Vec<String> {
    let addresses: Vec<IpAddr> = pod_ips.iter().filter_map(|ip| ip.parse().ok()).collect();
    let is_primary = |ip: &IpAddr| ip.is_ipv4() == settings.addresses.first().is_none_or(IpAddr::is_ipv4);
    let primary = addresses.iter().find(|ip| is_primary(ip));
    let secondary = addresses.iter().find(|ip| !is_primary(ip));
    primary.into_iter().chain(secondary).map(ToString::to_string).collect()
}

/// A variable's value, `None` when an optional source is absent.
fn value(
    facts: &EnvironmentFacts<'_>,
    container: &Container,
    variable: &EnvVar,
    earlier: &[(String, String)],
) -> Result<Option<String>, String> {
    let text = variable.value.as_deref().unwrap_or_default();
    match &variable.value_from {
        Some(source) if text.is_empty() => value_from(facts, container, source),
        _ => Ok(Some(expand(text, |name| {
            lookup(earlier, name).or_else(|| lookup(&facts.sources.services, name))
        }))),
    }
}

fn value_from(
    facts: &EnvironmentFacts<'_>,
    container: &Container,
    source: &EnvVarSource,
) -> Result<Option<String>, String> {
    if let Some(field) = &source.field_ref {
        return fields::pod_field(facts, field).map(Some);
    }
    if let Some(field) = &source.resource_field_ref {
        return fields::resource_field(facts, container, field).map(Some);
    }
    if let Some(reference) = &source.config_map_key_ref {
        let optional = reference.optional == Some(true);
        let (kind, name, key) = (ObjectKind::ConfigMap, &*reference.name, &*reference.key);
        return objects::value(facts, &objects::Selector { kind, name, key, optional });
    }
    if let Some(reference) = &source.secret_key_ref {
        let optional = reference.optional == Some(true);
        let (kind, name, key) = (ObjectKind::Secret, &*reference.name, &*reference.key);
        return objects::value(facts, &objects::Selector { kind, name, key, optional });
    }
    match &source.file_key_ref {
        Some(selector) if facts.settings.gates.env_files => file_value(facts, selector),
        Some(_) | None => Ok(Some(String::new())),
    }
}

/// A variable from a file of variables. An empty value counts as absent.
fn file_value(facts: &EnvironmentFacts<'_>, selector: &FileKeySelector) -> Result<Option<String>, String> {
    let key = (selector.volume_name.clone(), selector.path.clone());
    let Some(file) = facts.sources.files.get(&key) else {
        return Err(format!("cannot find the volume {:?} referenced by FileKeyRef", selector.volume_name));
    };
    let value = file
        .content
        .as_ref()
        .map_err(Clone::clone)
        .and_then(|content| value_in_env_file(content, &selector.key))
        .and_then(|value| String::from_utf8(value).map_err(|_| "the value is not UTF-8 text".to_owned()));
    let place = &file.place;
    match value {
        Ok(value) if !value.is_empty() => Ok(Some(value)),
        Ok(_) if selector.optional == Some(true) => Ok(None),
        Ok(_) => Err(absent_in_file(&selector.key, place)),
        Err(problem) => Err(format!("couldn't parse env file: {}: {problem}", place.display())),
    }
}

fn absent_in_file(key: &str, place: &Path) -> String {
    format!("environment variable key {key:?} not found in file {:?}", place.display().to_string())
}

/// The value of a variable by name.
pub(crate) fn lookup(variables: &[(String, String)], name: &str) -> Option<String> {
    variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
}

#[cfg(test)]
mod tests;
