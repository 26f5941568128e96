//! The node's client and serving certificates, and the verification of client certificates.
//!
//! Input: `--kubeconfig` and related flags ([`IdentitySettings`]). Output: [`Clients`], and the
//! [`ClientCertificateManager`] that renews their certificate and runs beside them.
//!
//! A node without a certificate requests one with its bootstrap credentials (`bootstrap`). A node that rotates requests a
//! new one before the old one expires (`rotation`, `renewal`, `signing`). Certificate files that another program renews
//! are reloaded (`reload`). A new certificate reaches all clients: new connections use it, requests in flight finish on
//! the old connections, and watches resume on new ones. Until there is a first certificate, requests wait.
//!
//! `serving` provides the certificate of the node's own server, and `client_authority` verifies the certificates of its
//! clients.

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
mod tls_options;
mod watched_files;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ports::clock::Clock;
use ports::telemetry::certificate_meter::CertificateMeter;
use ports::telemetry::request_meter::RequestMeter;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clients::{ClientConnections, ClientSettings, Clients, ConnectError};
use bootstrap::Bootstrap;
use certificate_store::CertificateStore;
use reload::CertificateFileReloader;
use renewal::CertificateRenewer;
use signing::{Purpose, node_names};

pub use client_authority::{ClientAuthority, ClientCertificateError};
pub use credential::{CertificateNames, Credential, CredentialError};
pub(crate) use current_certificate::CurrentCertificate;
pub use files::WriteError;
pub(crate) use kubeconfig::{CertificateSource, ServerAccess};
pub use serving::{RequiredNames, ServingCertificate, ServingCertificateManager, ServingError};
pub use tls_options::{TlsOptions, TlsOptionsError};
pub use watched_files::Reload;

/// How the node authenticates to its API server.
#[derive(Clone, Debug)]
pub struct IdentitySettings {
    /// `--kubeconfig`.
    pub kubeconfig: PathBuf,
    /// `--bootstrap-kubeconfig`: used if the kubeconfig is missing or invalid, or its certificate has expired.
    pub bootstrap_kubeconfig: Option<PathBuf>,
    /// `--cert-dir`.
    pub certificate_folder: PathBuf,
    pub node: String,
    /// `rotateCertificates`.
    pub rotate: bool,
    pub clients: ClientSettings,
}

#[derive(Clone)]
pub struct IdentityMeters {
    pub requests: Arc<dyn RequestMeter>,
    /// Receives the state of the client certificate, if the agent renews it.
    pub certificates: Arc<dyn CertificateMeter>,
}

impl Default for IdentityMeters {
    fn default() -> Self {
        Self { requests: Arc::new(()), certificates: Arc::new(()) }
    }
}

/// Creates the clients. Sends no request.
///
/// # Errors
/// If a kubeconfig or certificate is invalid, or a file cannot be read or written.
pub async fn connect(
    settings: IdentitySettings,
    clock: Arc<dyn Clock>,
    meters: IdentityMeters,
) -> Result<(Clients, ClientCertificateManager), ConnectError> {
    let store = CertificateStore::new(&settings.certificate_folder, "kubelet-client");
    let setup =
        IdentitySetup { stored: load_stored(&store, &settings, &*clock), store, settings, clock, meters };
    if let Some(bootstrap) = setup.prepare_bootstrap().await? {
        return setup.connect_without_certificate(bootstrap).await;
    }
    let access = ServerAccess::read(&setup.settings.kubeconfig).await?;
    if setup.settings.rotate {
        setup.connect_with_rotation(access).await
    } else {
        setup.connect_without_rotation(access).await
    }
}

/// Loads the stored certificate if it belongs to this node and has not expired.
fn load_stored(
    store: &CertificateStore,
    settings: &IdentitySettings,
    clock: &dyn Clock,
) -> Option<Credential> {
    match store.current() {
        Ok(found) => found.filter(|found| {
            !found.is_expired(clock.now()) && rotation::satisfies(found, &node_names(&settings.node))
        }),
        Err(error) => {
            tracing::warn!(file = %store.current_path().display(), %error, "ignoring unusable stored client certificate");
            None
        }
    }
}

struct IdentitySetup {
    settings: IdentitySettings,
    store: CertificateStore,
    stored: Option<Credential>,
    clock: Arc<dyn Clock>,
    meters: IdentityMeters,
}

impl IdentitySetup {
    /// Returns the bootstrap credentials if the kubeconfig is unusable and no certificate is stored.
    async fn prepare_bootstrap(&self) -> Result<Option<Bootstrap>, ConnectError> {
        let Some(bootstrap_kubeconfig) = &self.settings.bootstrap_kubeconfig else { return Ok(None) };
        let path = &self.settings.kubeconfig;
        let Some(reason) = bootstrap::reason_to_bootstrap(path, self.clock.now()).await else {
            return Ok(None);
        };
        tracing::info!(kubeconfig = %path.display(), reason, "kubeconfig is unusable; bootstrapping");
        let server = ServerAccess::read(bootstrap_kubeconfig).await?.server;
        let bootstrap = Bootstrap {
            kubeconfig: bootstrap_kubeconfig.clone(),
            folder: self.settings.certificate_folder.clone(),
            target: Some((path.clone(), server)),
        };
        if self.stored.is_none() {
            return Ok(Some(bootstrap));
        }
        // An earlier run received the certificate, but stopped before it wrote the kubeconfig.
        let written = bootstrap.finish(&self.store.current_path());
        written.map_err(|error| ConnectError::Bootstrap(error.to_string()))?;
        Ok(None)
    }

