//! The environment of a container.

mod expansion;
mod fields;

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVar, EnvVarSource};
use model::{NodeSettings, Pod};

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
}

/// The variables of a container in the order they are declared. A name declared twice keeps its first place
/// and takes its last value. Without an API server there are no services, hence no variables for them.
///
/// # Errors
/// When a variable's source cannot be read; the text names variable and source.
pub fn environment(
    facts: &EnvironmentFacts<'_>,
    container: &Container,
) -> Result<Vec<(String, String)>, String> {
    for source in container.env_from.iter().flatten() {
        check_bulk_source(facts.pod, source)?;
    }
    let mut variables: Vec<(String, String)> = Vec::new();
    for variable in container.env.iter().flatten() {
        let Some(value) = value(facts, container, variable, &variables)? else { continue };
        match variables.iter_mut().find(|(name, _)| *name == variable.name) {
            Some((_, earlier)) => *earlier = value,
            None => variables.push((variable.name.clone(), value)),
        }
    }
    Ok(variables)
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
        Some(source) if text.is_empty() => value_from(facts, container, source)
            .map_err(|problem| format!("environment variable {:?}: {problem}", variable.name)),
        _ => Ok(Some(expand(text, |name| lookup(earlier, name)))),
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
        return absent(facts.pod, "configMap", &reference.name, reference.optional).map(|()| None);
    }
    if let Some(reference) = &source.secret_key_ref {
        return absent(facts.pod, "secret", &reference.name, reference.optional).map(|()| None);
    }
    if source.file_key_ref.is_some() {
        return Err("fileKeyRef is not supported yet".to_owned());
    }
    Ok(Some(String::new()))
}

fn check_bulk_source(pod: &Pod, source: &EnvFromSource) -> Result<(), String> {
    if let Some(reference) = &source.config_map_ref {
        absent(pod, "configMap", &reference.name, reference.optional)?;
    }
    if let Some(reference) = &source.secret_ref {
        absent(pod, "secret", &reference.name, reference.optional)?;
    }
    Ok(())
}

/// Objects of the API do not exist for an agent without one.
fn absent(pod: &Pod, kind: &str, name: &str, optional: Option<bool>) -> Result<(), String> {
    if optional == Some(true) {
        return Ok(());
    }
    Err(format!("couldn't get {kind} {}/{name}: no API server is configured", pod.namespace()))
}

/// The value of a variable by name.
pub(crate) fn lookup(variables: &[(String, String)], name: &str) -> Option<String> {
    variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
}

#[cfg(test)]
mod tests;
