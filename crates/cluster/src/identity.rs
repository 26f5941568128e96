//! Who the node is to the API server, and to those who ask it.
//!
//! Comes in: `--kubeconfig` and its kin ([`Settings`]). Goes out: [`Clients`], and the work that keeps their
//! certificate good ([`Upkeep`]), to be run beside them.
//!
//! A node without a certificate asks for one with its bootstrap credentials (`bootstrap`); one that rotates asks anew
//! before the old one ends (`rotation`, `renewal`, `signing`); files that somebody else renews are read again
//! (`reload`). A change reaches all lanes: new connections use the new certificate, requests under way end on the old
//! ones, and watches take up where they were. Requests without any certificate wait for it.
//!
//! The other way round, `serving` is the certificate with which the node answers, and `client_authority` says whom it
//! believes.

mod bootstrap;
mod certificate_store;
mod client_authority;
mod credential;
mod current_certificate;
mod files;
mod kubeconfig;
mod reload;
mod renewal;
mod rotation;
mod serving;
mod signing;
#[cfg(test)]
pub(crate) mod test_certificates;
mod tls_choices;
mod watched_files;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ports::certificate_meter::CertificateMeter;
use ports::clock::Clock;
use ports::request_meter::RequestMeter;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clients::{ClientSettings, Clients, ConnectError, Links};
use bootstrap::Bootstrap;
use certificate_store::CertificateStore;
use reload::ReloadedFiles;
use renewal::Renewal;
use signing::{Purpose, node_names};

pub use client_authority::{ClientAuthority, Unauthenticated};
pub use credential::{Credential, CredentialError, Names};
pub(crate) use current_certificate::CurrentCertificate;
pub use files::WriteError;
pub(crate) use kubeconfig::{Access, CertificateSource};
pub use serving::{Naming, ServingCertificate, ServingError, ServingUpkeep};
pub use tls_choices::{TlsChoiceError, TlsChoices};
pub use watched_files::Reload;

/// How the node joins its cluster.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `--kubeconfig`.
    pub kubeconfig: PathBuf,
    /// `--bootstrap-kubeconfig`: used when the kubeconfig is missing, broken or expired.
    pub bootstrap_kubeconfig: Option<PathBuf>,
    /// `--cert-dir`.
    pub certificate_folder: PathBuf,
    /// The node's name.
    pub node: String,
    /// `rotateCertificates`.
    pub rotate: bool,
    /// How much the server may be asked.
    pub clients: ClientSettings,
}

/// Who is told what the clients do.
#[derive(Clone)]
pub struct Meters {
    /// Requests.
    pub requests: Arc<dyn RequestMeter>,
    /// The client certificate, if it is renewed.
    pub certificates: Arc<dyn CertificateMeter>,
}

impl Default for Meters {
    fn default() -> Self {
        Self { requests: Arc::new(()), certificates: Arc::new(()) }
    }
}

/// Makes the clients; no request is sent yet.
///
/// # Errors
/// When the settings cannot be used.
pub async fn connect(
    settings: Settings,
    clock: Arc<dyn Clock>,
    meters: Meters,
) -> Result<(Clients, Upkeep), ConnectError> {
    let store = CertificateStore::new(&settings.certificate_folder, "kubelet-client");
    let joining = Joining { stored: usable(&store, &settings, &*clock), store, settings, clock, meters };
    if let Some(bootstrap) = joining.bootstrap().await? {
        return joining.without_certificate(bootstrap).await;
    }
    let access = Access::read(&joining.settings.kubeconfig).await?;
    if joining.settings.rotate { joining.rotating(access).await } else { joining.unrotated(access).await }
}

/// The stored certificate, if it is this node's and still good.
fn usable(store: &CertificateStore, settings: &Settings, clock: &dyn Clock) -> Option<Credential> {
    match store.current() {
        Ok(found) => found.filter(|found| {
            !found.is_expired(clock.now()) && rotation::satisfies(found, &node_names(&settings.node))
        }),
        Err(error) => {
            tracing::warn!(file = %store.current_path().display(), %error, "the stored certificate is of no use");
            None
        }
    }
}

struct Joining {
    settings: Settings,
    store: CertificateStore,
    stored: Option<Credential>,
    clock: Arc<dyn Clock>,
    meters: Meters,
}

impl Joining {
    /// The way to a first certificate, if the kubeconfig does not do and none is stored.
    async fn bootstrap(&self) -> Result<Option<Bootstrap>, ConnectError> {
        let Some(bootstrap_kubeconfig) = &self.settings.bootstrap_kubeconfig else { return Ok(None) };
        let path = &self.settings.kubeconfig;
        let Some(reason) = bootstrap::useless(path, self.clock.now()).await else { return Ok(None) };
        tracing::info!(kubeconfig = %path.display(), reason, "bootstrapping");
        let server = Access::read(bootstrap_kubeconfig).await?.server;
        let bootstrap = Bootstrap {
            kubeconfig: bootstrap_kubeconfig.clone(),
            folder: self.settings.certificate_folder.clone(),
            target: Some((path.clone(), server)),
        };
        if self.stored.is_none() {
            return Ok(Some(bootstrap));
        }
        // An agent before this one got as far as the certificate.
        let written = bootstrap.finish(&self.store.current_path());
        written.map_err(|error| ConnectError::Bootstrap(error.to_string()))?;
        Ok(None)
    }

