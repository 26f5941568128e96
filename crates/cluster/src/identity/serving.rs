//! The certificate with which the node answers: from files, asked for, or made by itself.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use k8s_openapi::api::core::v1::NodeAddress;
use model::Timestamp;
use ports::certificate_meter::CertificateMeter;
use ports::clock::Clock;
use rcgen::{ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};
use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use x509_parser::time::ASN1Time;

use super::certificate_store::CertificateStore;
use super::client_authority::ClientAuthority;
use super::credential::{Credential, CredentialError, Names};
use super::current_certificate::CurrentCertificate;
use super::files::{WriteError, replace};
use super::renewal::Renewal;
use super::signing::{Purpose, node_names, params};
use super::tls_choices::{TlsChoiceError, TlsChoices};
use super::watched_files::{Reload, WatchedFiles};
use crate::Clients;

/// A certificate of our own making is good for a year, as upstream's.
const OWN_LIFE: Duration = Duration::from_secs(365 * 24 * 3600);
/// Clocks of those who ask may be behind.
const OWN_BACKDATE: Duration = Duration::from_secs(3600);

/// Why there is no serving certificate.
#[derive(Debug, thiserror::Error)]
pub enum ServingError {
    /// It cannot be used.
    #[error("serving certificate")]
    Credential(#[from] CredentialError),
    /// It cannot be made.
    #[error("make a serving certificate")]
    Make(#[from] rcgen::Error),
    /// It cannot be kept.
    #[error("keep the serving certificate")]
    Write(#[from] WriteError),
    /// Nobody could connect.
    #[error(transparent)]
    Choice(#[from] TlsChoiceError),
    /// TLS cannot be set up with it.
    #[error("set up TLS")]
    Tls(#[from] rustls::Error),
}

/// The certificate to answer with, which may change under way. New connections get the new one.
#[derive(Clone, Debug)]
pub struct ServingCertificate {
    resolver: Arc<dyn ResolvesServerCert>,
}

impl ServingCertificate {
    /// `tlsCertFile` and `tlsPrivateKeyFile`.
    ///
    /// # Errors
    /// When they cannot be used now.
    pub fn from_files(certificate: &Path, key: &Path, reload: Reload) -> Result<Self, ServingError> {
        let paths = vec![certificate.to_owned(), key.to_owned()];
        let files = WatchedFiles::new(paths, |paths| match paths {
            [certificate, key] => Credential::from_files(certificate, key),
            _ => Err(CredentialError::Certificate("two files are needed".to_owned())),
        })?
        .with_reload(reload);
        Ok(Self { resolver: Arc::new(FromFiles(files)) })
    }

    /// `kubelet.crt` and `kubelet.key` in the folder; made if they are not there, broken or expired.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn self_signed(
        folder: &Path,
        node: &str,
        addresses: &[IpAddr],
        now: Timestamp,
    ) -> Result<Self, ServingError> {
        let paths = (folder.join("kubelet.crt"), folder.join("kubelet.key"));
        let credential = match Credential::from_files(&paths.0, &paths.1) {
            Ok(found) if !found.is_expired(now) => found,
            Ok(_) | Err(_) => make_own(&paths, node, addresses, now)?,
        };
        Ok(Self { resolver: Arc::new(CurrentCertificate::new(Some(credential))) })
    }

    /// `serverTLSBootstrap`: asked for from the cluster, again before it ends and whenever the node's addresses become
    /// others. Until the first is approved nobody is answered, unless an earlier one or the one in `files`, a certificate
    /// and its key, is still good.
    pub fn requested(
        clients: &Clients,
        (folder, files): (&Path, Option<(&Path, &Path)>),
        node: &str,
        (addresses, naming): (watch::Receiver<Vec<NodeAddress>>, Naming),
        (clock, meter): (Arc<dyn Clock>, Arc<dyn CertificateMeter>),
    ) -> (Self, ServingUpkeep) {
        let store = CertificateStore::new(folder, "kubelet-server");
        let stored = store.current().unwrap_or_else(|error| {
            tracing::warn!(file = %store.current_path().display(), %error, "the stored certificate is of no use");
            None
        });
        let stored = stored.filter(|stored| !stored.is_expired(clock.now()));
        let current = CurrentCertificate::new(stored.or_else(|| initial(files, clock.now())));
        let (names, wanted) = watch::channel(serving_names(node, &addresses.borrow(), naming));
        let renewal = Renewal {
            purpose: Purpose::Serving,
            wanted,
            store,
            current: current.clone(),
            client: clients.main.clone(),
            bootstrap: None,
            links: None,
            clock,
            meter,
            server_refuses: AtomicBool::new(false),
        };
        let upkeep = ServingUpkeep { renewal, names, addresses, naming, node: node.to_owned() };
        (Self { resolver: Arc::new(current) }, upkeep)
    }

    /// For [`rustls::ConfigBuilder::with_cert_resolver`].
    #[must_use]
    pub fn resolver(&self) -> Arc<dyn ResolvesServerCert> {
        self.resolver.clone()
    }

    /// A server that answers with this certificate and, with an authority, asks clients for theirs. Whether a client's
    /// certificate is good is told by [`ClientAuthority::authenticate`]: a bad one may still come with a good token.
    ///
    /// # Errors
    /// When the cryptography does not do, or the choices leave nothing to speak.
    pub fn server_config(
        &self,
        authority: Option<&ClientAuthority>,
        choices: &TlsChoices,
    ) -> Result<ServerConfig, ServingError> {
        let builder = ServerConfig::builder_with_provider(choices.provider()?)
            .with_protocol_versions(choices.versions())?;
        let builder = match authority {
            Some(_) => builder.with_client_cert_verifier(ClientAuthority::asking_verifier()),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(self.resolver());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// Keeps a requested serving certificate good.
pub struct ServingUpkeep {
    renewal: Renewal,
    names: watch::Sender<Option<Names>>,
    addresses: watch::Receiver<Vec<NodeAddress>>,
    naming: Naming,
    node: String,
}

impl ServingUpkeep {
    /// Until `cancel`.
    pub async fn run(self, cancel: CancellationToken) {
        let Self { renewal, names, mut addresses, naming, node } = self;
        let follow = async {
            while addresses.changed().await.is_ok() {
                let now = serving_names(&node, &addresses.borrow_and_update(), naming);
                names.send_if_modified(|wanted| {
                    let changed = *wanted != now;
                    *wanted = now;
                    changed
                });
            }
            // Nobody will tell of others; what is known stays.
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = follow => {}
            () = renewal.run(false, cancel.clone()) => {}
        }
    }
}

/// What a node must have before a certificate is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// An IP address: nobody would sign without one.
    ByAddress,
    /// `AllowDNSOnlyNodeCSR`: a DNS name does.
    ByAnyName,
}

/// What a serving certificate of the node says; none while what it must have is missing.
fn serving_names(node: &str, addresses: &[NodeAddress], naming: Naming) -> Option<Names> {
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
    let is_named = naming == Naming::ByAnyName && !names.dns.is_empty();
    (is_named || !names.addresses.is_empty()).then_some(names)
}

/// What whoever set the node up left there for the time until a certificate is signed. Files that are not there yet are
/// as good as none.
fn initial(files: Option<(&Path, &Path)>, now: Timestamp) -> Option<Credential> {
    let (certificate, key) = files?;
    match Credential::from_files(certificate, key) {
        Ok(found) if !found.is_expired(now) => Some(found),
        Ok(_) => {
            tracing::warn!(file = %certificate.display(), "the certificate of tlsCertFile has expired");
            None
        }
        Err(error) => {
            tracing::warn!(file = %certificate.display(), %error, "tlsCertFile and tlsPrivateKeyFile are of no use");
            None
        }
    }
}

fn make_own(
    (certificate, key): &(PathBuf, PathBuf),
    node: &str,
    addresses: &[IpAddr],
    now: Timestamp,
) -> Result<Credential, ServingError> {
    let seconds = now.as_nanos().div_euclid(1_000_000_000);
    let (life, back) = (OWN_LIFE.as_secs().cast_signed(), OWN_BACKDATE.as_secs().cast_signed());
    let names = Names {
        common_name: format!("{node}@{seconds}"),
        dns: vec![node.to_owned()],
        addresses: addresses.to_vec(),
        ..Names::default()
    };
    let mut params = params(&names)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let date = |seconds| ASN1Time::from_timestamp(seconds).map(|time| time.to_datetime());
    if let (Ok(from), Ok(to)) = (date(seconds - back), date(seconds + life)) {
        (params.not_before, params.not_after) = (from, to);
    }
    let pair = KeyPair::generate()?;
    let made = params.self_signed(&pair)?;
    // The key first: a certificate without its key would look whole.
    replace(key, pair.serialize_pem().as_bytes(), 0o600)?;
    replace(certificate, made.pem().as_bytes(), 0o644)?;
    tracing::info!(file = %certificate.display(), "made a serving certificate, signed by itself");
    Ok(Credential::from_files(certificate, key)?)
}

/// A certificate in files.
struct FromFiles(WatchedFiles<Credential, CredentialError>);

impl ResolvesServerCert for FromFiles {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.current().key.clone())
    }
}

impl fmt::Debug for FromFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests;
