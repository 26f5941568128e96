//! Rules for projected volumes.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    ClusterTrustBundleProjection, PodCertificateProjection, ProjectedVolumeSource,
    ServiceAccountTokenProjection, VolumeProjection,
};

use super::field::Field;
use super::{affinity, formats, volumes};

const KEY_TYPES: [&str; 6] = ["ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519", "RSA3072", "RSA4096"];
const MIN_TOKEN_SECONDS: i64 = 10 * 60;
const MAX_TOKEN_SECONDS: i64 = 1 << 32;
const MIN_CERTIFICATE_SECONDS: i64 = 60 * 60;
const MAX_CERTIFICATE_SECONDS: i64 = 91 * 24 * 60 * 60;
const MAX_KUBERNETES_CERTIFICATE_SECONDS: i64 = 24 * 60 * 60;

pub(super) fn check(projected: &ProjectedVolumeSource, at: &Field<'_>) {
    volumes::check_file_mode(projected.default_mode, &at.field("defaultMode"));
    let mut files = ProjectedFiles::default();
    for (at, source) in at.list("sources", &projected.sources) {
        check_api_objects(source, &mut files, &at);
        at.if_set("serviceAccountToken", &source.service_account_token, check_service_account_token);
        at.if_set("clusterTrustBundle", &source.cluster_trust_bundle, |bundle, at| {
            check_cluster_trust_bundle(bundle, &mut files, at);
        });
        at.if_set("podCertificate", &source.pod_certificate, |certificate, at| {
            check_pod_certificate(certificate, &mut files, at);
        });
        let count = [
            source.secret.is_some(),
            source.config_map.is_some(),
            source.downward_api.is_some(),
            source.service_account_token.is_some(),
            source.cluster_trust_bundle.is_some(),
            source.pod_certificate.is_some(),
        ];
        match count.into_iter().filter(|is_set| *is_set).count() {
            0 => at.required("must specify a volume source"),
            1 => {}
            _ => at.forbidden("may not specify more than 1 volume type per source"),
        }
    }
}

/// The files of earlier sources in the same volume.
#[derive(Default)]
struct ProjectedFiles(BTreeSet<String>);

impl ProjectedFiles {
    fn add(&mut self, file: &str, at: &Field<'_>) {
        if !file.is_empty() && !self.0.insert(file.to_owned()) {
            at.invalid(file, "conflicting duplicate paths");
        }
    }
}

fn check_api_objects(source: &VolumeProjection, files: &mut ProjectedFiles, at: &Field<'_>) {
    let secret = source.secret.as_ref().map(|source| ("secret", &source.name, &source.items));
    let config_map = source.config_map.as_ref().map(|source| ("configMap", &source.name, &source.items));
    for (field, name, items) in [secret, config_map].into_iter().flatten() {
        let at = at.field(field);
        at.field("name").require(name);
        for (at, item) in at.list("items", items) {
            volumes::check_key_to_path(item, &at);
            files.add(&item.path, &at.field("path"));
        }
    }
    let items = source.downward_api.as_ref().and_then(|source| source.items.as_deref()).unwrap_or_default();
    for (at, file) in at.field("downwardAPI.items").items(items) {
        volumes::check_downward_file(file, &at);
        files.add(&file.path, &at.field("path"));
    }
}

fn check_service_account_token(token: &ServiceAccountTokenProjection, at: &Field<'_>) {
    let seconds = token.expiration_seconds.unwrap_or_default();
    at.field("expirationSeconds").in_range(seconds, MIN_TOKEN_SECONDS, MAX_TOKEN_SECONDS);
    at.field("path").required_format(&token.path, formats::unreserved_path);
}

fn check_cluster_trust_bundle(
    bundle: &ClusterTrustBundleProjection,
    files: &mut ProjectedFiles,
    at: &Field<'_>,
) {
    match (&bundle.name, &bundle.signer_name) {
        (Some(_), Some(_)) => at.invalid("", "only one of name and signerName may be used"),
        (None, None) => at.required("either name or signerName must be specified"),
        (Some(name), None) => {
            at.field("name").require(name);
            if bundle.label_selector.is_some() {
                at.field("labelSelector").invalid("", "must be unset if name is specified");
            }
        }
        (None, Some(signer)) => {
            check_signer_name(signer, &at.field("signerName"));
            at.if_set("labelSelector", &bundle.label_selector, affinity::check_label_selector);
        }
    }
    at.field("path").required_format(&bundle.path, formats::unreserved_path);
    files.add(&bundle.path, &at.field("path"));
}

fn check_pod_certificate(certificate: &PodCertificateProjection, files: &mut ProjectedFiles, at: &Field<'_>) {
    check_signer_name(&certificate.signer_name, &at.field("signerName"));
    at.field("keyType").one_of(&certificate.key_type, &KEY_TYPES);
    if let Some(seconds) = certificate.max_expiration_seconds {
        let host = certificate.signer_name.split('/').next().unwrap_or_default();
        let is_kubernetes = host == "kubernetes.io" || host.ends_with(".kubernetes.io");
        let max = if is_kubernetes { MAX_KUBERNETES_CERTIFICATE_SECONDS } else { MAX_CERTIFICATE_SECONDS };
        at.field("maxExpirationSeconds").in_range(i64::from(seconds), MIN_CERTIFICATE_SECONDS, max);
    }
    let paths = [
        ("credentialBundlePath", &certificate.credential_bundle_path),
        ("keyPath", &certificate.key_path),
        ("certificateChainPath", &certificate.certificate_chain_path),
    ];
    let mut count = 0;
    for (field, file) in paths {
        let Some(file) = file.as_deref().filter(|file| !file.is_empty()) else { continue };
        count += 1;
        at.field(field).format(file, formats::unreserved_path);
        files.add(file, &at.field(field));
    }
    if count == 0 {
        at.required("specify at least one of credentialBundlePath, keyPath, and certificateChainPath");
    }
}

/// Checks a name such as `example.com/signer-name`.
fn check_signer_name(name: &str, at: &Field<'_>) {
    if !at.require(name) {
        return;
    }
    let is_valid = name.split_once('/').is_some_and(|(domain, signer)| {
        domain.contains('.')
            && domain.split('.').all(|label| formats::dns_label(label).is_none())
            && formats::dns_subdomain(signer).is_none()
    });
    if !is_valid {
        at.invalid(name, "must be a fully qualified domain and path of the form 'example.com/signer-name'");
    }
}
