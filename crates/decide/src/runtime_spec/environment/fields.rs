//! Values of `fieldRef` and `resourceFieldRef`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, ObjectFieldSelector, ResourceFieldSelector};

use model::{NodeSettings, Pod, ResourceAmounts};
use values::quantity::Amount;

use super::{EnvironmentInputs, ordered_pod_ips};
use crate::cgroups::allocatable::allocatable;
use crate::go_text::quoted;
use crate::quantity::{amount_in, amount_of};

pub(super) fn pod_field(
    inputs: &EnvironmentInputs<'_>,
    field: &ObjectFieldSelector,
) -> Result<String, String> {
    let (pod, path) = (inputs.pod, field.field_path.as_str());
    let version = field.api_version.as_deref().unwrap_or("v1");
    if version != "v1" {
        return Err(format!("unsupported pod version: {version}"));
    }
    Ok(match path {
        "spec.nodeName" | "spec.host" => pod.spec.node_name.clone().unwrap_or_default(),
        "spec.serviceAccountName" => pod.spec.service_account_name.clone().unwrap_or_default(),
        "status.hostIP" => host_ips(inputs).into_iter().next().ok_or("the node has no address")?,
        "status.hostIPs" => host_ips(inputs).join(","),
        "status.podIP" => pod_ips(inputs).into_iter().next().unwrap_or_default(),
        "status.podIPs" => pod_ips(inputs).join(","),
        _ => return metadata_field(pod, path),
    })
}

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
        "metadata.annotations" => format_map(pod.metadata.annotations.as_ref()),
        "metadata.labels" => format_map(pod.metadata.labels.as_ref()),
        "metadata.name" => pod.name().to_owned(),
        "metadata.namespace" => pod.namespace().to_owned(),
        "metadata.uid" => pod.uid.to_string(),
        _ => return Err(format!("unsupported fieldPath: {path}")),
    })
}

/// A `resourceFieldRef` of an environment variable. A missing limit defaults to that of the pod, then to the node's
/// allocatable amount.
pub(super) fn resource_field(
    inputs: &EnvironmentInputs<'_>,
    container: &Container,
    field: &ResourceFieldSelector,
) -> Result<String, String> {
    let pod = inputs.pod;
    let (container, has_defaults) = match field.container_name.as_deref().unwrap_or_default() {
        "" => (container, true),
        // Upstream applies the defaults only to regular containers when another container is named.
        name => {
            let other = container_named(pod, name)?;
            (other, pod.spec.containers.iter().any(|regular| regular.name == name))
        }
    };
    let mut defaults =
        if has_defaults { allocatable(&inputs.settings.resources) } else { ResourceAmounts::new() };
    let of_pod = pod.spec.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    for (name, amount) in &mut defaults {
        let limit = amount_in(of_pod, name);
        match name.as_str() {
            "cpu" if !limit.is_zero() => *amount = limit.milli(),
            "memory" if !limit.is_zero() => *amount = limit.units(),
            _ => {}
        }
    }
    container_resource(container, field, &defaults)
}

/// A `resourceFieldRef` of a downward API file. A missing limit defaults to the node's allocatable amount.
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

/// The amount divided by the divisor, rounded up.
fn container_resource(
    container: &Container,
    field: &ResourceFieldSelector,
    defaults: &ResourceAmounts,
) -> Result<String, String> {
    let resources = container.resources.as_ref();
    let (amount, default, name) = match field.resource.split_once('.') {
        Some(("limits", name)) if is_supported_resource(name) => {
            let own = amount_in(resources.and_then(|resources| resources.limits.as_ref()), name);
            // Huge pages cannot be overcommitted, so their limit has no default.
            let default = defaults.get(name).filter(|_| own.is_zero() && !name.starts_with("hugepages-"));
            (own, default, name)
        }
        Some(("requests", name)) if is_supported_resource(name) => {
            (amount_in(resources.and_then(|resources| resources.requests.as_ref()), name), None, name)
        }
        _ => return Err(format!("unsupported container resource : {}", field.resource)),
    };
    let divisor = field.divisor.as_ref().map_or(Amount::ZERO, amount_of);
    let divisor = if divisor.is_zero() { Amount::from_units(1) } else { divisor };
    Ok(if name == "cpu" {
        divide_rounding_up(default.copied().unwrap_or_else(|| amount.milli()), divisor.milli())
    } else {
        divide_rounding_up(default.copied().unwrap_or_else(|| amount.units()), divisor.units())
    })
}

fn is_supported_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
}

fn divide_rounding_up(value: i64, divisor: i64) -> String {
    let (value, divisor) = (i128::from(value), i128::from(divisor.max(1)));
    (value / divisor + i128::from(value % divisor > 0)).to_string()
}

fn host_ips(inputs: &EnvironmentInputs<'_>) -> Vec<String> {
    let from_api = &inputs.sources.host_ips;
    let ips = if from_api.is_empty() { &inputs.settings.addresses } else { from_api };
    ips.iter().map(IpAddr::to_string).collect()
}

fn pod_ips(inputs: &EnvironmentInputs<'_>) -> Vec<String> {
    // Runtimes report no address for a host network pod.
    if inputs.pod_ips.is_empty() && inputs.pod.is_host_network() {
        return host_ips(inputs);
    }
    ordered_pod_ips(inputs.pod_ips, inputs.settings.addresses.first())
}

/// Splits `metadata.labels['a']` into `metadata.labels` and `a`.
fn subscript(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?.split_once("['").filter(|(list, _)| !list.is_empty())
}

/// One `key="value"` per line, sorted, with Go quoting.
fn format_map(map: Option<&BTreeMap<String, String>>) -> String {
    let lines: Vec<_> =
        map.into_iter().flatten().map(|(key, value)| format!("{key}={}", quoted(value))).collect();
    lines.join("\n")
}
