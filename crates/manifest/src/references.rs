//! Static pods may not refer to objects that only an API server has.
//!
//! Upstream stops at the first reference; we name each, where it stands. A node without an API server takes
//! ConfigMaps and Secrets from its manifests, so its pods may refer to those.

use k8s_openapi::api::core::v1::{Container, LocalObjectReference, Pod, PodSpec, Volume, VolumeProjection};

use crate::path::Path;
use crate::validate::Findings;
use crate::{ObjectPlace, Rules};

/// The references a pod has, as problems. With the gate off, only those that never work are refused.
pub(crate) fn check(pod: &Pod, rules: &Rules) -> Findings {
    let Some(spec) = &pod.spec else { return Vec::new() };
    if !rules.prevent_api_references {
        return never_allowed(spec);
    }
    let at = Path::root().field("spec");
    let mut found = Found { findings: Vec::new(), objects: rules.objects };
    let has_account = !spec.service_account_name.as_deref().unwrap_or_default().is_empty();
    found.note(has_account, &at.field("serviceAccountName"), "serviceaccounts");
    for (at, secret) in
        at.field("imagePullSecrets").items(spec.image_pull_secrets.as_deref().unwrap_or_default())
    {
        found.note_local(!secret.name.is_empty(), &at, "secrets");
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
    found.findings
}

struct Found {
    findings: Findings,
    objects: ObjectPlace,
}

impl Found {
    /// A reference to something that only an API server has.
    fn note(&mut self, is_referenced: bool, at: &Path, what: &str) {
        if !is_referenced {
            return;
        }
        let hint = match self.objects {
            ObjectPlace::ApiServer => "",
            ObjectPlace::Manifests => {
                "; this node has no API server, only ConfigMaps and Secrets from its manifests: remove the field, or \
                 put what the pod needs into one of those"
            }
        };
        self.findings.push((at.clone(), format!("Forbidden: static pods may not reference {what}{hint}")));
    }

    /// A reference to a ConfigMap or Secret by a field that can be served from manifests.
    fn note_local(&mut self, is_referenced: bool, at: &Path, what: &str) {
        match self.objects {
            ObjectPlace::ApiServer => self.note(is_referenced, at, what),
            ObjectPlace::Manifests => {}
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
        found.note_local(source.secret_ref.is_some(), &at.field("secretRef"), "secrets");
        found.note_local(source.config_map_ref.is_some(), &at.field("configMapRef"), "configmaps");
    }
    for (at, variable) in at.field("env").items(container.env.as_deref().unwrap_or_default()) {
        let Some(source) = &variable.value_from else { continue };
        let at = at.field("valueFrom");
        found.note_local(source.secret_key_ref.is_some(), &at.field("secretKeyRef"), "secrets");
        found.note_local(source.config_map_key_ref.is_some(), &at.field("configMapKeyRef"), "configmaps");
    }
}

fn volume_source(volume: &Volume, at: &Path, found: &mut Found) {
    found.note_local(
        volume.config_map.is_some(),
        &at.field("configMap"),
        "configmaps (via configmap volumes)",
    );
    found.note_local(volume.secret.is_some(), &at.field("secret"), "secrets (via secret volumes)");
    for (field, is_set, what) in [
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
    found.note_local(
        source.config_map.is_some(),
        &at.field("configMap"),
        "configmaps (via projected volumes)",
    );
    found.note_local(source.secret.is_some(), &at.field("secret"), "secrets (via projected volumes)");
    for (field, is_set, what) in [
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
