//! New connections to the API server.

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
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use kube::client::Body;
use ports::request_meter::RequestMeter;
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tower::{BoxError, Service};

/// From the first packet to the end of the TLS handshake.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// A connection that was silent for so long is probed, by TCP and by HTTP/2, as upstream's.
const SILENCE: Duration = Duration::from_secs(30);
/// How long the server may take to answer a probe.
const PROBE_LIMIT: Duration = Duration::from_secs(15);
const PROBES: u32 = 3;
/// An unused connection is closed after so long.
const IDLE_LIMIT: Duration = Duration::from_secs(90);

/// An HTTP client with connections of its own.
pub(crate) type HttpClient = Client<Connector, Body>;

/// A setting that connections cannot be made with.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    /// Neither `http` nor `socks5`.
    #[error("proxy {0}: only http and socks5 proxies are supported")]
    Proxy(Uri),
    /// `tls-server-name` is no name.
    #[error("tls-server-name {0:?} is no host name or address")]
    ServerName(String),
}

/// Names that are not the server's own.
pub(crate) struct Names<'a> {
    /// What its certificate says instead.
    pub(crate) server_name: Option<&'a str>,
    /// Through whom it is reached.
    pub(crate) proxy: Option<&'a Uri>,
}

/// Looks names up as the system does, and tells how long that took. Addresses are not looked up.
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
            let begun = Instant::now();
            let found = GaiResolver::new().call(name).await;
            meter.resolved(&host, begun.elapsed());
            found
        })
    }
}

type Tcp = HttpConnector<Resolver>;

/// Everything that a new connection needs.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    tls: ClientConfig,
    server_name: Option<ServerName<'static>>,
    way: Way,
}

impl Dialer {
    /// For the server at `server`, through the proxy that is named or what the environment says (`HTTPS_PROXY`, `NO_PROXY`).
    ///
    /// # Errors
    /// When the proxy or the name cannot be used.
    pub(crate) fn new(
        mut tls: ClientConfig,
        server: &Uri,
        names: &Names<'_>,
        meter: Arc<dyn RequestMeter>,
    ) -> Result<Self, DialError> {
        // A server keeps the client's certificate with the session; a resumed one would go on with the old identity.
        tls.resumption = Resumption::disabled();
        tls.alpn_protocols.clear();
        let server_name = names.server_name.map(|name| {
            ServerName::try_from(name.to_owned()).map_err(|_| DialError::ServerName(name.to_owned()))
        });
        Ok(Self {
            tls,
            server_name: server_name.transpose()?,
            way: Way::to(server, names.proxy, &Resolver { meter })?,
        })
    }

    /// A client without connections yet.
    pub(crate) fn client(&self) -> HttpClient {
        let builder = HttpsConnectorBuilder::new().with_tls_config(self.tls.clone()).https_or_http();
        let builder = match &self.server_name {
            Some(name) => builder.with_server_name_resolver(FixedServerNameResolver::new(name.clone())),
            None => builder,
        };
        let https = builder.enable_http1().enable_http2().wrap_connector(self.way.clone());
        Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_LIMIT)
            .http2_keep_alive_interval(SILENCE)
            .http2_keep_alive_timeout(PROBE_LIMIT)
            .build(Connector { https })
    }
}

/// Makes connections, none of them slowly.
#[derive(Clone)]
pub(crate) struct Connector {
    https: HttpsConnector<Way>,
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
            match tokio::time::timeout(CONNECT_LIMIT, connecting).await {
                Ok(connected) => connected,
                Err(_) => Err(format!("no connection in {CONNECT_LIMIT:?}").into()),
            }
        })
    }
}

/// How a TCP stream to the server is made.
#[derive(Clone, Debug)]
enum Way {
    Direct(Tcp),
    Tunnel(Tunnel<Tcp>),
    Socks(SocksV5<Tcp>),
}

impl Way {
    fn to(server: &Uri, proxy: Option<&Uri>, names: &Resolver) -> Result<Self, DialError> {
        let matcher = match proxy {
            Some(proxy) => Matcher::builder().all(proxy.to_string()).build(),
            None => Matcher::from_env(),
        };
        let Some(found) = matcher.intercept(server) else { return Ok(Self::Direct(tcp(names))) };
        match found.uri().scheme_str() {
            Some("http") => {
                let tunnel = Tunnel::new(found.uri().clone(), tcp(names));
                Ok(Self::Tunnel(match found.basic_auth() {
                    Some(credentials) => tunnel.with_auth(HeaderValue::clone(credentials)),
                    None => tunnel,
                }))
            }
            Some("socks5" | "socks5h") => {
                let socks = SocksV5::new(found.uri().clone(), tcp(names));
                Ok(Self::Socks(match found.raw_auth() {
                    Some((user, password)) => socks.with_auth(user.to_owned(), password.to_owned()),
                    None => socks,
                }))
            }
            _ => Err(DialError::Proxy(found.uri().clone())),
        }
    }
}

fn tcp(names: &Resolver) -> Tcp {
    let mut connector = HttpConnector::new_with_resolver(names.clone());
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_LIMIT));
    connector.set_keepalive(Some(SILENCE));
    connector.set_keepalive_interval(Some(PROBE_LIMIT));
    connector.set_keepalive_retries(Some(PROBES));
    // What was sent and is not acknowledged by then will never be: the peer is gone.
    connector.set_tcp_user_timeout(Some(SILENCE));
    connector
}

impl Service<Uri> for Way {
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
    fn proxies_by_scheme() {
        let server: Uri = "https://api.example:6443".parse().unwrap();
        let names = Resolver { meter: Arc::new(()) };
        let way = |proxy: &str| Way::to(&server, Some(&proxy.parse().unwrap()), &names);
        assert!(matches!(way("http://proxy:3128"), Ok(Way::Tunnel(_))));
        assert!(matches!(way("http://user:secret@proxy:3128"), Ok(Way::Tunnel(_))));
        assert!(matches!(way("socks5://proxy:1080"), Ok(Way::Socks(_))));
        assert!(matches!(way("https://proxy:3128"), Err(DialError::Proxy(_))));
    }
}
