//! The node's serving certificate: from files, requested from the cluster, or self-signed.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use k8s_openapi::api::core::v1::NodeAddress;
use model::Timestamp;
use ports::clock::Clock;
use ports::telemetry::certificate_meter::CertificateMeter;
use rcgen::{ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};
use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use x509_parser::time::ASN1Time;

use super::certificate_store::CertificateStore;
use super::client_authority::ClientAuthority;
use super::credential::{CertificateNames, Credential, CredentialError};
use super::current_certificate::CurrentCertificate;
use super::files::{WriteError, replace};
use super::renewal::CertificateRenewer;
use super::signing::{Purpose, node_names, params};
use super::tls_options::{TlsOptions, TlsOptionsError};
use super::watched_files::{Reload, WatchedFiles};
use crate::Clients;

/// Validity of a self-signed certificate, same as upstream.
const SELF_SIGNED_VALIDITY: Duration = Duration::from_secs(365 * 24 * 3600);
/// Tolerates clients whose clock is behind.
const SELF_SIGNED_BACKDATE: Duration = Duration::from_secs(3600);

#[derive(Debug, thiserror::Error)]
pub enum ServingError {
    #[error("serving certificate")]
    Credential(#[from] CredentialError),
    #[error("generate serving certificate")]
    Generate(#[from] rcgen::Error),
    #[error("store serving certificate")]
    Write(#[from] WriteError),
    #[error(transparent)]
    Options(#[from] TlsOptionsError),
    #[error("configure TLS")]
    Tls(#[from] rustls::Error),
}

/// The node's serving certificate. It may change at runtime; new connections use the new one.
#[derive(Clone, Debug)]
pub struct ServingCertificate {
    resolver: Arc<dyn ResolvesServerCert>,
}

impl ServingCertificate {
    /// `tlsCertFile` and `tlsPrivateKeyFile`.
    ///
    /// # Errors
    /// If a file cannot be read, or the certificate and key are invalid.
    pub fn from_files(certificate: &Path, key: &Path, reload: Reload) -> Result<Self, ServingError> {
        let paths = vec![certificate.to_owned(), key.to_owned()];
        let files = WatchedFiles::new(paths, reload, |paths| match paths {
            [certificate, key] => Credential::from_files(certificate, key),
            _ => Err(CredentialError::Certificate("two files are needed".to_owned())),
        })?;
        Ok(Self { resolver: Arc::new(FromFiles(files)) })
    }

    /// `kubelet.crt` and `kubelet.key` in the folder; generated if missing, invalid or expired.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn self_signed(
        folder: &Path,
        node: &str,
        addresses: &[IpAddr],
        now: Timestamp,
    ) -> Result<Self, ServingError> {
        let paths = (folder.join("kubelet.crt"), folder.join("kubelet.key"));
        let credential = match Credential::from_files(&paths.0, &paths.1) {
            Ok(found) if !found.is_expired(now) => found,
            Ok(_) | Err(_) => generate_self_signed(&paths, node, addresses, now)?,
        };
        Ok(Self { resolver: Arc::new(CurrentCertificate::new(Some(credential))) })
    }

    /// `serverTLSBootstrap`: requested from the cluster, and again before it expires or when the node's addresses change.
    /// Until the first one is approved, TLS handshakes fail, unless an earlier certificate or the one in `files`
    /// (certificate and key) is still valid.
    pub fn requested(
        clients: &Clients,
        (folder, files): (&Path, Option<(&Path, &Path)>),
        node: &str,
        (addresses, required): (watch::Receiver<Vec<NodeAddress>>, RequiredNames),
        (clock, meter): (Arc<dyn Clock>, Arc<dyn CertificateMeter>),
    ) -> (Self, ServingCertificateManager) {
        let store = CertificateStore::new(folder, "kubelet-server");
        let stored = store.current().unwrap_or_else(|error| {
            tracing::warn!(file = %store.current_path().display(), %error, "ignoring unusable stored serving certificate");
            None
        });
        let stored = stored.filter(|stored| !stored.is_expired(clock.now()));
        let current = CurrentCertificate::new(stored.or_else(|| load_initial(files, clock.now())));
        let (names, desired_names) = watch::channel(serving_names(node, &addresses.borrow(), required));
        let renewer = CertificateRenewer {
            purpose: Purpose::Serving,
            desired_names,
            store,
            current: current.clone(),
            client: clients.main.clone(),
            bootstrap: None,
            connections: None,
            clock,
            meter,
            server_rejects: AtomicBool::new(false),
        };
        let manager =
            ServingCertificateManager { renewer, names, addresses, required, node: node.to_owned() };
        (Self { resolver: Arc::new(current) }, manager)
    }

    /// For [`rustls::ConfigBuilder::with_cert_resolver`].
    #[must_use]
    pub fn resolver(&self) -> Arc<dyn ResolvesServerCert> {
        self.resolver.clone()
    }

    /// Creates a server configuration that, with an authority, requests client certificates. It does not verify them,
    /// because a client with an untrusted certificate may still have a valid token; see
    /// [`ClientAuthority::authenticate`].
    ///
    /// # Errors
    /// If `options` leave no supported cipher suite or key exchange.
    pub fn server_config(
        &self,
        authority: Option<&ClientAuthority>,
        options: &TlsOptions,
    ) -> Result<ServerConfig, ServingError> {
        let builder = ServerConfig::builder_with_provider(options.provider()?)
            .with_protocol_versions(options.versions())?;
        let builder = match authority {
            Some(_) => builder.with_client_cert_verifier(ClientAuthority::key_possession_verifier()),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(self.resolver());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// Renews a serving certificate that was requested from the cluster.
pub struct ServingCertificateManager {
    renewer: CertificateRenewer,
    names: watch::Sender<Option<CertificateNames>>,
    addresses: watch::Receiver<Vec<NodeAddress>>,
    required: RequiredNames,
    node: String,
}

impl ServingCertificateManager {
    /// Runs until `cancel`.
    pub async fn run(self, cancel: CancellationToken) {
        let Self { renewer, names, mut addresses, required, node } = self;
        let follow_addresses = async {
            while addresses.changed().await.is_ok() {
                let now = serving_names(&node, &addresses.borrow_and_update(), required);
                names.send_if_modified(|desired| {
                    let changed = *desired != now;
                    *desired = now;
                    changed
                });
            }
            // The sender was dropped: keep the last addresses.
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = follow_addresses => {}
            () = renewer.run(false, cancel.clone()) => {}
        }
    }
}

/// Names that a node must have before it requests a serving certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredNames {
    /// Signers usually reject requests without an IP address.
    IpAddress,
    /// `AllowDNSOnlyNodeCSR`: a DNS name is sufficient.
    IpAddressOrDns,
}

/// Returns the names of the node's serving certificate, or `None` while a required name is missing.
fn serving_names(node: &str, addresses: &[NodeAddress], required: RequiredNames) -> Option<CertificateNames> {
    let mut names = node_names(node);
    for address in addresses.iter().filter(|address| !address.address.is_empty()) {
        let text = &address.address;
        match (address.type_.as_str(), text.parse::<IpAddr>()) {
            ("InternalIP" | "ExternalIP" | "Hostname", Ok(ip)) => names.addresses.push(ip),
            ("Hostname", Err(_)) | ("InternalDNS" | "ExternalDNS", _) => names.dns.push(text.clone()),
            _ => {}
        }
    }
    names.dns.sort();
    names.dns.dedup();
    names.addresses.sort_by_key(ToString::to_string);
    names.addresses.dedup();
    let has_dns_name = required == RequiredNames::IpAddressOrDns && !names.dns.is_empty();
    (has_dns_name || !names.addresses.is_empty()).then_some(names)
}

/// Loads the certificate that the installer provided for the time until one is signed. Missing files are not an error.
fn load_initial(files: Option<(&Path, &Path)>, now: Timestamp) -> Option<Credential> {
    let (certificate, key) = files?;
    match Credential::from_files(certificate, key) {
        Ok(found) if !found.is_expired(now) => Some(found),
        Ok(_) => {
            tracing::warn!(file = %certificate.display(), "certificate in tlsCertFile has expired");
            None
        }
        Err(error) => {
            tracing::warn!(file = %certificate.display(), %error, "failed to load tlsCertFile and tlsPrivateKeyFile");
            None
        }
    }
}

fn generate_self_signed(
    (certificate, key): &(PathBuf, PathBuf),
    node: &str,
    addresses: &[IpAddr],
    now: Timestamp,
) -> Result<Credential, ServingError> {
    let seconds = now.as_nanos().div_euclid(1_000_000_000);
    let (life, back) =
        (SELF_SIGNED_VALIDITY.as_secs().cast_signed(), SELF_SIGNED_BACKDATE.as_secs().cast_signed());
    let names = CertificateNames {
        common_name: format!("{node}@{seconds}"),
        dns: vec![node.to_owned()],
        addresses: addresses.to_vec(),
        ..CertificateNames::default()
    };
    let mut params = params(&names)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let date = |seconds| ASN1Time::from_timestamp(seconds).map(|time| time.to_datetime());
    if let (Ok(from), Ok(to)) = (date(seconds - back), date(seconds + life)) {
        (params.not_before, params.not_after) = (from, to);
    }
    let pair = KeyPair::generate()?;
    let generated = params.self_signed(&pair)?;
    // The key first: an interruption must not leave a new certificate with an old key.
    replace(key, pair.serialize_pem().as_bytes(), 0o600)?;
    replace(certificate, generated.pem().as_bytes(), 0o644)?;
    tracing::info!(file = %certificate.display(), "generated self-signed serving certificate");
    Ok(Credential::from_files(certificate, key)?)
}

#[derive(Debug)]
struct FromFiles(WatchedFiles<Credential, CredentialError>);

impl ResolvesServerCert for FromFiles {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.current().key.clone())
    }
}

#[cfg(test)]
mod tests;
