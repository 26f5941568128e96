//! Values taken from the pod: `fieldRef` and `resourceFieldRef`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, ObjectFieldSelector, ResourceFieldSelector};

use model::{NodeSettings, Pod, ResourceAmounts};

use super::{EnvironmentFacts, ordered_pod_ips};
use crate::allocatable::allocatable;
use crate::quantity::Amount;

/// The value of a field of the pod.
pub(super) fn pod_field(facts: &EnvironmentFacts<'_>, field: &ObjectFieldSelector) -> Result<String, String> {
    let (pod, path) = (facts.pod, field.field_path.as_str());
    let version = field.api_version.as_deref().unwrap_or("v1");
    if version != "v1" {
        return Err(format!("unsupported pod version: {version}"));
    }
    Ok(match path {
        "spec.nodeName" | "spec.host" => pod.spec.node_name.clone().unwrap_or_default(),
        "spec.serviceAccountName" => pod.spec.service_account_name.clone().unwrap_or_default(),
        "status.hostIP" => host_ips(facts).into_iter().next().ok_or("the node has no address")?,
        "status.hostIPs" => host_ips(facts).join(","),
        "status.podIP" => pod_ips(facts).into_iter().next().unwrap_or_default(),
        "status.podIPs" => pod_ips(facts).join(","),
        _ => return metadata_field(pod, path),
    })
}

/// The value of a field of the pod's metadata.
pub(crate) fn metadata_field(pod: &Pod, path: &str) -> Result<String, String> {
    if let Some((list, key)) = subscript(path) {
        let map = match list {
            "metadata.annotations" => &pod.metadata.annotations,
            "metadata.labels" => &pod.metadata.labels,
            _ => return Err(format!("fieldPath {path:?} does not support subscript")),
        };
        return Ok(map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default());
    }
    Ok(match path {
        "metadata.annotations" => listed(pod.metadata.annotations.as_ref()),
        "metadata.labels" => listed(pod.metadata.labels.as_ref()),
        "metadata.name" => pod.name().to_owned(),
        "metadata.namespace" => pod.namespace().to_owned(),
        "metadata.uid" => pod.uid.to_string(),
        _ => return Err(format!("unsupported fieldPath: {path}")),
    })
}

/// A resource of a container for its environment. Absent limits are the pod's, then what the node can give.
pub(super) fn resource_field(
    facts: &EnvironmentFacts<'_>,
    container: &Container,
    field: &ResourceFieldSelector,
) -> Result<String, String> {
    let pod = facts.pod;
    let (container, has_defaults) = match field.container_name.as_deref().unwrap_or_default() {
        "" => (container, true),
        // Upstream fills the limits of other containers in for regular ones only.
        name => {
            let other = container_named(pod, name)?;
            (other, pod.spec.containers.iter().any(|regular| regular.name == name))
        }
    };
    let mut defaults =
        if has_defaults { allocatable(&facts.settings.resources) } else { ResourceAmounts::new() };
    let of_pod = pod.spec.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    for (name, amount) in &mut defaults {
        let limit = Amount::in_list(of_pod, name);
        match name.as_str() {
            "cpu" if !limit.is_zero() => *amount = limit.milli(),
            "memory" if !limit.is_zero() => *amount = limit.units(),
            _ => {}
        }
    }
    container_resource(container, field, &defaults)
}

/// A resource of a container of a pod for a file. Absent limits are what the node can give.
pub(crate) fn resource_of_container(
    pod: &Pod,
    field: &ResourceFieldSelector,
    settings: &NodeSettings,
) -> Result<String, String> {
    let container = container_named(pod, field.container_name.as_deref().unwrap_or_default())?;
    container_resource(container, field, &allocatable(&settings.resources))
}

fn container_named<'a>(pod: &'a Pod, name: &str) -> Result<&'a Container, String> {
    let regular = pod.spec.containers.iter();
    let found = regular.chain(pod.spec.init_containers.iter().flatten()).find(|other| other.name == name);
    found.ok_or_else(|| format!("container {name} not found"))
}

/// A resource of a container, divided and rounded up.
fn container_resource(
    container: &Container,
    field: &ResourceFieldSelector,
    defaults: &ResourceAmounts,
) -> Result<String, String> {
    let resources = container.resources.as_ref();
    let (amount, default, name) = match field.resource.split_once('.') {
        Some(("limits", name)) if is_offered(name) => {
            let own = Amount::in_list(resources.and_then(|resources| resources.limits.as_ref()), name);
            // Huge pages are never shared out, so their limit is always given.
            let default = defaults.get(name).filter(|_| own.is_zero() && !name.starts_with("hugepages-"));
            (own, default, name)
        }
        Some(("requests", name)) if is_offered(name) => {
            (Amount::in_list(resources.and_then(|resources| resources.requests.as_ref()), name), None, name)
        }
        _ => return Err(format!("unsupported container resource : {}", field.resource)),
    };
    let divisor = field.divisor.as_ref().map_or(Amount::ZERO, Amount::of);
    let divisor = if divisor.is_zero() { Amount::whole(1) } else { divisor };
    Ok(if name == "cpu" {
        divided_up(default.copied().unwrap_or_else(|| amount.milli()), divisor.milli())
    } else {
        divided_up(default.copied().unwrap_or_else(|| amount.units()), divisor.units())
    })
}

fn is_offered(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
}

fn divided_up(value: i64, divisor: i64) -> String {
    let (value, divisor) = (i128::from(value), i128::from(divisor.max(1)));
    (value / divisor + i128::from(value % divisor > 0)).to_string()
}

fn host_ips(facts: &EnvironmentFacts<'_>) -> Vec<String> {
    let shown = &facts.sources.host_ips;
    let ips = if shown.is_empty() { &facts.settings.addresses } else { shown };
    ips.iter().map(IpAddr::to_string).collect()
}

fn pod_ips(facts: &EnvironmentFacts<'_>) -> Vec<String> {
    // Runtimes report no address for a pod in the host's network.
    if facts.pod_ips.is_empty() && facts.pod.is_host_network() {
        return host_ips(facts);
    }
    ordered_pod_ips(facts.pod_ips, facts.settings)
}

/// `metadata.labels['a']` as `metadata.labels` and `a`.
fn subscript(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?.split_once("['").filter(|(list, _)| !list.is_empty())
}

/// One `key="value"` per line, sorted, the values quoted as Go quotes them.
fn listed(map: Option<&BTreeMap<String, String>>) -> String {
    let lines: Vec<_> =
        map.into_iter().flatten().map(|(key, value)| format!("{key}={}", go_quoted(value))).collect();
    lines.join("\n")
}

fn go_quoted(text: &str) -> String {
    let mut out = String::from('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            ' '..='~' => out.push(character),
            '\0'..='\x7f' => out.push_str(&format!("\\x{:02x}", u32::from(character))),
            _ if is_printable(character) => out.push(character),
            '\u{80}'..='\u{ffff}' => out.push_str(&format!("\\u{:04x}", u32::from(character))),
            '\u{10000}'.. => out.push_str(&format!("\\U{:08x}", u32::from(character))),
        }
    }
    out.push('"');
    out
}

/// The standard library escapes what is not printable; behind a letter it leaves combining marks alone.
fn is_printable(character: char) -> bool {
    let text = String::from_iter(['a', character]);
    text.escape_debug().eq(text.chars())
}
