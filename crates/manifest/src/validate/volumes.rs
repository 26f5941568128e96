//! Rules for volumes: names, exactly one source, and sources on the node.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, EmptyDirVolumeSource, EphemeralVolumeSource, HostPathVolumeSource, KeyToPath,
    PersistentVolumeClaimSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use values::quantity::Quantity;

use super::field::Field;
use super::{Context, affinity, containers, env, formats, metadata, projected, storage};
use crate::volume;

const DOWNWARD_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

pub(super) fn check(context: &Context<'_>, pod_name: &str) {
    let volumes = context.spec.volumes.as_deref().unwrap_or_default();
    let claims_of_pod: BTreeSet<String> = volumes
        .iter()
        .filter(|volume| volume.ephemeral.is_some())
        .map(|volume| format!("{pod_name}-{}", volume.name))
        .collect();
    let mut names = BTreeSet::new();
    for (at, volume) in context.spec_field().field("volumes").items(volumes) {
        if at.field("name").require(&volume.name) {
            at.field("name").format(&volume.name, formats::dns_label);
            if !names.insert(&volume.name) {
                at.field("name").duplicate(&volume.name);
            }
        }
        check_one_source(volume, &at);
        check_local_source(volume, &at);
        storage::check(volume, &at);
        let claim = volume.persistent_volume_claim.as_ref().map(|claim| claim.claim_name.as_str());
        if let Some(claim) = claim.filter(|claim| claims_of_pod.contains(*claim)) {
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            at.field("persistentVolumeClaim.claimName").invalid(claim, detail);
        }
    }
    check_tokens_have_service_account(context);
}

