//! Rejects static pods that reference API objects.
//!
//! Upstream stops at the first reference; this module reports all of them with their positions. On a node without an API
//! server, ConfigMaps and Secrets come from manifests, so pods may reference those.

use k8s_openapi::api::core::v1::{Container, LocalObjectReference, Pod, PodSpec, Volume, VolumeProjection};

use crate::path::Path;
use crate::validate::Violations;
use crate::{ManifestRules, ObjectSource};

/// Reports the references of a pod. With the gate disabled, only those are rejected that never work.
pub(crate) fn check(pod: &Pod, rules: &ManifestRules) -> Violations {
    let Some(spec) = &pod.spec else { return Vec::new() };
    if !rules.prevent_api_references {
        return check_never_allowed(spec);
    }
    let path = Path::root().field("spec");
    let mut checker = ReferenceChecker { violations: Vec::new(), objects: rules.objects };
    let has_account = !spec.service_account_name.as_deref().unwrap_or_default().is_empty();
    checker.reject(has_account, &path.field("serviceAccountName"), "serviceaccounts");
    for (path, secret) in
        path.field("imagePullSecrets").items(spec.image_pull_secrets.as_deref().unwrap_or_default())
    {
        checker.reject_unless_local(!secret.name.is_empty(), &path, "secrets");
    }
    for (field, list) in
        [("initContainers", spec.init_containers.as_deref()), ("containers", Some(&*spec.containers))]
    {
        for (path, container) in path.field(field).items(list.unwrap_or_default()) {
            check_environment(container, &path, &mut checker);
        }
    }
    for (path, _) in path.field("resourceClaims").items(spec.resource_claims.as_deref().unwrap_or_default()) {
        checker.reject(true, &path, "resourceclaims");
    }
    for (path, volume) in path.field("volumes").items(spec.volumes.as_deref().unwrap_or_default()) {
        check_volume(volume, &path, &mut checker);
    }
    checker.violations
}

struct ReferenceChecker {
    violations: Violations,
    objects: ObjectSource,
}

impl ReferenceChecker {
    /// A reference to an object that only an API server has.
    fn reject(&mut self, is_referenced: bool, path: &Path, resource: &str) {
        if !is_referenced {
            return;
        }
        let hint = match self.objects {
            ObjectSource::ApiServer => "",
            ObjectSource::Manifests => {
                "; this node has no API server: remove the field, or provide the data with a ConfigMap or Secret in a \
                 manifest"
            }
        };
        self.violations
            .push((path.clone(), format!("Forbidden: static pods may not reference {resource}{hint}")));
    }

    /// A reference to a ConfigMap or Secret, which may come from a manifest.
    fn reject_unless_local(&mut self, is_referenced: bool, path: &Path, resource: &str) {
        match self.objects {
            ObjectSource::ApiServer => self.reject(is_referenced, path, resource),
            ObjectSource::Manifests => {}
        }
    }
}

fn check_never_allowed(spec: &PodSpec) -> Violations {
    let path = Path::root().field("spec");
    let mut violations = Vec::new();
    for (path, volume) in path.field("volumes").items(spec.volumes.as_deref().unwrap_or_default()) {
        let sources =
            volume.projected.as_ref().and_then(|source| source.sources.as_deref()).unwrap_or_default();
        for (path, source) in path.field("projected.sources").items(sources) {
            if source.cluster_trust_bundle.is_some() {
                let reason = "Forbidden: static pods may not use ClusterTrustBundle projected volume sources";
                violations.push((path.field("clusterTrustBundle"), reason.to_owned()));
            }
        }
    }
    if spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()) {
        let reason = "Forbidden: static pods may not use ResourceClaims";
        violations.push((path.field("resourceClaims"), reason.to_owned()));
    }
    violations
}

fn check_environment(container: &Container, path: &Path, checker: &mut ReferenceChecker) {
    for (path, source) in path.field("envFrom").items(container.env_from.as_deref().unwrap_or_default()) {
        checker.reject_unless_local(source.secret_ref.is_some(), &path.field("secretRef"), "secrets");
        checker.reject_unless_local(
            source.config_map_ref.is_some(),
            &path.field("configMapRef"),
            "configmaps",
        );
    }
    for (path, variable) in path.field("env").items(container.env.as_deref().unwrap_or_default()) {
        let Some(source) = &variable.value_from else { continue };
        let path = path.field("valueFrom");
        checker.reject_unless_local(source.secret_key_ref.is_some(), &path.field("secretKeyRef"), "secrets");
        checker.reject_unless_local(
            source.config_map_key_ref.is_some(),
            &path.field("configMapKeyRef"),
            "configmaps",
        );
    }
}

fn check_volume(volume: &Volume, path: &Path, checker: &mut ReferenceChecker) {
    checker.reject_unless_local(
        volume.config_map.is_some(),
        &path.field("configMap"),
        "configmaps (via configmap volumes)",
    );
    checker.reject_unless_local(
        volume.secret.is_some(),
        &path.field("secret"),
        "secrets (via secret volumes)",
    );
    for (field, is_set, resource) in [
        ("csi", volume.csi.is_some(), "csidrivers (via CSI volumes)"),
        ("glusterfs", volume.glusterfs.is_some(), "endpoints (via glusterFS volumes)"),
        ("persistentVolumeClaim", volume.persistent_volume_claim.is_some(), "persistentvolumeclaims"),
        ("ephemeral", volume.ephemeral.is_some(), "persistentvolumeclaims (via ephemeral volumes)"),
        ("azureFile", volume.azure_file.is_some(), "secrets (via azureFile volumes)"),
    ] {
        checker.reject(is_set, &path.field(field), resource);
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
        checker.reject(is_set, &path.field(field).field("secretRef"), "secrets");
    }
    let sources = volume.projected.as_ref().and_then(|source| source.sources.as_deref()).unwrap_or_default();
    for (path, source) in path.field("projected.sources").items(sources) {
        check_projection(source, &path, checker);
    }
}

fn check_projection(source: &VolumeProjection, path: &Path, checker: &mut ReferenceChecker) {
    checker.reject_unless_local(
        source.config_map.is_some(),
        &path.field("configMap"),
        "configmaps (via projected volumes)",
    );
    checker.reject_unless_local(
        source.secret.is_some(),
        &path.field("secret"),
        "secrets (via projected volumes)",
    );
    for (field, is_set, resource) in [
        (
            "serviceAccountToken",
            source.service_account_token.is_some(),
            "serviceaccounts (via projected volumes)",
        ),
        ("clusterTrustBundle", source.cluster_trust_bundle.is_some(), "clustertrustbundles"),
        ("podCertificate", source.pod_certificate.is_some(), "podcertificates"),
    ] {
        checker.reject(is_set, &path.field(field), resource);
    }
}
