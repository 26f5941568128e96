//! Static pods may not refer to objects that only an API server has.
//!
//! Upstream stops at the first reference; we name each, where it stands.

use k8s_openapi::api::core::v1::{Container, LocalObjectReference, Pod, PodSpec, Volume, VolumeProjection};

use crate::Rules;
use crate::path::Path;
use crate::validate::Findings;

/// The references a pod has, as problems. With the gate off, only those that never work are refused.
pub(crate) fn check(pod: &Pod, rules: &Rules) -> Findings {
    let Some(spec) = &pod.spec else { return Vec::new() };
    if !rules.prevent_api_references {
        return never_allowed(spec);
    }
    let at = Path::root().field("spec");
    let mut found = Found::default();
    let has_account = !spec.service_account_name.as_deref().unwrap_or_default().is_empty();
    found.note(has_account, &at.field("serviceAccountName"), "serviceaccounts");
    for (at, secret) in
        at.field("imagePullSecrets").items(spec.image_pull_secrets.as_deref().unwrap_or_default())
    {
        found.note(!secret.name.is_empty(), &at, "secrets");
    }
    for (field, list) in
        [("initContainers", spec.init_containers.as_deref()), ("containers", Some(&*spec.containers))]
    {
        for (at, container) in at.field(field).items(list.unwrap_or_default()) {
            environment(container, &at, &mut found);
        }
    }
    for (at, _) in at.field("resourceClaims").items(spec.resource_claims.as_deref().unwrap_or_default()) {
        found.note(true, &at, "resourceclaims");
    }
    for (at, volume) in at.field("volumes").items(spec.volumes.as_deref().unwrap_or_default()) {
        volume_source(volume, &at, &mut found);
    }
    found.0
}

#[derive(Default)]
struct Found(Findings);

impl Found {
    fn note(&mut self, is_referenced: bool, at: &Path, what: &str) {
        if is_referenced {
            self.0.push((at.clone(), format!("Forbidden: static pods may not reference {what}")));
        }
    }
}

fn never_allowed(spec: &PodSpec) -> Findings {
    let at = Path::root().field("spec");
    let mut findings = Vec::new();
    for (at, volume) in at.field("volumes").items(spec.volumes.as_deref().unwrap_or_default()) {
        let sources =
            volume.projected.as_ref().and_then(|source| source.sources.as_deref()).unwrap_or_default();
        for (at, source) in at.field("projected.sources").items(sources) {
            if source.cluster_trust_bundle.is_some() {
                let reason = "Forbidden: static pods may not use ClusterTrustBundle projected volume sources";
                findings.push((at.field("clusterTrustBundle"), reason.to_owned()));
            }
        }
    }
    if spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()) {
        let reason = "Forbidden: static pods may not use ResourceClaims";
        findings.push((at.field("resourceClaims"), reason.to_owned()));
    }
    findings
}

fn environment(container: &Container, at: &Path, found: &mut Found) {
    for (at, source) in at.field("envFrom").items(container.env_from.as_deref().unwrap_or_default()) {
        found.note(source.secret_ref.is_some(), &at.field("secretRef"), "secrets");
        found.note(source.config_map_ref.is_some(), &at.field("configMapRef"), "configmaps");
    }
    for (at, variable) in at.field("env").items(container.env.as_deref().unwrap_or_default()) {
        let Some(source) = &variable.value_from else { continue };
        let at = at.field("valueFrom");
        found.note(source.secret_key_ref.is_some(), &at.field("secretKeyRef"), "secrets");
        found.note(source.config_map_key_ref.is_some(), &at.field("configMapKeyRef"), "configmaps");
    }
}

fn volume_source(volume: &Volume, at: &Path, found: &mut Found) {
    for (field, is_set, what) in [
        ("configMap", volume.config_map.is_some(), "configmaps (via configmap volumes)"),
        ("secret", volume.secret.is_some(), "secrets (via secret volumes)"),
        ("csi", volume.csi.is_some(), "csidrivers (via CSI volumes)"),
        ("glusterfs", volume.glusterfs.is_some(), "endpoints (via glusterFS volumes)"),
        ("persistentVolumeClaim", volume.persistent_volume_claim.is_some(), "persistentvolumeclaims"),
        ("ephemeral", volume.ephemeral.is_some(), "persistentvolumeclaims (via ephemeral volumes)"),
        ("azureFile", volume.azure_file.is_some(), "secrets (via azureFile volumes)"),
    ] {
        found.note(is_set, &at.field(field), what);
    }
    let named = |secret: Option<&LocalObjectReference>| secret.is_some_and(|secret| !secret.name.is_empty());
    for (field, is_set) in [
        ("cephfs", named(volume.cephfs.as_ref().and_then(|source| source.secret_ref.as_ref()))),
        ("cinder", named(volume.cinder.as_ref().and_then(|source| source.secret_ref.as_ref()))),
        ("flexVolume", named(volume.flex_volume.as_ref().and_then(|source| source.secret_ref.as_ref()))),
        ("rbd", named(volume.rbd.as_ref().and_then(|source| source.secret_ref.as_ref()))),
        ("scaleIO", named(volume.scale_io.as_ref().map(|source| &source.secret_ref))),
        ("iscsi", named(volume.iscsi.as_ref().and_then(|source| source.secret_ref.as_ref()))),
        ("storageos", named(volume.storageos.as_ref().and_then(|source| source.secret_ref.as_ref()))),
    ] {
        found.note(is_set, &at.field(field).field("secretRef"), "secrets");
    }
    let sources = volume.projected.as_ref().and_then(|source| source.sources.as_deref()).unwrap_or_default();
    for (at, source) in at.field("projected.sources").items(sources) {
        projection(source, &at, found);
    }
}

fn projection(source: &VolumeProjection, at: &Path, found: &mut Found) {
    for (field, is_set, what) in [
        ("configMap", source.config_map.is_some(), "configmaps (via projected volumes)"),
        ("secret", source.secret.is_some(), "secrets (via projected volumes)"),
        (
            "serviceAccountToken",
            source.service_account_token.is_some(),
            "serviceaccounts (via projected volumes)",
        ),
        ("clusterTrustBundle", source.cluster_trust_bundle.is_some(), "clustertrustbundles"),
        ("podCertificate", source.pod_certificate.is_some(), "podcertificates"),
    ] {
        found.note(is_set, &at.field(field), what);
    }
}
