//! Opens connections to the API server, directly or through a proxy.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{HeaderValue, Uri};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
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
use tower::{BoxError, Service};
use values::proxies::{InvalidProxy, Proxies, Proxy, ProxyScheme, Target};

/// From the first packet to the end of the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Idle time after which a connection is probed, by TCP keepalive and HTTP/2 ping. Same as upstream.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(15);
const KEEPALIVE_RETRIES: u32 = 3;
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// An HTTP client with a separate connection pool.
pub(crate) type HttpClient = Client<Connector, Body>;

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

/// Resolves host names with the system resolver and records the duration. IP addresses need no lookup.
#[derive(Clone)]
struct Resolver {
    meter: Arc<dyn RequestMeter>,
}

impl fmt::Debug for Resolver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Resolver")
    }
}

impl Service<Name> for Resolver {
    type Response = GaiAddrs;
    type Error = std::io::Error;
    type Future = BoxFuture<'static, Result<GaiAddrs, std::io::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), std::io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (meter, host) = (self.meter.clone(), name.to_string());
        Box::pin(async move {
            let started_at = Instant::now();
            let addresses = GaiResolver::new().call(name).await;
            meter.resolved(&host, started_at.elapsed());
            addresses
        })
    }
}

type DirectConnector = HttpConnector<Resolver>;

/// TLS and proxy settings that new connections use.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    tls: ClientConfig,
    server_name: Option<ServerName<'static>>,
    tcp: TcpConnector,
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
            tcp: TcpConnector::for_server(server, overrides.proxy, &Resolver { meter })?,
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
        Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
            .http2_keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .build(Connector { https })
    }
}

/// Opens TLS connections within [`CONNECT_TIMEOUT`].
#[derive(Clone)]
pub(crate) struct Connector {
    https: HttpsConnector<TcpConnector>,
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.https.poll_ready(context)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let connecting = self.https.call(server);
        Box::pin(async move {
            match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
                Ok(connected) => connected,
                Err(_) => Err(format!("connection not established within {CONNECT_TIMEOUT:?}").into()),
            }
        })
    }
}

/// Opens a TCP stream to the server, directly or through a proxy.
#[derive(Clone, Debug)]
enum TcpConnector {
    Direct(DirectConnector),
    Tunnel(Tunnel<DirectConnector>),
    Socks(SocksV5<DirectConnector>),
}

impl TcpConnector {
    fn for_server(server: &Uri, proxy: Option<&Uri>, resolver: &Resolver) -> Result<Self, DialError> {
        let direct = direct_connector(resolver);
        let Some(proxy) = proxy_for(server, proxy)? else { return Ok(Self::Direct(direct)) };
        let unsupported = || DialError::Proxy(proxy.authority.clone());
        let address: Uri = format!("http://{}", proxy.authority).parse().map_err(|_| unsupported())?;
        match proxy.scheme {
            ProxyScheme::Http => {
                let tunnel = Tunnel::new(address, direct);
                Ok(Self::Tunnel(match proxy.authorization() {
                    Some(credentials) => {
                        let mut credentials =
                            HeaderValue::try_from(credentials).map_err(|_| unsupported())?;
                        credentials.set_sensitive(true);
                        tunnel.with_auth(credentials)
                    }
                    None => tunnel,
                }))
            }
            ProxyScheme::Socks5 => {
                let socks = SocksV5::new(address, direct);
                Ok(Self::Socks(match proxy.user {
                    Some((name, password)) => socks.with_auth(name, password),
                    None => socks,
                }))
            }
            ProxyScheme::Https => Err(unsupported()),
        }
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

fn direct_connector(resolver: &Resolver) -> DirectConnector {
    let mut connector = HttpConnector::new_with_resolver(resolver.clone());
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

impl Service<Uri> for TcpConnector {
    type Response = TokioIo<TcpStream>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match self {
            Self::Direct(connector) => connector.poll_ready(context).map_err(Into::into),
            Self::Tunnel(connector) => connector.poll_ready(context).map_err(Into::into),
            Self::Socks(connector) => connector.poll_ready(context).map_err(Into::into),
        }
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        match self {
            Self::Direct(connector) => {
                let connecting = connector.call(server);
                Box::pin(async move { Ok(connecting.await?) })
            }
            Self::Tunnel(connector) => {
                let connecting = connector.call(server);
                Box::pin(async move { Ok(connecting.await?) })
            }
            Self::Socks(connector) => {
                let connecting = connector.call(server);
                Box::pin(async move { Ok(connecting.await?) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selects_connector_by_proxy_scheme() {
        let server: Uri = "https://api.example:6443".parse().unwrap();
        let resolver = Resolver { meter: Arc::new(()) };
        let connector =
            |proxy: &str| TcpConnector::for_server(&server, Some(&proxy.parse().unwrap()), &resolver);
        assert!(matches!(connector("http://proxy:3128"), Ok(TcpConnector::Tunnel(_))));
        assert!(matches!(connector("http://user:secret@proxy:3128"), Ok(TcpConnector::Tunnel(_))));
        assert!(matches!(connector("socks5://proxy:1080"), Ok(TcpConnector::Socks(_))));
        assert!(matches!(connector("https://proxy:3128"), Err(DialError::Proxy(_))));
    }
}
