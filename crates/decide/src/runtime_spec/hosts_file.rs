//! Hostname, domain and `/etc/hosts` of a pod.

use std::fmt::Write as _;

use k8s_openapi::api::core::v1::Container;
use model::{NodeSettings, Pod};

/// Path inside containers.
pub const HOSTS_PATH: &str = "/etc/hosts";

const MAX_HOSTNAME: usize = 63;
/// Limit of the kernel's `nodename`.
const MAX_KERNEL_HOSTNAME: usize = 64;
const MAX_LABEL: usize = 63;
const MAX_SUBDOMAIN: usize = 253;

const LOCAL_NAMES: &str = "\
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
";

/// Content of the pod's hosts file. A host network pod gets that of the node (`host_file`) plus its own aliases.
pub fn hosts_file(
    pod: &Pod,
    pod_ips: &[String],
    hostname: &str,
    domain: &str,
    host_file: Option<&str>,
) -> String {
    let mut content = String::new();
    if pod.is_host_network() {
        content.push_str("# Kubernetes-managed hosts file (host network).\n");
        content.push_str(host_file.unwrap_or_default());
    } else {
        content.push_str("# Kubernetes-managed hosts file.\n");
        content.push_str(LOCAL_NAMES);
        for ip in pod_ips {
            // Writing to a string cannot fail.
            let _ = if domain.is_empty() {
                writeln!(content, "{ip}\t{hostname}")
            } else {
                writeln!(content, "{ip}\t{hostname}.{domain}\t{hostname}")
            };
        }
    }
    let mut aliases = pod.spec.host_aliases.iter().flatten().peekable();
    if aliases.peek().is_some() {
        content.push_str("\n# Entries added by HostAliases.\n");
    }
    for alias in aliases {
        let names = alias.hostnames.as_deref().unwrap_or_default().join("\t");
        let _ = writeln!(content, "{}\t{names}", alias.ip);
    }
    content
}

/// Whether to mount the managed hosts file: only once the pod's address is known, and not over a volume of the
/// container.
pub fn needs_hosts_mount(pod: &Pod, container: &Container, pod_ips: &[String]) -> bool {
    (pod.is_host_network() || !pod_ips.is_empty()) && !mounts_over_hosts(container)
}

/// Whether the container mounts a volume at `/etc/hosts`.
pub(crate) fn mounts_over_hosts(container: &Container) -> bool {
    container.volume_mounts.iter().flatten().any(|mount| mount.mount_path == HOSTS_PATH)
}

/// The short hostname and the domain, which may be empty.
///
/// # Errors
/// When a name in the spec is not a valid DNS name.
pub fn hostname_and_domain(pod: &Pod, settings: &NodeSettings) -> Result<(String, String), String> {
    if let Some(name) = pod.spec.hostname_override.as_ref().filter(|_| settings.gates.hostname_override) {
        if !is_subdomain(name) {
            return Err(format!("pod HostnameOverride {name:?} is not a valid DNS subdomain"));
        }
        return Ok((truncate_hostname(name)?, String::new()));
    }
    let hostname = match pod.spec.hostname.as_deref().unwrap_or_default() {
        "" => pod.name(),
        name if is_label(name) => name,
        name => return Err(format!("pod Hostname {name:?} is not a valid DNS label")),
    };
    let domain = match pod.spec.subdomain.as_deref().unwrap_or_default() {
        "" => String::new(),
        name if is_label(name) => format!("{name}.{}.svc.{}", pod.namespace(), settings.cluster_domain),
        name => return Err(format!("pod Subdomain {name:?} is not a valid DNS label")),
    };
    Ok((truncate_hostname(hostname)?, domain))
}

/// The hostname in the UTS namespace: the short one, or the FQDN with `setHostnameAsFQDN`.
///
/// # Errors
/// When the FQDN is longer than the kernel allows.
pub fn kernel_hostname(pod: &Pod, hostname: &str, domain: &str) -> Result<String, String> {
    if domain.is_empty() || pod.spec.set_hostname_as_fqdn != Some(true) {
        return Ok(hostname.to_owned());
    }
    let full = format!("{hostname}.{domain}");
    if full.len() > MAX_KERNEL_HOSTNAME {
        return Err(format!(
            "failed to construct FQDN from pod hostname and cluster domain, FQDN {full} is too long \
             ({MAX_KERNEL_HOSTNAME} characters is the max, {} characters requested)",
            full.len()
        ));
    }
    Ok(full)
}

fn truncate_hostname(hostname: &str) -> Result<String, String> {
    if hostname.len() <= MAX_HOSTNAME {
        return Ok(hostname.to_owned());
    }
    let shortened = hostname.get(..MAX_HOSTNAME).unwrap_or_default().trim_end_matches(['-', '.']);
    if shortened.is_empty() {
        Err(format!("hostname {hostname:?} cannot be shortened"))
    } else {
        Ok(shortened.to_owned())
    }
}

fn is_subdomain(name: &str) -> bool {
    name.len() <= MAX_SUBDOMAIN && name.split('.').all(is_label_of_any_length)
}

fn is_label(name: &str) -> bool {
    name.len() <= MAX_LABEL && is_label_of_any_length(name)
}

fn is_label_of_any_length(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-')
}

#[cfg(test)]
mod tests;
