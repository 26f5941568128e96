//! Projected volumes: several sources in one directory.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    ClusterTrustBundleProjection, PodCertificateProjection, ProjectedVolumeSource,
    ServiceAccountTokenProjection, VolumeProjection,
};

use super::checker::Checker;
use super::{affinity, formats, volumes};
use crate::path::Path;

const KEY_TYPES: [&str; 6] = ["ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519", "RSA3072", "RSA4096"];
const SHORTEST_TOKEN: i64 = 10 * 60;
const LONGEST_TOKEN: i64 = 1 << 32;
const SHORTEST_CERTIFICATE: i64 = 60 * 60;
const LONGEST_CERTIFICATE: i64 = 91 * 24 * 60 * 60;
const LONGEST_KUBERNETES_CERTIFICATE: i64 = 24 * 60 * 60;

/// Checks a projected volume.
pub(super) fn check(projected: &ProjectedVolumeSource, at: &Path, check: &mut Checker) {
    volumes::file_mode(projected.default_mode, &at.field("defaultMode"), check);
    let mut files = Files::default();
    for (at, source) in at.field("sources").items(projected.sources.as_deref().unwrap_or_default()) {
        api_objects(source, &mut files, &at, check);
        if let Some(token) = &source.service_account_token {
            service_account_token(token, &at.field("serviceAccountToken"), check);
        }
        if let Some(bundle) = &source.cluster_trust_bundle {
            trust_bundle(bundle, &mut files, &at.field("clusterTrustBundle"), check);
        }
        if let Some(certificate) = &source.pod_certificate {
            pod_certificate(certificate, &mut files, &at.field("podCertificate"), check);
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
            0 => check.required(&at, "must specify a volume source"),
            1 => {}
            _ => check.forbidden(&at, "may not specify more than 1 volume type per source"),
        }
    }
}

/// The files that earlier sources put into the directory.
#[derive(Default)]
struct Files(BTreeSet<String>);

impl Files {
    fn add(&mut self, file: &str, at: &Path, check: &mut Checker) {
        if !file.is_empty() && !self.0.insert(file.to_owned()) {
            check.invalid(at, file, "conflicting duplicate paths");
        }
    }
}

fn api_objects(source: &VolumeProjection, files: &mut Files, at: &Path, check: &mut Checker) {
    let secret = source.secret.as_ref().map(|source| ("secret", &source.name, &source.items));
    let config_map = source.config_map.as_ref().map(|source| ("configMap", &source.name, &source.items));
    for (field, name, items) in [secret, config_map].into_iter().flatten() {
        let at = at.field(field);
        check.require_text(&at.field("name"), name);
        for (at, item) in at.field("items").items(items.as_deref().unwrap_or_default()) {
            volumes::key_to_path(item, &at, check);
            files.add(&item.path, &at.field("path"), check);
        }
    }
    let items = source.downward_api.as_ref().and_then(|source| source.items.as_deref()).unwrap_or_default();
    for (at, file) in at.field("downwardAPI.items").items(items) {
        volumes::downward_file(file, &at, check);
        files.add(&file.path, &at.field("path"), check);
    }
}

fn service_account_token(token: &ServiceAccountTokenProjection, at: &Path, check: &mut Checker) {
    let seconds = token.expiration_seconds.unwrap_or_default();
    check.in_range(&at.field("expirationSeconds"), seconds, SHORTEST_TOKEN, LONGEST_TOKEN);
    if check.require_text(&at.field("path"), &token.path) {
        check.format(&at.field("path"), &token.path, formats::unreserved_path(&token.path));
    }
}

fn trust_bundle(bundle: &ClusterTrustBundleProjection, files: &mut Files, at: &Path, check: &mut Checker) {
    match (&bundle.name, &bundle.signer_name) {
        (Some(_), Some(_)) => check.invalid(at, "", "only one of name and signerName may be used"),
        (None, None) => check.required(at, "either name or signerName must be specified"),
        (Some(name), None) => {
            check.require_text(&at.field("name"), name);
            if bundle.label_selector.is_some() {
                check.invalid(&at.field("labelSelector"), "", "must be unset if name is specified");
            }
        }
        (None, Some(signer)) => {
            signer_name(signer, &at.field("signerName"), check);
            affinity::label_selector(bundle.label_selector.as_ref(), &at.field("labelSelector"), check);
        }
    }
    if check.require_text(&at.field("path"), &bundle.path) {
        check.format(&at.field("path"), &bundle.path, formats::unreserved_path(&bundle.path));
    }
    files.add(&bundle.path, &at.field("path"), check);
}

fn pod_certificate(
    certificate: &PodCertificateProjection,
    files: &mut Files,
    at: &Path,
    check: &mut Checker,
) {
    signer_name(&certificate.signer_name, &at.field("signerName"), check);
    check.one_of(&at.field("keyType"), &certificate.key_type, &KEY_TYPES);
    if let Some(seconds) = certificate.max_expiration_seconds {
        let host = certificate.signer_name.split('/').next().unwrap_or_default();
        let is_ours = host == "kubernetes.io" || host.ends_with(".kubernetes.io");
        let longest = if is_ours { LONGEST_KUBERNETES_CERTIFICATE } else { LONGEST_CERTIFICATE };
        check.in_range(&at.field("maxExpirationSeconds"), i64::from(seconds), SHORTEST_CERTIFICATE, longest);
    }
    let paths = [
        ("credentialBundlePath", &certificate.credential_bundle_path),
        ("keyPath", &certificate.key_path),
        ("certificateChainPath", &certificate.certificate_chain_path),
    ];
    let mut count = 0;
    for (field, path) in paths {
        let Some(path) = path.as_deref().filter(|path| !path.is_empty()) else { continue };
        count += 1;
        check.format(&at.field(field), path, formats::unreserved_path(path));
        files.add(path, &at.field(field), check);
    }
    if count == 0 {
        check.required(at, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath");
    }
}

/// `example.com/signer-name`.
fn signer_name(name: &str, at: &Path, check: &mut Checker) {
    if !check.require_text(at, name) {
        return;
    }
    let is_fine = name.split_once('/').is_some_and(|(domain, path)| {
        domain.contains('.')
            && domain.split('.').all(|label| formats::dns_label(label).is_none())
            && formats::dns_subdomain(path).is_none()
    });
    if !is_fine {
        check.invalid(
            at,
            name,
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        );
    }
}