    async fn connect_without_certificate(
        self,
        bootstrap: Bootstrap,
    ) -> Result<(Clients, ClientCertificateManager), ConnectError> {
        let access = ServerAccess::read(&bootstrap.kubeconfig).await?.without_credentials();
        let current = CurrentCertificate::new(None);
        let (clients, connections) = self.open_clients(access, Some(current.clone())).await?;
        let renewer = self.create_renewer(&clients, current.clone(), connections.clone(), Some(bootstrap));
        let task = if self.settings.rotate {
            CertificateTask::Rotation { renewer, renew_now: true }
        } else {
            let path = self.store.current_path();
            CertificateTask::FirstThenFiles {
                renewer,
                files: CertificateFileReloader { certificate: path.clone(), key: path, current, connections },
            }
        };
        Ok((clients, ClientCertificateManager::new(task)))
    }

    async fn connect_without_rotation(
        self,
        access: ServerAccess,
    ) -> Result<(Clients, ClientCertificateManager), ConnectError> {
        let source = access.certificate.clone();
        let credential = self.load(&source)?;
        if let Some(expired) = credential.as_ref().filter(|found| found.is_expired(self.clock.now())) {
            tracing::error!(kubeconfig = %self.settings.kubeconfig.display(), expired = %expired.not_after,
                "client certificate has expired and rotateCertificates is off; renew it manually");
        }
        let certificate = credential.map(|credential| CurrentCertificate::new(Some(credential)));
        let (clients, connections) = self.open_clients(access, certificate.clone()).await?;
        let task = match (source, certificate) {
            (CertificateSource::Files { certificate, key }, Some(current)) => {
                CertificateTask::Files(CertificateFileReloader { certificate, key, current, connections })
            }
            _ => CertificateTask::None,
        };
        Ok((clients, ClientCertificateManager::new(task)))
    }

    /// Prefers the stored certificate: the one in the kubeconfig may be an older one.
    async fn connect_with_rotation(
        mut self,
        access: ServerAccess,
    ) -> Result<(Clients, ClientCertificateManager), ConnectError> {
        let bootstrap = |kubeconfig: &PathBuf| Bootstrap {
            kubeconfig: kubeconfig.clone(),
            folder: self.settings.certificate_folder.clone(),
            target: None,
        };
        let mut fallback = self.settings.bootstrap_kubeconfig.as_ref().map(bootstrap);
        if self.stored.is_none() && access.certificate == CertificateSource::None {
            // A token or a credential plugin can request a certificate, same as upstream.
            fallback = Some(bootstrap(&self.settings.kubeconfig));
        }
        let (credential, renew_now) = match self.stored.take() {
            Some(stored) => (Some(stored), false),
            None => self.load_initial(&access.certificate)?,
        };
        let current = CurrentCertificate::new(credential);
        let access = access.without_credentials();
        let (clients, connections) = self.open_clients(access, Some(current.clone())).await?;
        let renewer = self.create_renewer(&clients, current, connections, fallback);
        Ok((clients, ClientCertificateManager::new(CertificateTask::Rotation { renewer, renew_now })))
    }

    async fn open_clients(
        &self,
        access: ServerAccess,
        certificate: Option<CurrentCertificate>,
    ) -> Result<(Clients, ClientConnections), ConnectError> {
        Clients::open(access, certificate, self.settings.clients, self.meters.requests.clone()).await
    }

    /// Loads the kubeconfig's certificate, and returns whether to replace it immediately with a rotated one.
    fn load_initial(&self, source: &CertificateSource) -> Result<(Option<Credential>, bool), ConnectError> {
        let credential = self.load(source)?;
        if let CertificateSource::Inline { certificate, key } = source
            && let Err(error) = self.store.update(certificate, key, self.clock.now())
        {
            tracing::warn!(%error, "failed to store the kubeconfig's certificate");
        }
        let renew_now = !matches!(source, CertificateSource::Files { .. });
        Ok((credential, renew_now))
    }

    fn load(&self, source: &CertificateSource) -> Result<Option<Credential>, ConnectError> {
        let path = self.settings.kubeconfig.clone();
        source.load().map_err(|source| ConnectError::Certificate { path, source })
    }

    fn create_renewer(
        &self,
        clients: &Clients,
        current: CurrentCertificate,
        connections: ClientConnections,
        bootstrap: Option<Bootstrap>,
    ) -> CertificateRenewer {
        CertificateRenewer {
            purpose: Purpose::Client,
            desired_names: watch::channel(Some(node_names(&self.settings.node))).1,
            store: self.store.clone(),
            current,
            client: clients.main.clone(),
            bootstrap,
            connections: Some(connections),
            clock: self.clock.clone(),
            meter: self.meters.certificates.clone(),
            server_rejects: AtomicBool::new(false),
        }
    }
}

/// Renews or reloads the certificate of the clients.
pub struct ClientCertificateManager {
    task: Box<CertificateTask>,
}

enum CertificateTask {
    None,
    Files(CertificateFileReloader),
    FirstThenFiles { renewer: CertificateRenewer, files: CertificateFileReloader },
    Rotation { renewer: CertificateRenewer, renew_now: bool },
}

impl ClientCertificateManager {
    fn new(task: CertificateTask) -> Self {
        Self { task: Box::new(task) }
    }

    /// Runs until `cancel`. Returns earlier only if the node has lost its identity and must be restarted; the reason is
    /// logged.
    pub async fn run(self, cancel: CancellationToken) {
        match *self.task {
            CertificateTask::None => cancel.cancelled().await,
            CertificateTask::Files(files) => files.run(cancel).await,
            CertificateTask::Rotation { renewer, renew_now } => renewer.run(renew_now, cancel).await,
            CertificateTask::FirstThenFiles { renewer, files } => {
                if renewer.obtain_first(&cancel).await {
                    files.run(cancel).await;
                }
            }
        }
    }
}
