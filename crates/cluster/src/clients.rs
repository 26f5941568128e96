//! Clients of the API server, one per lane.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::client::ConfigExt;
use kube::client::middleware::{AuthLayer, BaseUriLayer, ExtraHeadersLayer};
use kube::config::KubeconfigError;
use ports::request_meter::RequestMeter;
use tower::ServiceBuilder;

use crate::identity::{Access, CertificateSource, CredentialError, CurrentCertificate};
use crate::lanes::{Connections, DialError, Dialer, Lane, Names, Patience, Priority, Rate, Turnstile};

/// Programs that give credentials may take so long, as upstream's.
const CREDENTIAL_PROGRAM_LIMIT: Duration = Duration::from_secs(60);
/// What an ordinary request may take; the API server gives up at a minute.
const PATIENCE: Patience = Patience { answer: Duration::from_secs(60), whole: Duration::from_secs(120) };
/// Somebody waits for the answer of a review; as upstream's.
const REVIEW_PATIENCE: Patience =
    Patience { answer: Duration::from_secs(10), whole: Duration::from_secs(10) };

/// Why there is no client. Stops the agent: a node that was told to join a cluster must not run alone.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig cannot be read or says something impossible.
    #[error("kubeconfig {}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Why.
        source: KubeconfigError,
    },
    /// Its client certificate cannot be used.
    #[error("client certificate of {}", path.display())]
    Certificate {
        /// The kubeconfig.
        path: PathBuf,
        /// Why.
        source: CredentialError,
    },
    /// The credentials or the certificate authority in it cannot be used.
    #[error("client for the API server")]
    Client(#[source] kube::Error),
    /// The program that gives credentials did not end.
    #[error("credentials for the API server: no answer in {CREDENTIAL_PROGRAM_LIMIT:?}")]
    CredentialProgram,
    /// The kubeconfig of a node that has its certificate already was not written.
    #[error("bootstrap: {0}")]
    Bootstrap(String),
    /// Connections cannot be made as asked.
    #[error("connections to the API server: {0}")]
    Dial(String),
}

impl From<DialError> for ConnectError {
    fn from(error: DialError) -> Self {
        Self::Dial(error.to_string())
    }
}

/// How much the API server may be asked.
#[derive(Clone, Copy, Debug)]
pub struct ClientSettings {
    /// `kubeAPIQPS` and `kubeAPIBurst`: urgent and main together, the urgent first. Watches are not counted.
    pub requests: Rate,
    /// `eventRecordQPS` and `eventBurst`.
    pub events: Option<Rate>,
    /// How long the lease may take: by then the next one is due.
    pub heartbeat_limit: Duration,
}

impl Default for ClientSettings {
    fn default() -> Self {
        let rate = Rate { per_second: 50, burst: 100 };
        Self { requests: rate, events: Some(rate), heartbeat_limit: Duration::from_secs(10) }
    }
}

/// The lanes. A request waits only for requests of its own lane and those before it.
///
/// Each request has a deadline, and is sent again when the server says when (`Retry-After`), a bounded number of times.
#[derive(Clone)]
pub struct Clients {
    /// The lease; never queued, on a connection of its own.
    pub heartbeat: Client,
    /// Readiness and ends of pods; before `main` at the rate limit.
    pub urgent: Client,
    /// Everything else.
    pub main: Client,
    /// Events.
    pub events: Client,
    /// Questions about those who ask the node, who must not use up what the node itself needs.
    pub reviews: Client,
}

