//! Rejects static pods that reference API objects.
//!
//! Upstream stops at the first reference; this module reports all of them with their positions. On a node without an API
//! server, ConfigMaps and Secrets come from manifests, so pods may reference those.

use k8s_openapi::api::core::v1::{Container, LocalObjectReference, Pod, PodSpec, Volume, VolumeProjection};

use crate::validate::{Field, Report, Violations};
use crate::{ManifestRules, ObjectSource};

/// Reports the references of a pod. With the gate disabled, only those are rejected that never work.
pub(crate) fn check(pod: &Pod, rules: &ManifestRules) -> Violations {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let report = Report::default();
    let at = report.root().field("spec");
    match rules.prevent_api_references {
        true => References { objects: rules.objects }.check_pod(spec, &at),
        false => check_never_allowed(spec, &at),
    }
    report.into_violations()
}

fn check_never_allowed(spec: &PodSpec, at: &Field<'_>) {
    for (at, volume) in at.list("volumes", &spec.volumes) {
        let Some(projected) = &volume.projected else { continue };
        for (at, source) in at.list("projected.sources", &projected.sources) {
            at.if_set("clusterTrustBundle", &source.cluster_trust_bundle, |_, at| {
                at.forbidden("static pods may not use ClusterTrustBundle projected volume sources");
            });
        }
    }
    if spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()) {
        at.field("resourceClaims").forbidden("static pods may not use ResourceClaims");
    }
}

/// Rejects all references to objects that do not come from `objects`.
struct References {
    objects: ObjectSource,
}

impl References {
    /// A reference to an object that only an API server has.
    fn reject(&self, is_referenced: bool, resource: &str, at: &Field<'_>) {
        let hint = match self.objects {
            ObjectSource::ApiServer => "",
            ObjectSource::Manifests => {
                "; this node has no API server: remove the field, or provide the data with a ConfigMap or Secret in a \
                 manifest"
            }
        };
        if is_referenced {
            at.forbidden(&format!("static pods may not reference {resource}{hint}"));
        }
    }

    /// A reference to a ConfigMap or Secret, which may come from a manifest.
    fn reject_unless_local(&self, is_referenced: bool, resource: &str, at: &Field<'_>) {
        match self.objects {
            ObjectSource::ApiServer => self.reject(is_referenced, resource, at),
            ObjectSource::Manifests => {}
        }
    }

    fn check_pod(&self, spec: &PodSpec, at: &Field<'_>) {
        let has_account = !spec.service_account_name.as_deref().unwrap_or_default().is_empty();
        self.reject(has_account, "serviceaccounts", &at.field("serviceAccountName"));
        for (at, secret) in at.list("imagePullSecrets", &spec.image_pull_secrets) {
            self.reject_unless_local(!secret.name.is_empty(), "secrets", &at);
        }
        let init = at.list("initContainers", &spec.init_containers);
        let containers = init.chain(at.field("containers").items(&spec.containers));
        containers.for_each(|(at, container)| self.check_environment(container, &at));
        for (at, _) in at.list("resourceClaims", &spec.resource_claims) {
            self.reject(true, "resourceclaims", &at);
        }
        at.list("volumes", &spec.volumes).for_each(|(at, volume)| self.check_volume(volume, &at));
    }

    fn check_environment(&self, container: &Container, at: &Field<'_>) {
        for (at, source) in at.list("envFrom", &container.env_from) {
            self.reject_unless_local(source.secret_ref.is_some(), "secrets", &at.field("secretRef"));
            self.reject_unless_local(
                source.config_map_ref.is_some(),
                "configmaps",
                &at.field("configMapRef"),
            );
        }
        for (at, variable) in at.list("env", &container.env) {
            let Some(source) = &variable.value_from else { continue };
            let at = at.field("valueFrom");
            let has_config_map = source.config_map_key_ref.is_some();
            self.reject_unless_local(source.secret_key_ref.is_some(), "secrets", &at.field("secretKeyRef"));
            self.reject_unless_local(has_config_map, "configmaps", &at.field("configMapKeyRef"));
        }
    }

    fn check_volume(&self, volume: &Volume, at: &Field<'_>) {
        for (field, is_set, resource) in [
            ("configMap", volume.config_map.is_some(), "configmaps (via configmap volumes)"),
            ("secret", volume.secret.is_some(), "secrets (via secret volumes)"),
        ] {
            self.reject_unless_local(is_set, resource, &at.field(field));
        }
        for (field, is_set, resource) in [
            ("csi", volume.csi.is_some(), "csidrivers (via CSI volumes)"),
            ("glusterfs", volume.glusterfs.is_some(), "endpoints (via glusterFS volumes)"),
            ("persistentVolumeClaim", volume.persistent_volume_claim.is_some(), "persistentvolumeclaims"),
            ("ephemeral", volume.ephemeral.is_some(), "persistentvolumeclaims (via ephemeral volumes)"),
            ("azureFile", volume.azure_file.is_some(), "secrets (via azureFile volumes)"),
        ] {
            self.reject(is_set, resource, &at.field(field));
        }
        let named =
            |secret: Option<&LocalObjectReference>| secret.is_some_and(|secret| !secret.name.is_empty());
        for (field, is_set) in [
            ("cephfs", named(volume.cephfs.as_ref().and_then(|source| source.secret_ref.as_ref()))),
            ("cinder", named(volume.cinder.as_ref().and_then(|source| source.secret_ref.as_ref()))),
            ("flexVolume", named(volume.flex_volume.as_ref().and_then(|source| source.secret_ref.as_ref()))),
            ("rbd", named(volume.rbd.as_ref().and_then(|source| source.secret_ref.as_ref()))),
            ("scaleIO", named(volume.scale_io.as_ref().map(|source| &source.secret_ref))),
            ("iscsi", named(volume.iscsi.as_ref().and_then(|source| source.secret_ref.as_ref()))),
            ("storageos", named(volume.storageos.as_ref().and_then(|source| source.secret_ref.as_ref()))),
        ] {
            self.reject(is_set, "secrets", &at.field(field).field("secretRef"));
        }
        let Some(projected) = &volume.projected else { return };
        for (at, source) in at.list("projected.sources", &projected.sources) {
            self.check_projection(source, &at);
        }
    }

    fn check_projection(&self, source: &VolumeProjection, at: &Field<'_>) {
        for (field, is_set, resource) in [
            ("configMap", source.config_map.is_some(), "configmaps (via projected volumes)"),
            ("secret", source.secret.is_some(), "secrets (via projected volumes)"),
        ] {
            self.reject_unless_local(is_set, resource, &at.field(field));
        }
        let has_token = source.service_account_token.is_some();
        for (field, is_set, resource) in [
            ("serviceAccountToken", has_token, "serviceaccounts (via projected volumes)"),
            ("clusterTrustBundle", source.cluster_trust_bundle.is_some(), "clustertrustbundles"),
            ("podCertificate", source.pod_certificate.is_some(), "podcertificates"),
        ] {
            self.reject(is_set, resource, &at.field(field));
        }
    }
}
