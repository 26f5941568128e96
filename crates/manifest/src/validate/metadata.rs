//! Names, labels, annotations and owners.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::checker::Checker;
use super::formats;
use crate::path::Path;

/// The total of all annotation keys and values.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// Checks an object's metadata.
pub(super) fn check(metadata: &ObjectMeta, check: &mut Checker) {
    let at = Path::root().field("metadata");
    let name = metadata.name.as_deref().unwrap_or_default();
    if check.require_text(&at.field("name"), name) {
        check.format(&at.field("name"), name, formats::dns_subdomain(name));
    }
    if let Some(prefix) = metadata.generate_name.as_deref().filter(|prefix| !prefix.is_empty()) {
        let stem = prefix.strip_suffix('-').unwrap_or(prefix);
        check.format(&at.field("generateName"), prefix, formats::dns_subdomain(stem));
    }
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    if check.require_text(&at.field("namespace"), namespace) {
        check.format(&at.field("namespace"), namespace, formats::dns_label(namespace));
    }
    check.not_negative(&at.field("generation"), metadata.generation.unwrap_or_default());
    labels(metadata.labels.as_ref(), &at.field("labels"), check);
    annotations(metadata.annotations.as_ref(), &at.field("annotations"), check);
    owners(metadata.owner_references.as_deref().unwrap_or_default(), &at.field("ownerReferences"), check);
    let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
    for (at, name) in at.field("finalizers").items(finalizers) {
        check.format(&at, name, formats::qualified_name(name));
        if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name.as_str()) {
            check.invalid(
                &at,
                name.as_str(),
                "name is neither a standard finalizer name nor fully qualified",
            );
        }
    }
}

/// Checks a map of labels.
pub(super) fn labels(labels: Option<&BTreeMap<String, String>>, at: &Path, check: &mut Checker) {
    for (key, value) in labels.into_iter().flatten() {
        check.format(&at.key(key), key, formats::qualified_name(key));
        check.format(&at.key(key), value, formats::label_value(value));
    }
}

fn annotations(annotations: Option<&BTreeMap<String, String>>, at: &Path, check: &mut Checker) {
    let mut size = 0;
    for (key, value) in annotations.into_iter().flatten() {
        check.format(&at.key(key), key, formats::qualified_name(&key.to_lowercase()));
        size += key.len() + value.len();
    }
    if size > ANNOTATIONS_LIMIT {
        check.too_long(at, ANNOTATIONS_LIMIT);
    }
}

fn owners(owners: &[OwnerReference], at: &Path, check: &mut Checker) {
    for (at, owner) in at.items(owners) {
        for (field, value) in [
            ("apiVersion", &owner.api_version),
            ("kind", &owner.kind),
            ("name", &owner.name),
            ("uid", &owner.uid),
        ] {
            if value.is_empty() {
                check.invalid(&at.field(field), "", "must not be empty");
            }
        }
    }
    if owners.iter().filter(|owner| owner.controller == Some(true)).count() > 1 {
        check.invalid(at, owners.len(), "only one reference can have controller set to true");
    }
}
