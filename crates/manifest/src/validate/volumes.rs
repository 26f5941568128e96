//! The pod's volumes: names, one source each, and the sources that live on the node.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, EmptyDirVolumeSource, EphemeralVolumeSource, HostPathVolumeSource, KeyToPath,
    PersistentVolumeClaimSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::checker::Checker;
use super::{Context, affinity, containers, env, formats, metadata, projected, storage};
use crate::path::Path;
use crate::quantity::Quantity;
use crate::volume;

const DOWNWARD_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// Checks all volumes of a pod.
pub(super) fn check(context: &Context<'_>, pod_name: &str, check: &mut Checker) {
    let volumes = context.spec.volumes.as_deref().unwrap_or_default();
    let claims_of_pod: BTreeSet<String> = volumes
        .iter()
        .filter(|volume| volume.ephemeral.is_some())
        .map(|volume| format!("{pod_name}-{}", volume.name))
        .collect();
    let mut names = BTreeSet::new();
    for (at, volume) in Path::root().field("spec.volumes").items(volumes) {
        if check.require_text(&at.field("name"), &volume.name) {
            check.format(&at.field("name"), &volume.name, formats::dns_label(&volume.name));
            if !names.insert(&volume.name) {
                check.duplicate(&at.field("name"), &volume.name);
            }
        }
        one_source(volume, &at, check);
        local_source(volume, &at, check);
        storage::check(volume, &at, check);
        let claim = volume.persistent_volume_claim.as_ref().map(|claim| claim.claim_name.as_str());
        if let Some(claim) = claim.filter(|claim| claims_of_pod.contains(*claim)) {
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            check.invalid(&at.field("persistentVolumeClaim.claimName"), claim, detail);
        }
    }
    tokens_need_an_account(context, check);
}

