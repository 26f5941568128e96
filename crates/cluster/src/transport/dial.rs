//! Opens connections to the API server, directly or through a proxy.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Uri};
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::{GaiAddrs, GaiResolver, Name};
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use kube::client::Body;
use ports::telemetry::request_meter::RequestMeter;
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceExt, service_fn};
use values::proxies::{InvalidProxy, Proxies, Proxy, ProxyScheme, Target};

/// From the first packet to the end of the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Idle time after which a connection is probed, by TCP keepalive and HTTP/2 ping. Same as upstream.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(15);
const KEEPALIVE_RETRIES: u32 = 3;
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// An HTTP client with a separate connection pool.
pub(crate) type HttpClient = Client<Connector<MaybeHttpsStream<TokioIo<TcpStream>>>, Body>;

/// A connection setting of the kubeconfig or environment is invalid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error("proxy {0}: only http and socks5 proxies are supported")]
    Proxy(String),
    #[error(transparent)]
    InvalidProxy(#[from] InvalidProxy),
    #[error("tls-server-name {0:?} is not a host name or IP address")]
    ServerName(String),
}

/// Settings of a kubeconfig that change how the server is reached.
pub(crate) struct ServerOverrides<'a> {
    /// Expected name in the server certificate, instead of the host of the URL.
    pub(crate) server_name: Option<&'a str>,
    pub(crate) proxy: Option<&'a Uri>,
}

/// Opens a stream to a server, directly or through a proxy.
type Connector<Stream> = BoxCloneSyncService<Uri, Stream, BoxError>;

/// TLS and proxy settings that new connections use.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    tls: ClientConfig,
    server_name: Option<ServerName<'static>>,
    tcp: Connector<TokioIo<TcpStream>>,
}

impl Dialer {
    /// Uses the proxy of `overrides`, or else of the environment (`HTTPS_PROXY`, `NO_PROXY`).
    ///
    /// # Errors
    /// If the proxy scheme or the server name is not supported.
    pub(crate) fn new(
        mut tls: ClientConfig,
        server: &Uri,
        overrides: &ServerOverrides<'_>,
        meter: Arc<dyn RequestMeter>,
    ) -> Result<Self, DialError> {
        // The server stores the client certificate in the session: resumption would keep the old identity.
        tls.resumption = Resumption::disabled();
        tls.alpn_protocols.clear();
        let server_name = overrides.server_name.map(|name| {
            ServerName::try_from(name.to_owned()).map_err(|_| DialError::ServerName(name.to_owned()))
        });
        Ok(Self {
            tls,
            server_name: server_name.transpose()?,
            tcp: tcp_connector(server, overrides.proxy, meter)?,
        })
    }

    /// Creates a client that opens connections on demand.
    pub(crate) fn client(&self) -> HttpClient {
        let builder = HttpsConnectorBuilder::new().with_tls_config(self.tls.clone()).https_or_http();
        let builder = match &self.server_name {
            Some(name) => builder.with_server_name_resolver(FixedServerNameResolver::new(name.clone())),
            None => builder,
        };
        let https = builder.enable_http1().enable_http2().wrap_connector(self.tcp.clone());
        let connector = BoxCloneSyncService::new(https.map_future(async |connecting| {
            match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
                Ok(connected) => connected,
                Err(_) => Err(format!("connection not established within {CONNECT_TIMEOUT:?}").into()),
            }
        }));
        Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
            .http2_keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .build(connector)
    }
}

/// Opens TCP streams to the server, directly or through a proxy.
fn tcp_connector(
    server: &Uri,
    proxy: Option<&Uri>,
    meter: Arc<dyn RequestMeter>,
) -> Result<Connector<TokioIo<TcpStream>>, DialError> {
    let direct = direct_connector(metered_resolver(meter));
    let Some(proxy) = proxy_for(server, proxy)? else {
        return Ok(BoxCloneSyncService::new(direct.map_err(Into::into)));
    };
    let unsupported = || DialError::Proxy(proxy.authority.clone());
    let address: Uri = format!("http://{}", proxy.authority).parse().map_err(|_| unsupported())?;
    match proxy.scheme {
        ProxyScheme::Http => {
            let mut tunnel = Tunnel::new(address, direct);
            if let Some(credentials) = proxy.authorization() {
                let mut credentials = HeaderValue::try_from(credentials).map_err(|_| unsupported())?;
                credentials.set_sensitive(true);
                tunnel = tunnel.with_auth(credentials);
            }
            Ok(BoxCloneSyncService::new(tunnel.map_err(Into::into)))
        }
        ProxyScheme::Socks5 => {
            let mut socks = SocksV5::new(address, direct);
            if let Some((name, password)) = proxy.user {
                socks = socks.with_auth(name, password);
            }
            Ok(BoxCloneSyncService::new(socks.map_err(Into::into)))
        }
        ProxyScheme::Https => Err(unsupported()),
    }
}

/// `configured` is the kubeconfig's `proxy-url`, which applies to every server.
fn proxy_for(server: &Uri, configured: Option<&Uri>) -> Result<Option<Proxy>, DialError> {
    if let Some(configured) = configured {
        return Ok(Some(Proxy::parse(&configured.to_string())?));
    }
    let (scheme, host) = (server.scheme_str().unwrap_or_default(), server.host().unwrap_or_default());
    let environment = Proxies::from_variables(|name| std::env::var(name).ok());
    Ok(environment.proxy_for(Target::new(scheme, host, server.port_u16()))?.cloned())
}

/// Resolves host names with the system resolver and records the duration. IP addresses need no lookup.
fn metered_resolver(meter: Arc<dyn RequestMeter>) -> BoxCloneSyncService<Name, GaiAddrs, std::io::Error> {
    BoxCloneSyncService::new(service_fn(move |name: Name| {
        let (meter, host) = (meter.clone(), name.to_string());
        async move {
            let started_at = Instant::now();
            let addresses = GaiResolver::new().call(name).await;
            meter.resolved(&host, started_at.elapsed());
            addresses
        }
    }))
}

fn direct_connector<R>(resolver: R) -> HttpConnector<R> {
    let mut connector = HttpConnector::new_with_resolver(resolver);
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector.set_keepalive(Some(KEEPALIVE_INTERVAL));
    connector.set_keepalive_interval(Some(KEEPALIVE_TIMEOUT));
    connector.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
    // Drops a connection whose peer has stopped acknowledging data.
    connector.set_tcp_user_timeout(Some(KEEPALIVE_INTERVAL));
    connector
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn selects_connector_by_proxy_scheme() {
        let server: Uri = "https://api.example:6443".parse().unwrap();
        let connector = |proxy: &str| tcp_connector(&server, Some(&proxy.parse().unwrap()), Arc::new(()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = listener.local_addr().unwrap();
        for (scheme, greeting) in
            [("http://", &b"CONNECT api"[..]), ("http://user:secret@", b"CONNECT api"), ("socks5://", &[5])]
        {
            let mut connector = connector(&format!("{scheme}{proxy}")).unwrap();
            let mut received = vec![0; greeting.len()];
            let read = async { listener.accept().await.unwrap().0.read_exact(&mut received).await };
            tokio::select! {
                _ = connector.call(server.clone()) => panic!("{scheme}: the proxy has not answered"),
                result = read => drop(result.unwrap()),
            }
            assert_eq!(received, greeting, "{scheme}");
        }
        assert!(matches!(connector("https://proxy:3128"), Err(DialError::Proxy(_))));
    }
}
