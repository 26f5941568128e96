//! Rules for names, labels, annotations and owners.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::field::Field;
use super::formats;

/// Maximum total size of all annotation keys and values in bytes.
const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

pub(super) fn check(metadata: &ObjectMeta, at: &Field<'_>) {
    let name = metadata.name.as_deref().unwrap_or_default();
    at.field("name").required_format(name, formats::dns_subdomain);
    if let Some(prefix) = metadata.generate_name.as_deref().filter(|prefix| !prefix.is_empty()) {
        let stem = prefix.strip_suffix('-').unwrap_or(prefix);
        at.field("generateName").format(prefix, |_| formats::dns_subdomain(stem));
    }
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    at.field("namespace").required_format(namespace, formats::dns_label);
    at.field("generation").not_negative(metadata.generation.unwrap_or_default());
    check_labels(metadata.labels.as_ref(), &at.field("labels"));
    check_annotations(metadata.annotations.as_ref(), &at.field("annotations"));
    at.if_set("ownerReferences", &metadata.owner_references, |owners, at| check_owners(owners, at));
    for (at, name) in at.list("finalizers", &metadata.finalizers) {
        at.format(name, formats::qualified_name);
        if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name.as_str()) {
            at.invalid(name.as_str(), "name is neither a standard finalizer name nor fully qualified");
        }
    }
}

pub(super) fn check_labels(labels: Option<&BTreeMap<String, String>>, at: &Field<'_>) {
    for (key, value) in labels.into_iter().flatten() {
        at.key(key).format(key, formats::qualified_name);
        at.key(key).format(value, formats::label_value);
    }
}

fn check_annotations(annotations: Option<&BTreeMap<String, String>>, at: &Field<'_>) {
    let mut size = 0;
    for (key, value) in annotations.into_iter().flatten() {
        at.key(key).format(key, |key| formats::qualified_name(&key.to_lowercase()));
        size += key.len() + value.len();
    }
    if size > MAX_ANNOTATIONS_BYTES {
        at.too_long(MAX_ANNOTATIONS_BYTES);
    }
}

fn check_owners(owners: &[OwnerReference], at: &Field<'_>) {
    for (at, owner) in at.items(owners) {
        for (field, value) in [
            ("apiVersion", &owner.api_version),
            ("kind", &owner.kind),
            ("name", &owner.name),
            ("uid", &owner.uid),
        ] {
            if value.is_empty() {
                at.field(field).invalid("", "must not be empty");
            }
        }
    }
    if owners.iter().filter(|owner| owner.controller == Some(true)).count() > 1 {
        at.invalid(owners.len(), "only one reference can have controller set to true");
    }
}
