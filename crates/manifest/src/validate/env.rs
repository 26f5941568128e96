//! Environment variables, and the fields and resources they and files can show.

use k8s_openapi::api::core::v1::{
    Container, EnvFromSource, EnvVar, EnvVarSource, FileKeySelector, ObjectFieldSelector,
    ResourceFieldSelector,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;

use super::checker::Checker;
use super::{Context, formats};
use crate::path::Path;
use crate::quantity::Quantity;

const ENV_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const CPU_DIVISORS: [&str; 2] = ["1m", "1"];
const BYTE_DIVISORS: [&str; 13] =
    ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// Checks a container's environment.
pub(super) fn check(container: &Container, context: &Context<'_>, at: &Path, check: &mut Checker) {
    for (at, variable) in at.field("env").items(container.env.as_deref().unwrap_or_default()) {
        if check.require_text(&at.field("name"), &variable.name) {
            check.format(&at.field("name"), &variable.name, formats::env_name(&variable.name));
        }
        if let Some(source) = &variable.value_from {
            value_from(variable, source, context, &at.field("valueFrom"), check);
        }
    }
    let sources = container.env_from.as_deref().unwrap_or_default();
    at.field("envFrom").items(sources).for_each(|(at, source)| env_from(source, &at, check));
}

fn value_from(
    variable: &EnvVar,
    source: &EnvVarSource,
    context: &Context<'_>,
    at: &Path,
    check: &mut Checker,
) {
    if let Some(field) = &source.field_ref {
        field_ref(field, &ENV_FIELDS, &at.field("fieldRef"), check);
    }
    if let Some(resource) = &source.resource_field_ref {
        resource_field_ref(resource, &at.field("resourceFieldRef"), check);
    }
    if let Some(selector) = &source.config_map_key_ref {
        key_ref(&selector.name, &selector.key, &at.field("configMapKeyRef"), check);
    }
    if let Some(selector) = &source.secret_key_ref {
        key_ref(&selector.name, &selector.key, &at.field("secretKeyRef"), check);
    }
    if let Some(selector) = &source.file_key_ref {
        file_key_ref(selector, context, &at.field("fileKeyRef"), check);
    }
    let count = [
        source.field_ref.is_some(),
        source.resource_field_ref.is_some(),
        source.config_map_key_ref.is_some(),
        source.secret_key_ref.is_some(),
        source.file_key_ref.is_some(),
    ];
    match count.into_iter().filter(|is_set| *is_set).count() {
        0 => check.invalid(
            at,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        ),
        _ if !variable.value.as_deref().unwrap_or_default().is_empty() => {
            check.invalid(at, "", "may not be specified when `value` is not empty");
        }
        1 => {}
        _ => check.invalid(at, "", "may not have more than one field specified at a time"),
    }
}

fn env_from(source: &EnvFromSource, at: &Path, check: &mut Checker) {
    let prefix = source.prefix.as_deref().unwrap_or_default();
    check.format(&at.field("prefix"), prefix, formats::env_name(prefix));
    let config_map = source.config_map_ref.as_ref().map(|source| ("configMapRef", &source.name));
    let secret = source.secret_ref.as_ref().map(|source| ("secretRef", &source.name));
    for (field, name) in [config_map, secret].into_iter().flatten() {
        let at = at.field(field).field("name");
        if check.require_text(&at, name) {
            check.format(&at, name, formats::dns_subdomain(name));
        }
    }
    match (config_map, secret) {
        (None, None) => check.invalid(at, "", "must specify one of: `configMapRef` or `secretRef`"),
        (Some(_), Some(_)) => check.invalid(at, "", "may not have more than one field specified at a time"),
        (Some(_), None) | (None, Some(_)) => {}
    }
}

/// Checks a reference to a field of the pod; `allowed` lists the fields that can be shown here.
pub(super) fn field_ref(field: &ObjectFieldSelector, allowed: &[&str], at: &Path, check: &mut Checker) {
    let version = field.api_version.as_deref().unwrap_or_default();
    if version != "v1" {
        let detail = format!("error converting fieldPath: unsupported pod version: {version}");
        return check.invalid(&at.field("fieldPath"), field.field_path.as_str(), &detail);
    }
    let path = field.field_path.as_str();
    if !check.require_text(&at.field("fieldPath"), path) {
        return;
    }
    let subscript = path.strip_suffix("']").and_then(|path| path.split_once("['"));
    match subscript.filter(|(field, _)| !field.is_empty()) {
        Some(("metadata.annotations", key)) => {
            check.format(&at.field("fieldPath"), key, formats::qualified_name(&key.to_lowercase()));
        }
        Some(("metadata.labels", key)) => {
            check.format(&at.field("fieldPath"), key, formats::qualified_name(key));
        }
        Some((field, _)) => check.invalid(&at.field("fieldPath"), field, "does not support subscript"),
        // The name that v1 had for the node's name.
        None if path == "spec.host" && allowed.contains(&"spec.nodeName") => {}
        None => check.one_of(&at.field("fieldPath"), path, allowed),
    }
}

/// Checks a reference to a container's resource.
pub(super) fn resource_field_ref(field: &ResourceFieldSelector, at: &Path, check: &mut Checker) {
    let resource = field.resource.as_str();
    let name = resource.split_once('.').map_or("", |(_, name)| name);
    let is_huge_page =
        resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-");
    if check.require_text(&at.field("resource"), resource) && !is_huge_page {
        check.one_of(&at.field("resource"), resource, &RESOURCES);
    }
    let divisors: &[&str] = match name {
        "cpu" => &CPU_DIVISORS,
        "memory" | "ephemeral-storage" => &BYTE_DIVISORS,
        _ if is_huge_page => &BYTE_DIVISORS,
        _ => return,
    };
    divisor(field.divisor.as_ref(), name, divisors, &at.field("divisor"), check);
}

fn divisor(divisor: Option<&QuantityText>, name: &str, allowed: &[&str], at: &Path, check: &mut Checker) {
    let Some(Ok(quantity)) = divisor.map(|text| Quantity::parse(&text.0)) else { return };
    let text = quantity.to_string();
    if quantity.nanos() != 0 && !allowed.contains(&text.as_str()) {
        let detail = format!("only {} are supported with {name}", allowed.join(", "));
        check.invalid(at, text, &detail);
    }
}

fn key_ref(name: &str, key: &str, at: &Path, check: &mut Checker) {
    check.format(&at.field("name"), name, formats::dns_subdomain(name));
    if check.require_text(&at.field("key"), key) {
        check.format(&at.field("key"), key, formats::config_key(key));
    }
}

fn file_key_ref(selector: &FileKeySelector, context: &Context<'_>, at: &Path, check: &mut Checker) {
    if check.require_text(&at.field("key"), &selector.key) {
        check.format(&at.field("key"), &selector.key, formats::env_name(&selector.key));
    }
    if check.require_text(&at.field("path"), &selector.path) {
        check.format(&at.field("path"), &selector.path, formats::no_backsteps(&selector.path));
    }
    let (name, at) = (selector.volume_name.as_str(), at.field("volumeName"));
    if !check.require_text(&at, name) {
        return;
    }
    match context.volumes.get(name) {
        None => check.not_found(&at, name),
        Some(volume) if volume.empty_dir.is_none() => {
            check.invalid(&at, name, "referenced volume must be of type emptyDir");
        }
        Some(_) => {}
    }
}