/// A file's permission bits.
pub(super) fn file_mode(mode: Option<i32>, at: &Path, check: &mut Checker) {
    if let Some(mode) = mode.filter(|mode| !(0..=0o777).contains(mode)) {
        check.invalid(at, mode, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

/// One key of a ConfigMap or Secret as a file.
pub(super) fn key_to_path(item: &KeyToPath, at: &Path, check: &mut Checker) {
    check.require_text(&at.field("key"), &item.key);
    if check.require_text(&at.field("path"), &item.path) {
        check.format(&at.field("path"), &item.path, formats::unreserved_path(&item.path));
    }
    file_mode(item.mode, &at.field("mode"), check);
}

/// One field or resource of the pod as a file.
pub(super) fn downward_file(file: &DownwardAPIVolumeFile, at: &Path, check: &mut Checker) {
    if check.require_text(&at.field("path"), &file.path) {
        check.format(&at.field("path"), &file.path, formats::unreserved_path(&file.path));
    }
    match (&file.field_ref, &file.resource_field_ref) {
        (None, None) => check.required(at, "one of fieldRef and resourceFieldRef is required"),
        (Some(field), None) => env::field_ref(field, &DOWNWARD_FIELDS, &at.field("fieldRef"), check),
        (None, Some(resource)) => {
            let at = at.field("resourceFieldRef");
            check.require_text(
                &at.field("containerName"),
                resource.container_name.as_deref().unwrap_or_default(),
            );
            env::resource_field_ref(resource, &at, check);
        }
        (Some(_), Some(_)) => {
            check.invalid(
                at,
                "resource",
                "fieldRef and resourceFieldRef can not be specified simultaneously",
            );
        }
    }
    file_mode(file.mode, &at.field("mode"), check);
}

fn one_source(volume: &Volume, at: &Path, check: &mut Checker) {
    let sources = volume::sources(volume);
    if sources.is_empty() {
        check.required(at, "must specify a volume type");
    }
    for source in sources.iter().skip(1) {
        check.forbidden(&at.field(source), "may not specify more than 1 volume type");
    }
}

fn local_source(volume: &Volume, at: &Path, check: &mut Checker) {
    if let Some(source) = &volume.empty_dir {
        empty_dir(source, &at.field("emptyDir"), check);
    }
    if let Some(source) = &volume.host_path {
        host_path(source, &at.field("hostPath"), check);
    }
    if let Some(source) = &volume.secret {
        let at = at.field("secret");
        check.require_text(&at.field("secretName"), source.secret_name.as_deref().unwrap_or_default());
        files(source.default_mode, source.items.as_deref().unwrap_or_default(), &at, check);
    }
    if let Some(source) = &volume.config_map {
        let at = at.field("configMap");
        check.require_text(&at.field("name"), &source.name);
        files(source.default_mode, source.items.as_deref().unwrap_or_default(), &at, check);
    }
    if let Some(source) = &volume.downward_api {
        let at = at.field("downwardAPI");
        file_mode(source.default_mode, &at.field("defaultMode"), check);
        let items = source.items.as_deref().unwrap_or_default();
        at.field("items").items(items).for_each(|(at, file)| downward_file(file, &at, check));
    }
    if let Some(source) = &volume.projected {
        projected::check(source, &at.field("projected"), check);
    }
    if let Some(source) = &volume.image {
        let at = at.field("image");
        check.require_text(&at.field("reference"), source.reference.as_deref().unwrap_or_default());
        containers::pull_policy(source.pull_policy.as_deref(), &at.field("pullPolicy"), check);
    }
    if let Some(source) = &volume.ephemeral {
        ephemeral(source, &at.field("ephemeral"), check);
    }
}

fn files(mode: Option<i32>, items: &[KeyToPath], at: &Path, check: &mut Checker) {
    file_mode(mode, &at.field("defaultMode"), check);
    at.field("items").items(items).for_each(|(at, item)| key_to_path(item, &at, check));
}

fn empty_dir(source: &EmptyDirVolumeSource, at: &Path, check: &mut Checker) {
    let limit = source.size_limit.as_ref().and_then(|limit| Quantity::parse(&limit.0).ok());
    if limit.is_some_and(Quantity::is_negative) {
        check.forbidden(&at.field("sizeLimit"), "must be a valid resource quantity");
    }
    let medium = source.medium.as_deref().unwrap_or_default();
    let pages = medium.strip_prefix("HugePages-");
    if !matches!(medium, "" | "Memory" | "HugePages")
        && pages.is_none_or(|size| Quantity::parse(size).is_err())
    {
        check.unsupported(&at.field("medium"), medium, &["", "Memory", "HugePages", "HugePages-<size>"]);
    }
}

fn host_path(source: &HostPathVolumeSource, at: &Path, check: &mut Checker) {
    if check.require_text(&at.field("path"), &source.path) {
        check.format(&at.field("path"), &source.path, formats::no_backsteps(&source.path));
        check.one_of(&at.field("type"), source.type_.as_deref().unwrap_or_default(), &HOST_PATH_TYPES);
    }
}

fn ephemeral(source: &EphemeralVolumeSource, at: &Path, check: &mut Checker) {
    let at = at.field("volumeClaimTemplate");
    let Some(template) = &source.volume_claim_template else { return check.required(&at, "") };
    if let Some(data) = &template.metadata {
        let allowed = ObjectMeta {
            labels: data.labels.clone(),
            annotations: data.annotations.clone(),
            ..ObjectMeta::default()
        };
        if *data != allowed {
            check.forbidden(&at.field("metadata"), "only labels and annotations can be set");
        }
        metadata::labels(data.labels.as_ref(), &at.field("metadata.labels"), check);
    }
    claim(&template.spec, &at.field("spec"), check);
}

fn claim(claim: &PersistentVolumeClaimSpec, at: &Path, check: &mut Checker) {
    let modes = claim.access_modes.as_deref().unwrap_or_default();
    if modes.is_empty() {
        check.required(&at.field("accessModes"), "at least 1 access mode is required");
    }
    at.field("accessModes").items(modes).for_each(|(at, mode)| check.one_of(&at, mode, &ACCESS_MODES));
    if modes.len() > 1 && modes.iter().any(|mode| mode == "ReadWriteOncePod") {
        check.forbidden(&at.field("accessModes"), "may not use ReadWriteOncePod with other access modes");
    }
    affinity::label_selector(claim.selector.as_ref(), &at.field("selector"), check);
    for (field, name) in [
        ("storageClassName", &claim.storage_class_name),
        ("volumeAttributesClassName", &claim.volume_attributes_class_name),
    ] {
        if let Some(name) = name.as_deref().filter(|name| !name.is_empty()) {
            check.format(&at.field(field), name, formats::dns_subdomain(name));
        }
    }
    if let Some(mode) = &claim.volume_mode {
        check.one_of(&at.field("volumeMode"), mode, &["Block", "Filesystem"]);
    }
    let requests = claim.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let at = at.field("resources.requests").key("storage");
    match requests.and_then(|requests| requests.get("storage")).map(|text| Quantity::parse(&text.0)) {
        None => check.required(&at, ""),
        Some(Ok(size)) if size.nanos() <= 0 => check.invalid(&at, size.to_string(), "must be greater than 0"),
        Some(_) => {}
    }
}

fn tokens_need_an_account(context: &Context<'_>, check: &mut Checker) {
    if !context.spec.service_account_name.as_deref().unwrap_or_default().is_empty() {
        return;
    }
    let volumes = context.spec.volumes.as_deref().unwrap_or_default();
    for (at, volume) in Path::root().field("spec.volumes").items(volumes) {
        let sources =
            volume.projected.as_ref().and_then(|source| source.sources.as_deref()).unwrap_or_default();
        for (at, source) in at.field("projected.sources").items(sources) {
            if source.service_account_token.is_some() {
                let detail = "must not be specified when serviceAccountName is not set";
                check.forbidden(&at.field("serviceAccountToken"), detail);
            }
        }
    }
}
