//! Describes the volumes of a pod.

use k8s_openapi::api::core::v1::{Pod, Volume};
use serde_json::Value;

use super::description::Description;

pub(super) fn write(description: &mut Description, pod: &Pod) {
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.clone()).unwrap_or_default();
    if volumes.is_empty() {
        description.field("Volumes", "<none>");
        return;
    }
    description.title("Volumes");
    for volume in &volumes {
        description.raw(1, &format!("{}:", volume.name));
        let (kind, details) = describe(volume);
        description.nested(2, "Type", kind);
        for (title, value) in details {
            description.nested(2, &title, &value);
        }
    }
}

/// The kind of a volume, and its titles and values.
fn describe(volume: &Volume) -> (&'static str, Vec<(String, String)>) {
    let field = |title: &str, value: String| (title.to_owned(), value);
    if let Some(found) = &volume.config_map {
        let optional = found.optional.unwrap_or(false).to_string();
        return (
            "ConfigMap (a volume populated by a ConfigMap)",
            vec![field("Name", found.name.clone()), field("Optional", optional)],
        );
    }
    if let Some(found) = &volume.secret {
        let name = found.secret_name.clone().unwrap_or_default();
        let optional = found.optional.unwrap_or(false).to_string();
        return (
            "Secret (a volume populated by a Secret)",
            vec![field("SecretName", name), field("Optional", optional)],
        );
    }
    if let Some(found) = &volume.empty_dir {
        let medium = found.medium.clone().unwrap_or_default();
        let limit = found.size_limit.as_ref().map_or("<unset>".to_owned(), |limit| limit.0.clone());
        return (
            "EmptyDir (a temporary directory that shares a pod's lifetime)",
            vec![field("Medium", medium), field("SizeLimit", limit)],
        );
    }
    if let Some(found) = &volume.host_path {
        let kind = found.type_.clone().unwrap_or_default();
        return (
            "HostPath (bare host directory volume)",
            vec![field("Path", found.path.clone()), field("HostPathType", kind)],
        );
    }
    if let Some(found) = &volume.persistent_volume_claim {
        let read_only = found.read_only.unwrap_or(false).to_string();
        return (
            "PersistentVolumeClaim (a reference to a claim in the same namespace)",
            vec![field("ClaimName", found.claim_name.clone()), field("ReadOnly", read_only)],
        );
    }
    // Other kinds are printed as JSON.
    let object = serde_json::to_value(volume).unwrap_or_default();
    let other = object.as_object().and_then(|fields| fields.iter().find(|(name, _)| *name != "name"));
    let kind = match other.map(|(name, _)| name.as_str()) {
        Some("projected") => "Projected (a volume that contains injected data from multiple sources)",
        Some("downwardAPI") => "DownwardAPI (a volume populated by information about the pod)",
        Some("csi") => "CSI (a Container Storage Interface (CSI) volume source)",
        Some("nfs") => "NFS (an NFS mount that lasts the lifetime of a pod)",
        Some("image") => "Image (an OCI image that is mounted)",
        Some(_) | None => "<other>",
    };
    let details = other.map(|(name, value)| (name.clone(), shorten(value))).into_iter().collect();
    (kind, details)
}

fn shorten(value: &Value) -> String {
    const MAX_LENGTH: usize = 200;
    let text = value.to_string();
    match text.char_indices().nth(MAX_LENGTH) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
