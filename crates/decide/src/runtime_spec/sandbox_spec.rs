//! Builds the spec of a pod sandbox.

use std::collections::{BTreeMap, HashSet};

use k8s_openapi::api::core::v1::{Container, ContainerPort};
use model::{DnsConfig, NodeSettings, Pod, PortMapping, Protocol, SandboxSpec, UserNamespace, labels};

use values::sysctl::dotted_name;

use crate::pipeline::start_limit::start_urgency;
use crate::pod_resources::resources::{overhead_resources, sandbox_resources};
use crate::runtime_spec::hosts_file::{hostname_and_domain, kernel_hostname};
use crate::runtime_spec::pod_paths::{PodPaths, pod_cgroup};
use crate::runtime_spec::security::sandbox_security;

#[derive(Clone, Debug)]
pub struct SandboxInputs<'a> {
    pub pod: &'a Pod,
    /// Number of earlier sandboxes of the pod.
    pub attempt: u32,
    pub settings: &'a NodeSettings,
    pub dns: Option<DnsConfig>,
    /// Empty for the default handler.
    pub runtime_handler: String,
    pub user_namespace: UserNamespace,
    /// Supplemental groups that the volumes add.
    pub volume_groups: &'a [i64],
}

/// # Errors
/// When the hostname or the security settings are invalid.
pub fn sandbox_spec(inputs: &SandboxInputs<'_>) -> Result<SandboxSpec, String> {
    let SandboxInputs { pod, settings, .. } = *inputs;
    Ok(SandboxSpec {
        name: pod.name().to_owned(),
        namespace: pod.namespace().to_owned(),
        uid: pod.uid.to_string(),
        attempt: inputs.attempt,
        hostname: hostname(pod, settings)?,
        log_directory: PodPaths::new(settings).log_dir(pod).to_string_lossy().into_owned(),
        dns: inputs.dns.clone(),
        port_mappings: pod.spec.containers.iter().flat_map(port_mappings).collect(),
        labels: sandbox_labels(pod),
        annotations: pod.metadata.annotations.clone().unwrap_or_default(),
        cgroup_parent: pod_cgroup(pod, settings),
        sysctls: sysctls(pod),
        security: sandbox_security(pod, inputs.user_namespace, inputs.volume_groups)?,
        resources: Some(sandbox_resources(pod, settings)),
        overhead: Some(overhead_resources(pod, settings)),
        runtime_handler: inputs.runtime_handler.clone(),
        urgency: start_urgency(pod),
    })
}

/// Empty for host network pods, which keep the node's hostname.
fn hostname(pod: &Pod, settings: &NodeSettings) -> Result<String, String> {
    if pod.is_host_network() {
        return Ok(String::new());
    }
    let (hostname, domain) = hostname_and_domain(pod, settings)?;
    kernel_hostname(pod, &hostname, &domain)
}

/// All ports of a container, with or without a host port; only the first of several with the same name.
fn port_mappings(container: &Container) -> Vec<PortMapping> {
    let mut names = HashSet::new();
    let ports = container.ports.iter().flatten();
    ports.filter(|port| names.insert(port_name(port))).map(port_mapping).collect()
}

/// The name of the port, or a key that identifies an unnamed port.
fn port_name(port: &ContainerPort) -> String {
    match port.name.as_deref().unwrap_or_default() {
        "" => format!(
            "{}-{}:{}:{}",
            port.protocol.as_deref().unwrap_or_default(),
            port.host_ip.as_deref().unwrap_or_default(),
            port.container_port,
            port.host_port.unwrap_or_default()
        ),
        name => name.to_owned(),
    }
}

fn port_mapping(port: &ContainerPort) -> PortMapping {
    PortMapping {
        protocol: match port.protocol.as_deref() {
            Some("UDP") => Protocol::Udp,
            Some("SCTP") => Protocol::Sctp,
            _ => Protocol::Tcp,
        },
        container_port: port.container_port,
        host_port: port.host_port.unwrap_or_default(),
        host_ip: port.host_ip.clone().unwrap_or_default(),
    }
}

/// The labels of the pod plus those that identify its sandbox.
pub fn sandbox_labels(pod: &Pod) -> BTreeMap<String, String> {
    let mut all = pod.metadata.labels.clone().unwrap_or_default();
    for (key, value) in [
        (labels::POD_NAME, pod.name()),
        (labels::POD_NAMESPACE, pod.namespace()),
        (labels::POD_UID, pod.uid.as_str()),
    ] {
        all.insert(key.to_owned(), value.to_owned());
    }
    all
}

fn sysctls(pod: &Pod) -> BTreeMap<String, String> {
    let sysctls = pod.spec.security_context.as_ref().and_then(|context| context.sysctls.as_ref());
    // Runtimes accept only the dotted form.
    sysctls.into_iter().flatten().map(|sysctl| (dotted_name(&sysctl.name), sysctl.value.clone())).collect()
}

#[cfg(test)]
mod tests;
