//! Rules for environment variables and for references to pod fields and container resources.

use k8s_openapi::api::core::v1::{
    Container, EnvFromSource, EnvVar, EnvVarSource, FileKeySelector, ObjectFieldSelector,
    ResourceFieldSelector,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;
use values::quantity::Quantity;

use super::field::Field;
use super::{Context, formats};

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

pub(super) fn check(container: &Container, context: &Context<'_>, at: &Field<'_>) {
    for (at, variable) in at.list("env", &container.env) {
        at.field("name").required_format(&variable.name, formats::env_name);
        at.if_set("valueFrom", &variable.value_from, |source, at| {
            check_value_from(variable, source, context, at);
        });
    }
    at.list("envFrom", &container.env_from).for_each(|(at, source)| check_env_from(source, &at));
}

fn check_value_from(variable: &EnvVar, source: &EnvVarSource, context: &Context<'_>, at: &Field<'_>) {
    at.if_set("fieldRef", &source.field_ref, |field, at| check_field_ref(field, &ENV_FIELDS, at));
    at.if_set("resourceFieldRef", &source.resource_field_ref, check_resource_field_ref);
    at.if_set("configMapKeyRef", &source.config_map_key_ref, |own, at| {
        check_key_ref(&own.name, &own.key, at);
    });
    at.if_set("secretKeyRef", &source.secret_key_ref, |own, at| check_key_ref(&own.name, &own.key, at));
    at.if_set("fileKeyRef", &source.file_key_ref, |selector, at| check_file_key_ref(selector, context, at));
    let count = [
        source.field_ref.is_some(),
        source.resource_field_ref.is_some(),
        source.config_map_key_ref.is_some(),
        source.secret_key_ref.is_some(),
        source.file_key_ref.is_some(),
    ];
    match count.into_iter().filter(|is_set| *is_set).count() {
        0 => at.invalid("", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"),
        _ if !variable.value.as_deref().unwrap_or_default().is_empty() => {
            at.invalid("", "may not be specified when `value` is not empty");
        }
        1 => {}
        _ => at.invalid("", "may not have more than one field specified at a time"),
    }
}

fn check_env_from(source: &EnvFromSource, at: &Field<'_>) {
    let prefix = source.prefix.as_deref().unwrap_or_default();
    at.field("prefix").format(prefix, formats::env_name);
    let config_map = source.config_map_ref.as_ref().map(|source| ("configMapRef", &source.name));
    let secret = source.secret_ref.as_ref().map(|source| ("secretRef", &source.name));
    for (field, name) in [config_map, secret].into_iter().flatten() {
        at.field(field).field("name").required_format(name, formats::dns_subdomain);
    }
    match (config_map, secret) {
        (None, None) => at.invalid("", "must specify one of: `configMapRef` or `secretRef`"),
        (Some(_), Some(_)) => {
            at.invalid("", "may not have more than one field specified at a time");
        }
        (Some(_), None) | (None, Some(_)) => {}
    }
}

/// Checks a reference to a field of the pod; `allowed` lists the permitted fields.
pub(super) fn check_field_ref(field: &ObjectFieldSelector, allowed: &[&str], at: &Field<'_>) {
    let (pod_field, at) = (field.field_path.as_str(), at.field("fieldPath"));
    let version = field.api_version.as_deref().unwrap_or_default();
    if version != "v1" {
        return at
            .invalid(pod_field, &format!("error converting fieldPath: unsupported pod version: {version}"));
    }
    if !at.require(pod_field) {
        return;
    }
    let subscript = pod_field.strip_suffix("']").and_then(|pod_field| pod_field.split_once("['"));
    match subscript.filter(|(field, _)| !field.is_empty()) {
        Some(("metadata.annotations", key)) => {
            at.format(key, |key| formats::qualified_name(&key.to_lowercase()));
        }
        Some(("metadata.labels", key)) => at.format(key, formats::qualified_name),
        Some((field, _)) => at.invalid(field, "does not support subscript"),
        // The former name of `spec.nodeName` in v1.
        None if pod_field == "spec.host" && allowed.contains(&"spec.nodeName") => {}
        None => at.one_of(pod_field, allowed),
    }
}

pub(super) fn check_resource_field_ref(field: &ResourceFieldSelector, at: &Field<'_>) {
    let resource = field.resource.as_str();
    let name = resource.split_once('.').map_or("", |(_, name)| name);
    let is_huge_page =
        resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-");
    if at.field("resource").require(resource) && !is_huge_page {
        at.field("resource").one_of(resource, &RESOURCES);
    }
    let divisors: &[&str] = match name {
        "cpu" => &CPU_DIVISORS,
        "memory" | "ephemeral-storage" => &BYTE_DIVISORS,
        _ if is_huge_page => &BYTE_DIVISORS,
        _ => return,
    };
    check_divisor(field.divisor.as_ref(), name, divisors, &at.field("divisor"));
}

fn check_divisor(divisor: Option<&QuantityText>, name: &str, allowed: &[&str], at: &Field<'_>) {
    let Some(Ok(quantity)) = divisor.map(|text| Quantity::parse_trimmed(&text.0)) else { return };
    let text = quantity.to_string();
    if !quantity.is_zero() && !allowed.contains(&text.as_str()) {
        let detail = format!("only {} are supported with {name}", allowed.join(", "));
        at.invalid(text, &detail);
    }
}

fn check_key_ref(name: &str, key: &str, at: &Field<'_>) {
    at.field("name").format(name, formats::dns_subdomain);
    at.field("key").required_format(key, formats::config_key);
}

fn check_file_key_ref(selector: &FileKeySelector, context: &Context<'_>, at: &Field<'_>) {
    at.field("key").required_format(&selector.key, formats::env_name);
    at.field("path").required_format(&selector.path, formats::path_without_backsteps);
    let (name, at) = (selector.volume_name.as_str(), at.field("volumeName"));
    if !at.require(name) {
        return;
    }
    match context.volumes.get(name) {
        None => at.not_found(name),
        Some(volume) if volume.empty_dir.is_none() => {
            at.invalid(name, "referenced volume must be of type emptyDir");
        }
        Some(_) => {}
    }
}
