//! Rules for projected volumes.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    ClusterTrustBundleProjection, PodCertificateProjection, ProjectedVolumeSource,
    ServiceAccountTokenProjection, VolumeProjection,
};

use super::checker::Checker;
use super::{affinity, formats, volumes};
use crate::path::Path;

const KEY_TYPES: [&str; 6] = ["ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519", "RSA3072", "RSA4096"];
const MIN_TOKEN_SECONDS: i64 = 10 * 60;
const MAX_TOKEN_SECONDS: i64 = 1 << 32;
const MIN_CERTIFICATE_SECONDS: i64 = 60 * 60;
const MAX_CERTIFICATE_SECONDS: i64 = 91 * 24 * 60 * 60;
const MAX_KUBERNETES_CERTIFICATE_SECONDS: i64 = 24 * 60 * 60;

pub(super) fn check(projected: &ProjectedVolumeSource, path: &Path, checker: &mut Checker) {
    volumes::check_file_mode(projected.default_mode, &path.field("defaultMode"), checker);
    let mut files = ProjectedFiles::default();
    for (path, source) in path.field("sources").items(projected.sources.as_deref().unwrap_or_default()) {
        check_api_objects(source, &mut files, &path, checker);
        if let Some(token) = &source.service_account_token {
            check_service_account_token(token, &path.field("serviceAccountToken"), checker);
        }
        if let Some(bundle) = &source.cluster_trust_bundle {
            check_cluster_trust_bundle(bundle, &mut files, &path.field("clusterTrustBundle"), checker);
        }
        if let Some(certificate) = &source.pod_certificate {
            check_pod_certificate(certificate, &mut files, &path.field("podCertificate"), checker);
        }
        let count = [
            source.secret.is_some(),
            source.config_map.is_some(),
            source.downward_api.is_some(),
            source.service_account_token.is_some(),
            source.cluster_trust_bundle.is_some(),
            source.pod_certificate.is_some(),
        ];
        match count.into_iter().filter(|is_set| *is_set).count() {
            0 => checker.required(&path, "must specify a volume source"),
            1 => {}
            _ => checker.forbidden(&path, "may not specify more than 1 volume type per source"),
        }
    }
}

/// The files of earlier sources in the same volume.
#[derive(Default)]
struct ProjectedFiles(BTreeSet<String>);

impl ProjectedFiles {
    fn add(&mut self, file: &str, path: &Path, checker: &mut Checker) {
        if !file.is_empty() && !self.0.insert(file.to_owned()) {
            checker.invalid(path, file, "conflicting duplicate paths");
        }
    }
}

fn check_api_objects(
    source: &VolumeProjection,
    files: &mut ProjectedFiles,
    path: &Path,
    checker: &mut Checker,
) {
    let secret = source.secret.as_ref().map(|source| ("secret", &source.name, &source.items));
    let config_map = source.config_map.as_ref().map(|source| ("configMap", &source.name, &source.items));
    for (field, name, items) in [secret, config_map].into_iter().flatten() {
        let path = path.field(field);
        checker.require_text(&path.field("name"), name);
        for (path, item) in path.field("items").items(items.as_deref().unwrap_or_default()) {
            volumes::check_key_to_path(item, &path, checker);
            files.add(&item.path, &path.field("path"), checker);
        }
    }
    let items = source.downward_api.as_ref().and_then(|source| source.items.as_deref()).unwrap_or_default();
    for (path, file) in path.field("downwardAPI.items").items(items) {
        volumes::check_downward_file(file, &path, checker);
        files.add(&file.path, &path.field("path"), checker);
    }
}

fn check_service_account_token(token: &ServiceAccountTokenProjection, path: &Path, checker: &mut Checker) {
    let seconds = token.expiration_seconds.unwrap_or_default();
    checker.in_range(&path.field("expirationSeconds"), seconds, MIN_TOKEN_SECONDS, MAX_TOKEN_SECONDS);
    if checker.require_text(&path.field("path"), &token.path) {
        checker.format(&path.field("path"), &token.path, formats::unreserved_path(&token.path));
    }
}

fn check_cluster_trust_bundle(
    bundle: &ClusterTrustBundleProjection,
    files: &mut ProjectedFiles,
    path: &Path,
    checker: &mut Checker,
) {
    match (&bundle.name, &bundle.signer_name) {
        (Some(_), Some(_)) => checker.invalid(path, "", "only one of name and signerName may be used"),
        (None, None) => checker.required(path, "either name or signerName must be specified"),
        (Some(name), None) => {
            checker.require_text(&path.field("name"), name);
            if bundle.label_selector.is_some() {
                checker.invalid(&path.field("labelSelector"), "", "must be unset if name is specified");
            }
        }
        (None, Some(signer)) => {
            check_signer_name(signer, &path.field("signerName"), checker);
            affinity::check_label_selector(
                bundle.label_selector.as_ref(),
                &path.field("labelSelector"),
                checker,
            );
        }
    }
    if checker.require_text(&path.field("path"), &bundle.path) {
        checker.format(&path.field("path"), &bundle.path, formats::unreserved_path(&bundle.path));
    }
    files.add(&bundle.path, &path.field("path"), checker);
}

fn check_pod_certificate(
    certificate: &PodCertificateProjection,
    files: &mut ProjectedFiles,
    path: &Path,
    checker: &mut Checker,
) {
    check_signer_name(&certificate.signer_name, &path.field("signerName"), checker);
    checker.one_of(&path.field("keyType"), &certificate.key_type, &KEY_TYPES);
    if let Some(seconds) = certificate.max_expiration_seconds {
        let host = certificate.signer_name.split('/').next().unwrap_or_default();
        let is_kubernetes = host == "kubernetes.io" || host.ends_with(".kubernetes.io");
        let max = if is_kubernetes { MAX_KUBERNETES_CERTIFICATE_SECONDS } else { MAX_CERTIFICATE_SECONDS };
        checker.in_range(
            &path.field("maxExpirationSeconds"),
            i64::from(seconds),
            MIN_CERTIFICATE_SECONDS,
            max,
        );
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
        checker.format(&path.field(field), file, formats::unreserved_path(file));
        files.add(file, &path.field(field), checker);
    }
    if count == 0 {
        checker.required(
            path,
            "specify at least one of credentialBundlePath, keyPath, and certificateChainPath",
        );
    }
}

/// Checks a name such as `example.com/signer-name`.
fn check_signer_name(name: &str, path: &Path, checker: &mut Checker) {
    if !checker.require_text(path, name) {
        return;
    }
    let is_valid = name.split_once('/').is_some_and(|(domain, signer)| {
        domain.contains('.')
            && domain.split('.').all(|label| formats::dns_label(label).is_none())
            && formats::dns_subdomain(signer).is_none()
    });
    if !is_valid {
        checker.invalid(
            path,
            name,
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        );
    }
}
