//! Rules for environment variables and for references to pod fields and container resources.

use k8s_openapi::api::core::v1::{
    Container, EnvFromSource, EnvVar, EnvVarSource, FileKeySelector, ObjectFieldSelector,
    ResourceFieldSelector,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;
use values::quantity::Quantity;

use super::checker::Checker;
use super::{Context, formats};
use crate::path::Path;

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

pub(super) fn check(container: &Container, context: &Context<'_>, path: &Path, checker: &mut Checker) {
    for (path, variable) in path.field("env").items(container.env.as_deref().unwrap_or_default()) {
        if checker.require_text(&path.field("name"), &variable.name) {
            checker.format(&path.field("name"), &variable.name, formats::env_name(&variable.name));
        }
        if let Some(source) = &variable.value_from {
            check_value_from(variable, source, context, &path.field("valueFrom"), checker);
        }
    }
    let sources = container.env_from.as_deref().unwrap_or_default();
    path.field("envFrom").items(sources).for_each(|(path, source)| check_env_from(source, &path, checker));
}

fn check_value_from(
    variable: &EnvVar,
    source: &EnvVarSource,
    context: &Context<'_>,
    path: &Path,
    checker: &mut Checker,
) {
    if let Some(field) = &source.field_ref {
        check_field_ref(field, &ENV_FIELDS, &path.field("fieldRef"), checker);
    }
    if let Some(resource) = &source.resource_field_ref {
        check_resource_field_ref(resource, &path.field("resourceFieldRef"), checker);
    }
    if let Some(selector) = &source.config_map_key_ref {
        check_key_ref(&selector.name, &selector.key, &path.field("configMapKeyRef"), checker);
    }
    if let Some(selector) = &source.secret_key_ref {
        check_key_ref(&selector.name, &selector.key, &path.field("secretKeyRef"), checker);
    }
    if let Some(selector) = &source.file_key_ref {
        check_file_key_ref(selector, context, &path.field("fileKeyRef"), checker);
    }
    let count = [
        source.field_ref.is_some(),
        source.resource_field_ref.is_some(),
        source.config_map_key_ref.is_some(),
        source.secret_key_ref.is_some(),
        source.file_key_ref.is_some(),
    ];
    match count.into_iter().filter(|is_set| *is_set).count() {
        0 => checker.invalid(
            path,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        ),
        _ if !variable.value.as_deref().unwrap_or_default().is_empty() => {
            checker.invalid(path, "", "may not be specified when `value` is not empty");
        }
        1 => {}
        _ => checker.invalid(path, "", "may not have more than one field specified at a time"),
    }
}

fn check_env_from(source: &EnvFromSource, path: &Path, checker: &mut Checker) {
    let prefix = source.prefix.as_deref().unwrap_or_default();
    checker.format(&path.field("prefix"), prefix, formats::env_name(prefix));
    let config_map = source.config_map_ref.as_ref().map(|source| ("configMapRef", &source.name));
    let secret = source.secret_ref.as_ref().map(|source| ("secretRef", &source.name));
    for (field, name) in [config_map, secret].into_iter().flatten() {
        let path = path.field(field).field("name");
        if checker.require_text(&path, name) {
            checker.format(&path, name, formats::dns_subdomain(name));
        }
    }
    match (config_map, secret) {
        (None, None) => checker.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"),
        (Some(_), Some(_)) => {
            checker.invalid(path, "", "may not have more than one field specified at a time");
        }
        (Some(_), None) | (None, Some(_)) => {}
    }
}

/// Checks a reference to a field of the pod; `allowed` lists the permitted fields.
pub(super) fn check_field_ref(
    field: &ObjectFieldSelector,
    allowed: &[&str],
    path: &Path,
    checker: &mut Checker,
) {
    let version = field.api_version.as_deref().unwrap_or_default();
    if version != "v1" {
        let detail = format!("error converting fieldPath: unsupported pod version: {version}");
        return checker.invalid(&path.field("fieldPath"), field.field_path.as_str(), &detail);
    }
    let pod_field = field.field_path.as_str();
    if !checker.require_text(&path.field("fieldPath"), pod_field) {
        return;
    }
    let subscript = pod_field.strip_suffix("']").and_then(|pod_field| pod_field.split_once("['"));
    match subscript.filter(|(field, _)| !field.is_empty()) {
        Some(("metadata.annotations", key)) => {
            checker.format(&path.field("fieldPath"), key, formats::qualified_name(&key.to_lowercase()));
        }
        Some(("metadata.labels", key)) => {
            checker.format(&path.field("fieldPath"), key, formats::qualified_name(key));
        }
        Some((field, _)) => checker.invalid(&path.field("fieldPath"), field, "does not support subscript"),
        // The former name of `spec.nodeName` in v1.
        None if pod_field == "spec.host" && allowed.contains(&"spec.nodeName") => {}
        None => checker.one_of(&path.field("fieldPath"), pod_field, allowed),
    }
}

pub(super) fn check_resource_field_ref(field: &ResourceFieldSelector, path: &Path, checker: &mut Checker) {
    let resource = field.resource.as_str();
    let name = resource.split_once('.').map_or("", |(_, name)| name);
    let is_huge_page =
        resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-");
    if checker.require_text(&path.field("resource"), resource) && !is_huge_page {
        checker.one_of(&path.field("resource"), resource, &RESOURCES);
    }
    let divisors: &[&str] = match name {
        "cpu" => &CPU_DIVISORS,
        "memory" | "ephemeral-storage" => &BYTE_DIVISORS,
        _ if is_huge_page => &BYTE_DIVISORS,
        _ => return,
    };
    check_divisor(field.divisor.as_ref(), name, divisors, &path.field("divisor"), checker);
}

fn check_divisor(
    divisor: Option<&QuantityText>,
    name: &str,
    allowed: &[&str],
    path: &Path,
    checker: &mut Checker,
) {
    let Some(Ok(quantity)) = divisor.map(|text| Quantity::parse_trimmed(&text.0)) else { return };
    let text = quantity.to_string();
    if !quantity.is_zero() && !allowed.contains(&text.as_str()) {
        let detail = format!("only {} are supported with {name}", allowed.join(", "));
        checker.invalid(path, text, &detail);
    }
}

fn check_key_ref(name: &str, key: &str, path: &Path, checker: &mut Checker) {
    checker.format(&path.field("name"), name, formats::dns_subdomain(name));
    if checker.require_text(&path.field("key"), key) {
        checker.format(&path.field("key"), key, formats::config_key(key));
    }
}

fn check_file_key_ref(selector: &FileKeySelector, context: &Context<'_>, path: &Path, checker: &mut Checker) {
    if checker.require_text(&path.field("key"), &selector.key) {
        checker.format(&path.field("key"), &selector.key, formats::env_name(&selector.key));
    }
    if checker.require_text(&path.field("path"), &selector.path) {
        checker.format(&path.field("path"), &selector.path, formats::path_without_backsteps(&selector.path));
    }
    let (name, path) = (selector.volume_name.as_str(), path.field("volumeName"));
    if !checker.require_text(&path, name) {
        return;
    }
    match context.volumes.get(name) {
        None => checker.not_found(&path, name),
        Some(volume) if volume.empty_dir.is_none() => {
            checker.invalid(&path, name, "referenced volume must be of type emptyDir");
        }
        Some(_) => {}
    }
}
