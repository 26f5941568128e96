//! Reads a kubeconfig.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri, header};
use kube::Config;
use kube::config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig};
use secrecy::ExposeSecret;

use super::credential::{Credential, CredentialError, read};
use crate::clients::ConnectError;

/// How to reach the API server, and with which credentials.
pub(crate) struct ServerAccess {
    /// Without the client certificate, which may change and is therefore not managed by `kube`.
    pub(crate) config: Config,
    pub(crate) certificate: CertificateSource,
    /// `proxy-url` of the kubeconfig.
    pub(crate) proxy: Option<Uri>,
    /// The `cluster` entry. File paths in it are absolute.
    pub(crate) server: serde_json::Value,
}

/// Source of the client certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CertificateSource {
    /// The kubeconfig has a token, a credential plugin, or no credentials.
    None,
    Inline {
        certificate: Vec<u8>,
        key: Vec<u8>,
    },
    /// PEM files, which another program may replace. They may be the same file.
    Files {
        certificate: PathBuf,
        key: PathBuf,
    },
}

impl CertificateSource {
    pub(crate) fn load(&self) -> Result<Option<Credential>, CredentialError> {
        match self {
            Self::None => Ok(None),
            Self::Inline { certificate, key } => Credential::from_pem(certificate, key).map(Some),
            Self::Files { certificate, key } => Credential::from_files(certificate, key).map(Some),
        }
    }
}

impl ServerAccess {
    /// Reads a kubeconfig. Relative paths in it are relative to its folder.
    pub(crate) async fn read(path: &Path) -> Result<Self, ConnectError> {
        let kubeconfig_error = |source| ConnectError::Kubeconfig { path: path.to_owned(), source };
        let file = Kubeconfig::read_from(path).map_err(kubeconfig_error)?;
        let cluster = current_cluster(&file).unwrap_or_default();
        let server = cluster_entry(&cluster);
        let inline_authority =
            cluster.certificate_authority_data.as_ref().is_some_and(|data| !data.is_empty());
        let authority = cluster.certificate_authority.filter(|file| !file.is_empty() && !inline_authority);
        let proxy = cluster.proxy_url.filter(|proxy| !proxy.is_empty()).map(|proxy| proxy.parse());
        let proxy = proxy
            .transpose()
            .map_err(kube::config::KubeconfigError::ParseProxyUrl)
            .map_err(kubeconfig_error)?;
        let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
            .await
            .map_err(kubeconfig_error)?;
        // kube rereads this file periodically, so a new authority needs no restart.
        config.root_cert_file = authority.map(PathBuf::from);
        config.headers.extend(user_agent().map(|value| (header::USER_AGENT, value)));
        let certificate = certificate_source(&mut config.auth_info)
            .map_err(|source| ConnectError::Certificate { path: path.to_owned(), source })?;
        Ok(Self { config, certificate, proxy, server })
    }

    /// Removes all credentials.
    pub(crate) fn without_credentials(mut self) -> Self {
        self.config.auth_info = AuthInfo::default();
        self.certificate = CertificateSource::None;
        self
    }
}

fn cluster_entry(cluster: &Cluster) -> serde_json::Value {
    let mut entry = serde_json::to_value(cluster).unwrap_or_default();
    if let Some(fields) = entry.as_object_mut() {
        fields.retain(|name, value| !value.is_null() && name != "extensions");
    }
    entry
}

/// Returns the `User-Agent`: the kubelet release that Podward is compatible with, then Podward itself.
fn user_agent() -> Option<HeaderValue> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let version = env!("CARGO_PKG_VERSION");
    HeaderValue::from_str(&format!("kubelet/v1.36.4 (linux/{architecture}) podward/{version}")).ok()
}

fn current_cluster(file: &Kubeconfig) -> Option<Cluster> {
    let context =
        file.contexts.iter().find(|context| Some(&context.name) == file.current_context.as_ref())?;
    let name = &context.context.as_ref()?.cluster;
    file.clusters.iter().find(|cluster| &cluster.name == name)?.cluster.clone()
}

/// Moves the certificate out of `user`. Inline data takes precedence over files, same as upstream.
fn certificate_source(user: &mut AuthInfo) -> Result<CertificateSource, CredentialError> {
    let certificate_data = user.client_certificate_data.take().filter(|data| !data.is_empty());
    let key_data = user.client_key_data.take().map(|data| data.expose_secret().to_owned());
    let key_data = key_data.filter(|data| !data.is_empty());
    let certificate = user.client_certificate.take().filter(|path| !path.is_empty()).map(PathBuf::from);
    let key = user.client_key.take().filter(|path| !path.is_empty()).map(PathBuf::from);
    if let (None, None, Some(certificate), Some(key)) = (&certificate_data, &key_data, &certificate, &key) {
        return Ok(CertificateSource::Files { certificate: certificate.clone(), key: key.clone() });
    }
    let certificate = inline_or_file("client-certificate-data", certificate_data, certificate)?;
    match (certificate, inline_or_file("client-key-data", key_data, key)?) {
        (Some(certificate), Some(key)) => Ok(CertificateSource::Inline { certificate, key }),
        _ => Ok(CertificateSource::None),
    }
}

fn inline_or_file(
    part: &'static str,
    data: Option<String>,
    file: Option<PathBuf>,
) -> Result<Option<Vec<u8>>, CredentialError> {
    match (data, file) {
        (Some(data), _) => {
            let decoded = STANDARD.decode(data.trim());
            decoded.map(Some).map_err(|error| CredentialError::Pem { part, reason: error.to_string() })
        }
        (None, Some(path)) => read(&path).map(Some),
        (None, None) => Ok(None),
    }
}