    async fn without_certificate(self, bootstrap: Bootstrap) -> Result<(Clients, Upkeep), ConnectError> {
        let access = Access::read(&bootstrap.kubeconfig).await?.anonymous();
        let current = CurrentCertificate::new(None);
        let (clients, links) =
            Clients::open(access, Some(current.clone()), self.settings.clients, self.meters.requests.clone())
                .await?;
        let renewal = self.renewal(&clients, current.clone(), links.clone(), Some(bootstrap));
        let work = if self.settings.rotate {
            Work::Rotation { renewal, renew_now: true }
        } else {
            let path = self.store.current_path();
            Work::First {
                renewal,
                files: ReloadedFiles { certificate: path.clone(), key: path, current, links },
            }
        };
        Ok((clients, Upkeep { work: Box::new(work) }))
    }

    async fn unrotated(self, access: Access) -> Result<(Clients, Upkeep), ConnectError> {
        let source = access.certificate.clone();
        let credential = self.load(&source)?;
        if let Some(expired) = credential.as_ref().filter(|found| found.is_expired(self.clock.now())) {
            tracing::error!(kubeconfig = %self.settings.kubeconfig.display(), expired = %expired.not_after,
                "the client certificate has expired and rotateCertificates is off: renew it");
        }
        let certificate = credential.map(|credential| CurrentCertificate::new(Some(credential)));
        let (clients, links) =
            Clients::open(access, certificate.clone(), self.settings.clients, self.meters.requests.clone())
                .await?;
        let work = match (source, certificate) {
            (CertificateSource::Files { certificate, key }, Some(current)) => {
                Work::Files(ReloadedFiles { certificate, key, current, links })
            }
            _ => Work::None,
        };
        Ok((clients, Upkeep { work: Box::new(work) }))
    }

    /// The stored certificate goes before the one of the kubeconfig, which was only the first.
    async fn rotating(mut self, access: Access) -> Result<(Clients, Upkeep), ConnectError> {
        let bootstrap = |kubeconfig: &PathBuf| Bootstrap {
            kubeconfig: kubeconfig.clone(),
            folder: self.settings.certificate_folder.clone(),
            target: None,
        };
        let mut again = self.settings.bootstrap_kubeconfig.as_ref().map(bootstrap);
        if self.stored.is_none() && access.certificate == CertificateSource::None {
            // A token or a program: good enough to ask for a certificate, as upstream.
            again = Some(bootstrap(&self.settings.kubeconfig));
        }
        let (credential, renew_now) = match self.stored.take() {
            Some(stored) => (Some(stored), false),
            None => self.given(&access.certificate)?,
        };
        let current = CurrentCertificate::new(credential);
        let clients = Clients::open(
            access.anonymous(),
            Some(current.clone()),
            self.settings.clients,
            self.meters.requests.clone(),
        );
        let (clients, links) = clients.await?;
        let renewal = self.renewal(&clients, current, links, again);
        Ok((clients, Upkeep { work: Box::new(Work::Rotation { renewal, renew_now }) }))
    }

    /// The kubeconfig's certificate, and whether it is to be changed for one of our own at once.
    fn given(&self, source: &CertificateSource) -> Result<(Option<Credential>, bool), ConnectError> {
        let credential = self.load(source)?;
        if let CertificateSource::Inline { certificate, key } = source
            && let Err(error) = self.store.update(certificate, key, self.clock.now())
        {
            tracing::warn!(%error, "the kubeconfig's certificate was not stored");
        }
        let renew_now = !matches!(source, CertificateSource::Files { .. });
        Ok((credential, renew_now))
    }

    fn load(&self, source: &CertificateSource) -> Result<Option<Credential>, ConnectError> {
        let path = self.settings.kubeconfig.clone();
        source.load().map_err(|source| ConnectError::Certificate { path, source })
    }

    fn renewal(
        &self,
        clients: &Clients,
        current: CurrentCertificate,
        links: Links,
        bootstrap: Option<Bootstrap>,
    ) -> Renewal {
        Renewal {
            purpose: Purpose::Client,
            wanted: watch::channel(Some(node_names(&self.settings.node))).1,
            store: self.store.clone(),
            current,
            client: clients.main.clone(),
            bootstrap,
            links: Some(links),
            clock: self.clock.clone(),
            meter: self.meters.certificates.clone(),
            server_refuses: AtomicBool::new(false),
        }
    }
}

/// Keeps the certificate of the clients good.
pub struct Upkeep {
    work: Box<Work>,
}

enum Work {
    None,
    Files(ReloadedFiles),
    First { renewal: Renewal, files: ReloadedFiles },
    Rotation { renewal: Renewal, renew_now: bool },
}

impl Upkeep {
    /// Until `cancel`. Ends before only when the node has no identity any more and must be started anew; the reason
    /// was logged.
    pub async fn run(self, cancel: CancellationToken) {
        match *self.work {
            Work::None => cancel.cancelled().await,
            Work::Files(files) => files.run(cancel).await,
            Work::Rotation { renewal, renew_now } => renewal.run(renew_now, cancel).await,
            Work::First { renewal, files } => {
                if renewal.first(&cancel).await {
                    files.run(cancel).await;
                }
            }
        }
    }
}
