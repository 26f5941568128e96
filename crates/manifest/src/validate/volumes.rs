//! Rules for volumes: names, exactly one source, and sources on the node.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, EmptyDirVolumeSource, EphemeralVolumeSource, HostPathVolumeSource, KeyToPath,
    PersistentVolumeClaimSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use values::quantity::Quantity;

use super::checker::Checker;
use super::{Context, affinity, containers, env, formats, metadata, projected, storage};
use crate::path::Path;
use crate::volume;

const DOWNWARD_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

pub(super) fn check(context: &Context<'_>, pod_name: &str, checker: &mut Checker) {
    let volumes = context.spec.volumes.as_deref().unwrap_or_default();
    let claims_of_pod: BTreeSet<String> = volumes
        .iter()
        .filter(|volume| volume.ephemeral.is_some())
        .map(|volume| format!("{pod_name}-{}", volume.name))
        .collect();
    let mut names = BTreeSet::new();
    for (path, volume) in Path::root().field("spec.volumes").items(volumes) {
        if checker.require_text(&path.field("name"), &volume.name) {
            checker.format(&path.field("name"), &volume.name, formats::dns_label(&volume.name));
            if !names.insert(&volume.name) {
                checker.duplicate(&path.field("name"), &volume.name);
            }
        }
        check_one_source(volume, &path, checker);
        check_local_source(volume, &path, checker);
        storage::check(volume, &path, checker);
        let claim = volume.persistent_volume_claim.as_ref().map(|claim| claim.claim_name.as_str());
        if let Some(claim) = claim.filter(|claim| claims_of_pod.contains(*claim)) {
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            checker.invalid(&path.field("persistentVolumeClaim.claimName"), claim, detail);
        }
    }
    check_tokens_have_service_account(context, checker);
}