impl Clients {
    /// Reads a kubeconfig and makes the clients with upstream's limits; no request is sent. Nothing renews its
    /// certificate: that is [`crate::identity::connect`]'s.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub async fn from_kubeconfig(path: &Path) -> Result<Self, ConnectError> {
        let access = Access::read(path).await?;
        let credential = access.certificate.load();
        let credential =
            credential.map_err(|source| ConnectError::Certificate { path: path.to_owned(), source })?;
        let certificate = credential.map(|credential| CurrentCertificate::new(Some(credential)));
        Ok(Self::open(access, certificate, ClientSettings::default(), Arc::new(())).await?.0)
    }

    /// The clients, and what makes them connect anew.
    pub(crate) async fn open(
        access: Access,
        certificate: Option<CurrentCertificate>,
        settings: ClientSettings,
        meter: Arc<dyn RequestMeter>,
    ) -> Result<(Self, Links), ConnectError> {
        let stack = Stack::new(access, certificate, meter).await?;
        let links = Links { own: stack.connections(), shared: stack.connections() };
        let limit = settings.heartbeat_limit;
        let patient = Patience { answer: limit, whole: limit };
        let requests = Arc::new(Turnstile::new(settings.requests));
        let events = settings.events.map(|rate| (Arc::new(Turnstile::new(rate)), Priority::Normal));
        let reviews = Arc::new(Turnstile::new(settings.requests));
        let turn = |priority| Some((requests.clone(), priority));
        let clients = Self {
            heartbeat: stack.client(&links.own, None, patient),
            urgent: stack.client(&links.shared, turn(Priority::Urgent), PATIENCE),
            main: stack.client(&links.shared, turn(Priority::Normal), PATIENCE),
            events: stack.client(&links.shared, events, PATIENCE),
            reviews: stack.client(&links.shared, Some((reviews, Priority::Normal)), REVIEW_PATIENCE),
        };
        Ok((clients, links))
    }
}

/// A single client without limits, with the access's own credentials.
pub(crate) async fn plain_client(mut access: Access) -> Result<Client, ConnectError> {
    let certificate = std::mem::replace(&mut access.certificate, CertificateSource::None).load();
    let certificate = certificate.map_err(|error| ConnectError::Dial(error.to_string()))?;
    let certificate = certificate.map(|credential| CurrentCertificate::new(Some(credential)));
    let stack = Stack::new(access, certificate, Arc::new(())).await?;
    Ok(stack.client(&stack.connections(), None, PATIENCE))
}

/// The connections under the clients.
#[derive(Clone)]
pub(crate) struct Links {
    own: Connections,
    shared: Connections,
}

impl Links {
    /// Requests from now on use new connections, and with them the certificate that is now in use.
    pub(crate) fn renew(&self) {
        self.own.renew();
        self.shared.renew();
    }
}

/// What all lanes have in common.
struct Stack {
    dialer: Dialer,
    certificate: Option<CurrentCertificate>,
    server: BaseUriLayer,
    headers: ExtraHeadersLayer,
    credentials: Option<AuthLayer>,
    namespace: String,
    meter: Arc<dyn RequestMeter>,
}

impl Stack {
    async fn new(
        access: Access,
        certificate: Option<CurrentCertificate>,
        meter: Arc<dyn RequestMeter>,
    ) -> Result<Self, ConnectError> {
        let config = access.config;
        let server = config.cluster_url.clone();
        let server_name = config.tls_server_name.clone();
        let namespace = config.default_namespace.clone();
        // Both may run a program.
        let prepared = tokio::task::spawn_blocking(move || {
            let (tls, credentials) = (config.rustls_client_config()?, config.auth_layer()?);
            Ok((tls, credentials, config.base_uri_layer(), config.extra_headers_layer()?))
        });
        let prepared = tokio::time::timeout(CREDENTIAL_PROGRAM_LIMIT, prepared).await;
        let Ok(Ok(prepared)) = prepared else { return Err(ConnectError::CredentialProgram) };
        let (mut tls, credentials, base, headers) = prepared.map_err(ConnectError::Client)?;
        if let Some(certificate) = &certificate {
            tls.client_auth_cert_resolver = Arc::new(certificate.clone());
        }
        let names = Names { server_name: server_name.as_deref(), proxy: access.proxy.as_ref() };
        let dialer = Dialer::new(tls, &server, &names, meter.clone())?;
        Ok(Self { dialer, certificate, server: base, headers, credentials, namespace, meter })
    }

    fn connections(&self) -> Connections {
        Connections::new(self.dialer.clone())
    }

    fn client(
        &self,
        connections: &Connections,
        turnstile: Option<(Arc<Turnstile>, Priority)>,
        patience: Patience,
    ) -> Client {
        let lane = Lane {
            connections: connections.clone(),
            turnstile,
            certificate: self.certificate.clone(),
            patience,
            meter: self.meter.clone(),
        };
        let service = ServiceBuilder::new()
            .layer(self.server.clone())
            .option_layer(self.credentials.as_ref())
            .layer(self.headers.clone())
            .service(lane);
        Client::new(service, self.namespace.clone())
    }
}
