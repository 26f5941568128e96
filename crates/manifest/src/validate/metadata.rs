//! Rules for names, labels, annotations and owners.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::checker::Checker;
use super::formats;
use crate::path::Path;

/// Maximum total size of all annotation keys and values in bytes.
const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

pub(super) fn check(metadata: &ObjectMeta, checker: &mut Checker) {
    let path = Path::root().field("metadata");
    let name = metadata.name.as_deref().unwrap_or_default();
    if checker.require_text(&path.field("name"), name) {
        checker.format(&path.field("name"), name, formats::dns_subdomain(name));
    }
    if let Some(prefix) = metadata.generate_name.as_deref().filter(|prefix| !prefix.is_empty()) {
        let stem = prefix.strip_suffix('-').unwrap_or(prefix);
        checker.format(&path.field("generateName"), prefix, formats::dns_subdomain(stem));
    }
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    if checker.require_text(&path.field("namespace"), namespace) {
        checker.format(&path.field("namespace"), namespace, formats::dns_label(namespace));
    }
    checker.not_negative(&path.field("generation"), metadata.generation.unwrap_or_default());
    check_labels(metadata.labels.as_ref(), &path.field("labels"), checker);
    check_annotations(metadata.annotations.as_ref(), &path.field("annotations"), checker);
    check_owners(
        metadata.owner_references.as_deref().unwrap_or_default(),
        &path.field("ownerReferences"),
        checker,
    );
    let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
    for (path, name) in path.field("finalizers").items(finalizers) {
        checker.format(&path, name, formats::qualified_name(name));
        if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name.as_str()) {
            checker.invalid(
                &path,
                name.as_str(),
                "name is neither a standard finalizer name nor fully qualified",
            );
        }
    }
}

pub(super) fn check_labels(labels: Option<&BTreeMap<String, String>>, path: &Path, checker: &mut Checker) {
    for (key, value) in labels.into_iter().flatten() {
        checker.format(&path.key(key), key, formats::qualified_name(key));
        checker.format(&path.key(key), value, formats::label_value(value));
    }
}

fn check_annotations(annotations: Option<&BTreeMap<String, String>>, path: &Path, checker: &mut Checker) {
    let mut size = 0;
    for (key, value) in annotations.into_iter().flatten() {
        checker.format(&path.key(key), key, formats::qualified_name(&key.to_lowercase()));
        size += key.len() + value.len();
    }
    if size > MAX_ANNOTATIONS_BYTES {
        checker.too_long(path, MAX_ANNOTATIONS_BYTES);
    }
}

fn check_owners(owners: &[OwnerReference], path: &Path, checker: &mut Checker) {
    for (path, owner) in path.items(owners) {
        for (field, value) in [
            ("apiVersion", &owner.api_version),
            ("kind", &owner.kind),
            ("name", &owner.name),
            ("uid", &owner.uid),
        ] {
            if value.is_empty() {
                checker.invalid(&path.field(field), "", "must not be empty");
            }
        }
    }
    if owners.iter().filter(|owner| owner.controller == Some(true)).count() > 1 {
        checker.invalid(path, owners.len(), "only one reference can have controller set to true");
    }
}