pub(super) fn check_file_mode(mode: Option<i32>, at: &Field<'_>) {
    if let Some(mode) = mode.filter(|mode| !(0..=0o777).contains(mode)) {
        at.invalid(mode, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

/// Checks a key of a ConfigMap or Secret that is projected to a file.
pub(super) fn check_key_to_path(item: &KeyToPath, at: &Field<'_>) {
    at.field("key").require(&item.key);
    at.field("path").required_format(&item.path, formats::unreserved_path);
    check_file_mode(item.mode, &at.field("mode"));
}

/// Checks a field or resource of the pod that is projected to a file.
pub(super) fn check_downward_file(file: &DownwardAPIVolumeFile, at: &Field<'_>) {
    at.field("path").required_format(&file.path, formats::unreserved_path);
    match (&file.field_ref, &file.resource_field_ref) {
        (None, None) => at.required("one of fieldRef and resourceFieldRef is required"),
        (Some(field), None) => {
            env::check_field_ref(field, &DOWNWARD_FIELDS, &at.field("fieldRef"));
        }
        (None, Some(resource)) => {
            let at = at.field("resourceFieldRef");
            at.field("containerName").require(resource.container_name.as_deref().unwrap_or_default());
            env::check_resource_field_ref(resource, &at);
        }
        (Some(_), Some(_)) => {
            at.invalid("resource", "fieldRef and resourceFieldRef can not be specified simultaneously");
        }
    }
    check_file_mode(file.mode, &at.field("mode"));
}

fn check_one_source(volume: &Volume, at: &Field<'_>) {
    let sources = volume::sources(volume);
    if sources.is_empty() {
        at.required("must specify a volume type");
    }
    for source in sources.iter().skip(1) {
        at.field(source).forbidden("may not specify more than 1 volume type");
    }
}

fn check_local_source(volume: &Volume, at: &Field<'_>) {
    at.if_set("emptyDir", &volume.empty_dir, check_empty_dir);
    at.if_set("hostPath", &volume.host_path, check_host_path);
    if let Some(source) = &volume.secret {
        let at = at.field("secret");
        at.field("secretName").require(source.secret_name.as_deref().unwrap_or_default());
        check_files(source.default_mode, &source.items, &at);
    }
    if let Some(source) = &volume.config_map {
        let at = at.field("configMap");
        at.field("name").require(&source.name);
        check_files(source.default_mode, &source.items, &at);
    }
    if let Some(source) = &volume.downward_api {
        let at = at.field("downwardAPI");
        check_file_mode(source.default_mode, &at.field("defaultMode"));
        at.list("items", &source.items).for_each(|(at, file)| check_downward_file(file, &at));
    }
    at.if_set("projected", &volume.projected, projected::check);
    if let Some(source) = &volume.image {
        let at = at.field("image");
        at.field("reference").require(source.reference.as_deref().unwrap_or_default());
        containers::check_pull_policy(source.pull_policy.as_deref(), &at.field("pullPolicy"));
    }
    at.if_set("ephemeral", &volume.ephemeral, check_ephemeral);
}

fn check_files(mode: Option<i32>, items: &Option<Vec<KeyToPath>>, at: &Field<'_>) {
    check_file_mode(mode, &at.field("defaultMode"));
    at.list("items", items).for_each(|(at, item)| check_key_to_path(item, &at));
}

fn check_empty_dir(source: &EmptyDirVolumeSource, at: &Field<'_>) {
    let limit = source.size_limit.as_ref().and_then(|limit| Quantity::parse_trimmed(&limit.0).ok());
    if limit.is_some_and(|limit| limit.is_negative()) {
        at.field("sizeLimit").forbidden("must be a valid resource quantity");
    }
    let medium = source.medium.as_deref().unwrap_or_default();
    let pages = medium.strip_prefix("HugePages-");
    if !matches!(medium, "" | "Memory" | "HugePages")
        && pages.is_none_or(|size| Quantity::parse_trimmed(size).is_err())
    {
        at.field("medium").unsupported(medium, &["", "Memory", "HugePages", "HugePages-<size>"]);
    }
}

fn check_host_path(source: &HostPathVolumeSource, at: &Field<'_>) {
    if at.field("path").require(&source.path) {
        at.field("path").format(&source.path, formats::path_without_backsteps);
        at.field("type").one_of(source.type_.as_deref().unwrap_or_default(), &HOST_PATH_TYPES);
    }
}

fn check_ephemeral(source: &EphemeralVolumeSource, at: &Field<'_>) {
    let at = at.field("volumeClaimTemplate");
    let Some(template) = &source.volume_claim_template else { return at.required("") };
    if let Some(data) = &template.metadata {
        let allowed = ObjectMeta {
            labels: data.labels.clone(),
            annotations: data.annotations.clone(),
            ..ObjectMeta::default()
        };
        if *data != allowed {
            at.field("metadata").forbidden("only labels and annotations can be set");
        }
        metadata::check_labels(data.labels.as_ref(), &at.field("metadata.labels"));
    }
    check_claim(&template.spec, &at.field("spec"));
}

fn check_claim(claim: &PersistentVolumeClaimSpec, at: &Field<'_>) {
    let modes = claim.access_modes.as_deref().unwrap_or_default();
    if modes.is_empty() {
        at.field("accessModes").required("at least 1 access mode is required");
    }
    at.field("accessModes").items(modes).for_each(|(at, mode)| at.one_of(mode, &ACCESS_MODES));
    if modes.len() > 1 && modes.iter().any(|mode| mode == "ReadWriteOncePod") {
        at.field("accessModes").forbidden("may not use ReadWriteOncePod with other access modes");
    }
    at.if_set("selector", &claim.selector, affinity::check_label_selector);
    for (field, name) in [
        ("storageClassName", &claim.storage_class_name),
        ("volumeAttributesClassName", &claim.volume_attributes_class_name),
    ] {
        at.field(field).empty_or_format(name, formats::dns_subdomain);
    }
    at.field("volumeMode").optional_one_of(&claim.volume_mode, &["Block", "Filesystem"]);
    let requests = claim.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let at = at.field("resources.requests").key("storage");
    match requests.and_then(|requests| requests.get("storage")).map(|text| Quantity::parse_trimmed(&text.0)) {
        None => at.required(""),
        Some(Ok(size)) if !size.is_positive() => {
            at.invalid(size.to_string(), "must be greater than 0");
        }
        Some(_) => {}
    }
}

fn check_tokens_have_service_account(context: &Context<'_>) {
    if !context.spec.service_account_name.as_deref().unwrap_or_default().is_empty() {
        return;
    }
    for (at, volume) in context.spec_field().list("volumes", &context.spec.volumes) {
        let Some(projected) = &volume.projected else { continue };
        for (at, source) in at.list("projected.sources", &projected.sources) {
            at.if_set("serviceAccountToken", &source.service_account_token, |_, at| {
                at.forbidden("must not be specified when serviceAccountName is not set");
            });
        }
    }
}
