//! API clients, each with its own rate limit and timeouts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::client::ConfigExt;
use kube::client::middleware::{AuthLayer, BaseUriLayer, ExtraHeadersLayer};
use kube::config::KubeconfigError;
use ports::telemetry::request_meter::RequestMeter;
use tower::ServiceBuilder;

use crate::identity::{CertificateSource, CredentialError, CurrentCertificate, ServerAccess};
use crate::transport::{
    Connections, DialError, Dialer, Priority, PriorityRateLimiter, RateLimit, RequestService,
    RequestTimeouts, ServerOverrides,
};

/// Time limit for credential plugins (`exec` in a kubeconfig), same as upstream.
const CREDENTIAL_PLUGIN_TIMEOUT: Duration = Duration::from_secs(60);
/// The API server itself ends a request after one minute.
const DEFAULT_TIMEOUTS: RequestTimeouts =
    RequestTimeouts { response: Duration::from_secs(60), total: Duration::from_secs(120) };
/// A client of the node waits while a review is in flight, so the timeout is short. Same as upstream.
const REVIEW_TIMEOUTS: RequestTimeouts =
    RequestTimeouts { response: Duration::from_secs(10), total: Duration::from_secs(10) };

/// Setting up the API clients failed. Stops the agent: a node that is configured to join a cluster must not run
/// standalone.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("kubeconfig {}", path.display())]
    Kubeconfig { path: PathBuf, source: KubeconfigError },
    #[error("client certificate of {}", path.display())]
    Certificate { path: PathBuf, source: CredentialError },
    #[error("API client: invalid credentials or certificate authority")]
    Client(#[source] kube::Error),
    #[error("credential plugin did not finish within {CREDENTIAL_PLUGIN_TIMEOUT:?}")]
    CredentialPlugin,
    #[error("bootstrap: {0}")]
    Bootstrap(String),
    #[error("connection to the API server: {0}")]
    Dial(String),
}

impl From<DialError> for ConnectError {
    fn from(error: DialError) -> Self {
        Self::Dial(error.to_string())
    }
}

/// Rate limits and timeouts of the API clients.
#[derive(Clone, Copy, Debug)]
pub struct ClientSettings {
    /// `kubeAPIQPS` and `kubeAPIBurst`, shared by `urgent` and `main`; `urgent` goes first. Watches do not count.
    pub requests: RateLimit,
    /// `eventRecordQPS` and `eventBurst`.
    pub events: Option<RateLimit>,
    /// Timeout of a lease renewal. When it expires, the next renewal is due.
    pub heartbeat_timeout: Duration,
}

impl Default for ClientSettings {
    fn default() -> Self {
        let rate = RateLimit { per_second: 50, burst: 100 };
        Self { requests: rate, events: Some(rate), heartbeat_timeout: Duration::from_secs(10) }
    }
}

/// API clients by priority, so that bulk traffic cannot delay the lease.
///
/// Each request has a deadline. A response with `Retry-After` is retried, a bounded number of times.
#[derive(Clone)]
pub struct Clients {
    /// For the lease and the node status. Not rate limited, on a separate connection.
    pub heartbeat: Client,
    /// For readiness changes and deletion of pods. Goes before `main` at the shared rate limit.
    pub urgent: Client,
    pub main: Client,
    pub events: Client,
    /// For authentication and authorization of requests to the node. Has a separate rate limit, so that clients of the
    /// node cannot use up the node's own.
    pub reviews: Client,
}

