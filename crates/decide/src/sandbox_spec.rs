//! What the runtime is asked for to make a pod's sandbox.

use std::collections::{BTreeMap, HashSet};

use k8s_openapi::api::core::v1::{Container, ContainerPort};
use model::{DnsConfig, NodeSettings, Pod, PortMapping, Protocol, SandboxSpec, UserNamespace, labels};

use crate::admission::sysctls::normalized;
use crate::hosts_file::{hostname_and_domain, kernel_hostname};
use crate::pod_paths::{PodPaths, pod_cgroup};
use crate::resources::{overhead_resources, sandbox_resources};
use crate::security::sandbox_security;

/// Everything a sandbox's specification is made from.
#[derive(Clone, Debug)]
pub struct SandboxInputs<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// How many sandboxes the pod had before.
    pub attempt: u32,
    /// The node.
    pub settings: &'a NodeSettings,
    /// The pod's resolver configuration.
    pub dns: Option<DnsConfig>,
    /// The runtime handler of the pod's runtime class; empty is the default one.
    pub runtime_handler: String,
    /// Whose users the pod's users are.
    pub user_namespace: UserNamespace,
    /// Groups that the pod's volumes give to its containers.
    pub volume_groups: &'a [i64],
}

/// The specification of a pod's sandbox.
///
/// # Errors
/// When the pod's names or security settings cannot be followed.
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
    })
}

/// Pods in the host's network keep the node's hostname.
fn hostname(pod: &Pod, settings: &NodeSettings) -> Result<String, String> {
    if pod.is_host_network() {
        return Ok(String::new());
    }
    let (hostname, domain) = hostname_and_domain(pod, settings)?;
    kernel_hostname(pod, &hostname, &domain)
}

/// All ports of a container, with or without a host port; of those with the same name the first.
fn port_mappings(container: &Container) -> Vec<PortMapping> {
    let mut names = HashSet::new();
    let ports = container.ports.iter().flatten();
    ports.filter(|port| names.insert(port_name(port))).map(port_mapping).collect()
}

/// The port's name, or one made of all that may tell two unnamed ports apart.
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

/// The labels of a pod's sandbox: the pod's own, and those by which an agent knows it.
#[must_use]
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
    // Runtimes know them by their dots alone.
    sysctls.into_iter().flatten().map(|sysctl| (normalized(&sysctl.name), sysctl.value.clone())).collect()
}

#[cfg(test)]
mod tests;