pub(super) fn check_file_mode(mode: Option<i32>, path: &Path, checker: &mut Checker) {
    if let Some(mode) = mode.filter(|mode| !(0..=0o777).contains(mode)) {
        checker.invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

/// Checks a key of a ConfigMap or Secret that is projected to a file.
pub(super) fn check_key_to_path(item: &KeyToPath, path: &Path, checker: &mut Checker) {
    checker.require_text(&path.field("key"), &item.key);
    if checker.require_text(&path.field("path"), &item.path) {
        checker.format(&path.field("path"), &item.path, formats::unreserved_path(&item.path));
    }
    check_file_mode(item.mode, &path.field("mode"), checker);
}

/// Checks a field or resource of the pod that is projected to a file.
pub(super) fn check_downward_file(file: &DownwardAPIVolumeFile, path: &Path, checker: &mut Checker) {
    if checker.require_text(&path.field("path"), &file.path) {
        checker.format(&path.field("path"), &file.path, formats::unreserved_path(&file.path));
    }
    match (&file.field_ref, &file.resource_field_ref) {
        (None, None) => checker.required(path, "one of fieldRef and resourceFieldRef is required"),
        (Some(field), None) => {
            env::check_field_ref(field, &DOWNWARD_FIELDS, &path.field("fieldRef"), checker);
        }
        (None, Some(resource)) => {
            let path = path.field("resourceFieldRef");
            checker.require_text(
                &path.field("containerName"),
                resource.container_name.as_deref().unwrap_or_default(),
            );
            env::check_resource_field_ref(resource, &path, checker);
        }
        (Some(_), Some(_)) => {
            checker.invalid(
                path,
                "resource",
                "fieldRef and resourceFieldRef can not be specified simultaneously",
            );
        }
    }
    check_file_mode(file.mode, &path.field("mode"), checker);
}

fn check_one_source(volume: &Volume, path: &Path, checker: &mut Checker) {
    let sources = volume::sources(volume);
    if sources.is_empty() {
        checker.required(path, "must specify a volume type");
    }
    for source in sources.iter().skip(1) {
        checker.forbidden(&path.field(source), "may not specify more than 1 volume type");
    }
}

fn check_local_source(volume: &Volume, path: &Path, checker: &mut Checker) {
    if let Some(source) = &volume.empty_dir {
        check_empty_dir(source, &path.field("emptyDir"), checker);
    }
    if let Some(source) = &volume.host_path {
        check_host_path(source, &path.field("hostPath"), checker);
    }
    if let Some(source) = &volume.secret {
        let path = path.field("secret");
        checker.require_text(&path.field("secretName"), source.secret_name.as_deref().unwrap_or_default());
        check_files(source.default_mode, source.items.as_deref().unwrap_or_default(), &path, checker);
    }
    if let Some(source) = &volume.config_map {
        let path = path.field("configMap");
        checker.require_text(&path.field("name"), &source.name);
        check_files(source.default_mode, source.items.as_deref().unwrap_or_default(), &path, checker);
    }
    if let Some(source) = &volume.downward_api {
        let path = path.field("downwardAPI");
        check_file_mode(source.default_mode, &path.field("defaultMode"), checker);
        let items = source.items.as_deref().unwrap_or_default();
        path.field("items").items(items).for_each(|(path, file)| check_downward_file(file, &path, checker));
    }
    if let Some(source) = &volume.projected {
        projected::check(source, &path.field("projected"), checker);
    }
    if let Some(source) = &volume.image {
        let path = path.field("image");
        checker.require_text(&path.field("reference"), source.reference.as_deref().unwrap_or_default());
        containers::check_pull_policy(source.pull_policy.as_deref(), &path.field("pullPolicy"), checker);
    }
    if let Some(source) = &volume.ephemeral {
        check_ephemeral(source, &path.field("ephemeral"), checker);
    }
}

fn check_files(mode: Option<i32>, items: &[KeyToPath], path: &Path, checker: &mut Checker) {
    check_file_mode(mode, &path.field("defaultMode"), checker);
    path.field("items").items(items).for_each(|(path, item)| check_key_to_path(item, &path, checker));
}

fn check_empty_dir(source: &EmptyDirVolumeSource, path: &Path, checker: &mut Checker) {
    let limit = source.size_limit.as_ref().and_then(|limit| Quantity::parse_trimmed(&limit.0).ok());
    if limit.is_some_and(|limit| limit.is_negative()) {
        checker.forbidden(&path.field("sizeLimit"), "must be a valid resource quantity");
    }
    let medium = source.medium.as_deref().unwrap_or_default();
    let pages = medium.strip_prefix("HugePages-");
    if !matches!(medium, "" | "Memory" | "HugePages")
        && pages.is_none_or(|size| Quantity::parse_trimmed(size).is_err())
    {
        checker.unsupported(&path.field("medium"), medium, &["", "Memory", "HugePages", "HugePages-<size>"]);
    }
}

fn check_host_path(source: &HostPathVolumeSource, path: &Path, checker: &mut Checker) {
    if checker.require_text(&path.field("path"), &source.path) {
        checker.format(&path.field("path"), &source.path, formats::path_without_backsteps(&source.path));
        checker.one_of(&path.field("type"), source.type_.as_deref().unwrap_or_default(), &HOST_PATH_TYPES);
    }
}

fn check_ephemeral(source: &EphemeralVolumeSource, path: &Path, checker: &mut Checker) {
    let path = path.field("volumeClaimTemplate");
    let Some(template) = &source.volume_claim_template else { return checker.required(&path, "") };
    if let Some(data) = &template.metadata {
        let allowed = ObjectMeta {
            labels: data.labels.clone(),
            annotations: data.annotations.clone(),
            ..ObjectMeta::default()
        };
        if *data != allowed {
            checker.forbidden(&path.field("metadata"), "only labels and annotations can be set");
        }
        metadata::check_labels(data.labels.as_ref(), &path.field("metadata.labels"), checker);
    }
    check_claim(&template.spec, &path.field("spec"), checker);
}

fn check_claim(claim: &PersistentVolumeClaimSpec, path: &Path, checker: &mut Checker) {
    let modes = claim.access_modes.as_deref().unwrap_or_default();
    if modes.is_empty() {
        checker.required(&path.field("accessModes"), "at least 1 access mode is required");
    }
    path.field("accessModes")
        .items(modes)
        .for_each(|(path, mode)| checker.one_of(&path, mode, &ACCESS_MODES));
    if modes.len() > 1 && modes.iter().any(|mode| mode == "ReadWriteOncePod") {
        checker.forbidden(&path.field("accessModes"), "may not use ReadWriteOncePod with other access modes");
    }
    affinity::check_label_selector(claim.selector.as_ref(), &path.field("selector"), checker);
    for (field, name) in [
        ("storageClassName", &claim.storage_class_name),
        ("volumeAttributesClassName", &claim.volume_attributes_class_name),
    ] {
        if let Some(name) = name.as_deref().filter(|name| !name.is_empty()) {
            checker.format(&path.field(field), name, formats::dns_subdomain(name));
        }
    }
    if let Some(mode) = &claim.volume_mode {
        checker.one_of(&path.field("volumeMode"), mode, &["Block", "Filesystem"]);
    }
    let requests = claim.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let path = path.field("resources.requests").key("storage");
    match requests.and_then(|requests| requests.get("storage")).map(|text| Quantity::parse_trimmed(&text.0)) {
        None => checker.required(&path, ""),
        Some(Ok(size)) if !size.is_positive() => {
            checker.invalid(&path, size.to_string(), "must be greater than 0");
        }
        Some(_) => {}
    }
}

fn check_tokens_have_service_account(context: &Context<'_>, checker: &mut Checker) {
    if !context.spec.service_account_name.as_deref().unwrap_or_default().is_empty() {
        return;
    }
    let volumes = context.spec.volumes.as_deref().unwrap_or_default();
    for (path, volume) in Path::root().field("spec.volumes").items(volumes) {
        let sources =
            volume.projected.as_ref().and_then(|source| source.sources.as_deref()).unwrap_or_default();
        for (path, source) in path.field("projected.sources").items(sources) {
            if source.service_account_token.is_some() {
                let detail = "must not be specified when serviceAccountName is not set";
                checker.forbidden(&path.field("serviceAccountToken"), detail);
            }
        }
    }
}