impl Clients {
    /// Creates the clients, and the handle that makes them reconnect.
    pub(crate) async fn open(
        access: ServerAccess,
        certificate: Option<CurrentCertificate>,
        settings: ClientSettings,
        meter: Arc<dyn RequestMeter>,
    ) -> Result<(Self, ClientConnections), ConnectError> {
        let factory = ClientFactory::new(access, certificate, meter).await?;
        let connections =
            ClientConnections { heartbeat: factory.connections(), shared: factory.connections() };
        let timeout = settings.heartbeat_timeout;
        let heartbeat_timeouts = RequestTimeouts { response: timeout, total: timeout };
        let requests = Arc::new(PriorityRateLimiter::new(settings.requests));
        let events = settings.events.map(|rate| (Arc::new(PriorityRateLimiter::new(rate)), Priority::Normal));
        let reviews = Arc::new(PriorityRateLimiter::new(settings.requests));
        let limited = |priority| Some((requests.clone(), priority));
        let clients = Self {
            heartbeat: factory.client(&connections.heartbeat, None, heartbeat_timeouts),
            urgent: factory.client(&connections.shared, limited(Priority::Urgent), DEFAULT_TIMEOUTS),
            main: factory.client(&connections.shared, limited(Priority::Normal), DEFAULT_TIMEOUTS),
            events: factory.client(&connections.shared, events, DEFAULT_TIMEOUTS),
            reviews: factory.client(&connections.shared, Some((reviews, Priority::Normal)), REVIEW_TIMEOUTS),
        };
        Ok((clients, connections))
    }
}

/// Creates a client without rate limit that uses the credentials of the kubeconfig.
pub(crate) async fn unlimited_client(mut access: ServerAccess) -> Result<Client, ConnectError> {
    let certificate = std::mem::replace(&mut access.certificate, CertificateSource::None).load();
    let certificate = certificate.map_err(|error| ConnectError::Dial(error.to_string()))?;
    let certificate = certificate.map(|credential| CurrentCertificate::new(Some(credential)));
    let factory = ClientFactory::new(access, certificate, Arc::new(())).await?;
    Ok(factory.client(&factory.connections(), None, DEFAULT_TIMEOUTS))
}

/// The connections that the clients use.
#[derive(Clone)]
pub(crate) struct ClientConnections {
    heartbeat: Connections,
    shared: Connections,
}

impl ClientConnections {
    /// Makes later requests use new connections, and with them the current certificate.
    pub(crate) fn renew(&self) {
        self.heartbeat.renew();
        self.shared.renew();
    }
}

/// Builds clients for one server with the same credentials.
struct ClientFactory {
    dialer: Dialer,
    certificate: Option<CurrentCertificate>,
    server: BaseUriLayer,
    headers: ExtraHeadersLayer,
    credentials: Option<AuthLayer>,
    namespace: String,
    meter: Arc<dyn RequestMeter>,
}

impl ClientFactory {
    async fn new(
        access: ServerAccess,
        certificate: Option<CurrentCertificate>,
        meter: Arc<dyn RequestMeter>,
    ) -> Result<Self, ConnectError> {
        let config = access.config;
        let server = config.cluster_url.clone();
        let server_name = config.tls_server_name.clone();
        let namespace = config.default_namespace.clone();
        // Both may run a credential plugin, which blocks.
        let prepared = tokio::task::spawn_blocking(move || {
            let (tls, credentials) = (config.rustls_client_config()?, config.auth_layer()?);
            Ok((tls, credentials, config.base_uri_layer(), config.extra_headers_layer()?))
        });
        let prepared = tokio::time::timeout(CREDENTIAL_PLUGIN_TIMEOUT, prepared).await;
        let Ok(Ok(prepared)) = prepared else { return Err(ConnectError::CredentialPlugin) };
        let (mut tls, credentials, base, headers) = prepared.map_err(ConnectError::Client)?;
        if let Some(certificate) = &certificate {
            tls.client_auth_cert_resolver = Arc::new(certificate.clone());
        }
        let overrides = ServerOverrides { server_name: server_name.as_deref(), proxy: access.proxy.as_ref() };
        let dialer = Dialer::new(tls, &server, &overrides, meter.clone())?;
        Ok(Self { dialer, certificate, server: base, headers, credentials, namespace, meter })
    }

    fn connections(&self) -> Connections {
        Connections::new(self.dialer.clone())
    }

    fn client(
        &self,
        connections: &Connections,
        rate_limiter: Option<(Arc<PriorityRateLimiter>, Priority)>,
        timeouts: RequestTimeouts,
    ) -> Client {
        let service = RequestService {
            connections: connections.clone(),
            rate_limiter,
            certificate: self.certificate.clone(),
            timeouts,
            meter: self.meter.clone(),
        };
        let service = ServiceBuilder::new()
            .layer(self.server.clone())
            .option_layer(self.credentials.as_ref())
            .layer(self.headers.clone())
            .service(service);
        Client::new(service, self.namespace.clone())
    }
}
