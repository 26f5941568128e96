//! Connects to the manifest server directly or through the proxies of the environment.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{HeaderValue, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::Service;
use values::proxies::{Proxies, Proxy, ProxyScheme, Target};

type ConnectError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone)]
pub(super) struct ProxyConnector {
    tcp: HttpConnector,
    proxies: Proxies,
}

impl ProxyConnector {
    pub(super) fn new(proxies: Proxies) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        Self { tcp, proxies }
    }
}

/// The proxy for a URI.
pub(super) fn proxy_for<'a>(proxies: &'a Proxies, uri: &Uri) -> Result<Option<&'a Proxy>, ConnectError> {
    let (scheme, host) = (uri.scheme_str().unwrap_or_default(), uri.host().unwrap_or_default());
    Ok(proxies.proxy_for(Target::new(scheme, host, uri.port_u16()))?)
}

impl Service<Uri> for ProxyConnector {
    type Response = ProxiedStream;
    type Error = ConnectError;
    type Future = BoxFuture<'static, Result<ProxiedStream, ConnectError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        self.tcp.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Self { mut tcp, proxies } = self.clone();
        Box::pin(async move {
            let Some(proxy) = proxy_for(&proxies, &uri)? else {
                return Ok(ProxiedStream { stream: tcp.call(uri).await?, forwards: false });
            };
            let proxy_uri: Uri = format!("http://{}", proxy.authority).parse()?;
            let stream = match proxy.scheme {
                ProxyScheme::Https => return Err(unsupported_proxy(proxy)),
                ProxyScheme::Http if uri.scheme_str() == Some("http") => {
                    return Ok(ProxiedStream { stream: tcp.call(proxy_uri).await?, forwards: true });
                }
                ProxyScheme::Http => tunnel(proxy, proxy_uri, tcp)?.call(uri).await?,
                ProxyScheme::Socks5 => socks(proxy, proxy_uri, tcp).call(uri).await?,
            };
            Ok(ProxiedStream { stream, forwards: false })
        })
    }
}

fn unsupported_proxy(proxy: &Proxy) -> ConnectError {
    format!("proxy {}: only http and socks5 proxies are supported", proxy.authority).into()
}

fn tunnel(proxy: &Proxy, proxy_uri: Uri, tcp: HttpConnector) -> Result<Tunnel<HttpConnector>, ConnectError> {
    let tunnel = Tunnel::new(proxy_uri, tcp);
    Ok(match proxy.authorization() {
        Some(value) => {
            let mut value = HeaderValue::try_from(value)?;
            value.set_sensitive(true);
            tunnel.with_auth(value)
        }
        None => tunnel,
    })
}

fn socks(proxy: &Proxy, proxy_uri: Uri, tcp: HttpConnector) -> SocksV5<HttpConnector> {
    let socks = SocksV5::new(proxy_uri, tcp);
    match proxy.user.clone() {
        Some((name, password)) => socks.with_auth(name, password),
        None => socks,
    }
}

pub(super) struct ProxiedStream {
    stream: TokioIo<TcpStream>,
    /// Whether the peer is a forwarding proxy, which needs the absolute URL in the request line.
    forwards: bool,
}

impl Connection for ProxiedStream {
    fn connected(&self) -> Connected {
        self.stream.connected().proxy(self.forwards)
    }
}

impl Read for ProxiedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl Write for ProxiedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Connects to `uri` through a proxy; returns the bytes that the proxy received, and whether it forwards requests.
    async fn connect_through_proxy(uri: &str, user: &str, scheme: &str) -> (String, Result<bool, String>) {
        let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("{scheme}://{user}{}", proxy.local_addr().unwrap());
        let mut connector = ProxyConnector::new(Proxies::from_variables(|name| {
            name.ends_with("_PROXY").then(|| address.clone())
        }));
        let listen = async {
            let (mut stream, _) = proxy.accept().await.unwrap();
            let mut received = vec![0; 1024];
            let length = stream.read(&mut received).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            received.truncate(length);
            String::from_utf8_lossy(&received).into_owned()
        };
        let connect = connector.call(uri.parse().unwrap());
        match scheme {
            "https" => (String::new(), connect.await.map(|_| true).map_err(|error| error.to_string())),
            _ => {
                let (received, stream) = tokio::join!(listen, connect);
                (received, stream.map(|stream| stream.forwards).map_err(|error| error.to_string()))
            }
        }
    }

    #[tokio::test]
    async fn tunnels_https_through_http_proxy() {
        let (received, stream) = connect_through_proxy("https://pods.invalid/x", "ann:secret@", "http").await;
        assert!(received.starts_with("CONNECT pods.invalid:443 HTTP/1.1\r\n"), "{received}");
        assert!(
            received.to_lowercase().contains("proxy-authorization: basic yw5uonnly3jlda=="),
            "{received}"
        );
        assert_eq!(stream, Ok(false));
    }

    #[tokio::test]
    async fn rejects_https_proxy() {
        let (_, stream) = connect_through_proxy("https://pods.invalid/x", "", "https").await;
        assert!(stream.unwrap_err().ends_with("only http and socks5 proxies are supported"));
    }
}
