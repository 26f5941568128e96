//! Connections to the server of pods, directly or through the proxies of the environment.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use decide::proxies::{Proxies, Proxy, ProxyScheme, Target};
use futures::future::BoxFuture;
use http::{HeaderValue, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::Service;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Makes connections.
#[derive(Clone)]
pub(super) struct Way {
    tcp: HttpConnector,
    proxies: Proxies,
}

impl Way {
    pub(super) fn new(proxies: Proxies) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        Self { tcp, proxies }
    }
}

/// The proxy on the way to a place.
pub(super) fn proxy<'a>(proxies: &'a Proxies, place: &Uri) -> Result<Option<&'a Proxy>, Failure> {
    let scheme = place.scheme_str().unwrap_or_default();
    let port = place.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
    let host = place.host().unwrap_or_default();
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Ok(proxies.on_the_way(Target { scheme, host, port })?)
}

impl Service<Uri> for Way {
    type Response = Wire;
    type Error = Failure;
    type Future = BoxFuture<'static, Result<Wire, Failure>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.tcp.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, place: Uri) -> Self::Future {
        let Self { mut tcp, proxies } = self.clone();
        Box::pin(async move {
            let Some(proxy) = proxy(&proxies, &place)? else {
                return Ok(Wire { stream: tcp.call(place).await?, forwards: false });
            };
            let there: Uri = format!("http://{}", proxy.authority).parse()?;
            let stream = match proxy.scheme {
                ProxyScheme::Https => return Err(unsupported(proxy)),
                ProxyScheme::Http if place.scheme_str() == Some("http") => {
                    return Ok(Wire { stream: tcp.call(there).await?, forwards: true });
                }
                ProxyScheme::Http => tunnel(proxy, there, tcp)?.call(place).await?,
                ProxyScheme::Socks5 => socks(proxy, there, tcp).call(place).await?,
            };
            Ok(Wire { stream, forwards: false })
        })
    }
}

fn unsupported(proxy: &Proxy) -> Failure {
    format!("proxy {}: only http and socks5 proxies are supported", proxy.authority).into()
}

fn tunnel(proxy: &Proxy, there: Uri, tcp: HttpConnector) -> Result<Tunnel<HttpConnector>, Failure> {
    let tunnel = Tunnel::new(there, tcp);
    Ok(match proxy.authorization() {
        Some(shown) => {
            let mut shown = HeaderValue::try_from(shown)?;
            shown.set_sensitive(true);
            tunnel.with_auth(shown)
        }
        None => tunnel,
    })
}

fn socks(proxy: &Proxy, there: Uri, tcp: HttpConnector) -> SocksV5<HttpConnector> {
    let socks = SocksV5::new(there, tcp);
    match proxy.user.clone() {
        Some((name, password)) => socks.with_auth(name, password),
        None => socks,
    }
}

/// A connection.
pub(super) struct Wire {
    stream: TokioIo<TcpStream>,
    /// Whether it leads to a proxy that forwards requests, which has to be told the whole URL.
    forwards: bool,
}

impl Connection for Wire {
    fn connected(&self) -> Connected {
        self.stream.connected().proxy(self.forwards)
    }
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl Write for Wire {
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

    /// What a proxy hears of somebody on the way to `place`, and how the connection comes about.
    async fn heard(place: &str, user: &str, scheme: &str) -> (String, Result<bool, String>) {
        let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("{scheme}://{user}{}", proxy.local_addr().unwrap());
        let mut way = Way::new(Proxies::of(|name| name.ends_with("_PROXY").then(|| address.clone())));
        let listen = async {
            let (mut stream, _) = proxy.accept().await.unwrap();
            let mut heard = vec![0; 1024];
            let length = stream.read(&mut heard).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            heard.truncate(length);
            String::from_utf8_lossy(&heard).into_owned()
        };
        let connect = way.call(place.parse().unwrap());
        match scheme {
            "https" => (String::new(), connect.await.map(|_| true).map_err(|error| error.to_string())),
            _ => {
                let (heard, wire) = tokio::join!(listen, connect);
                (heard, wire.map(|wire| wire.forwards).map_err(|error| error.to_string()))
            }
        }
    }

    #[tokio::test]
    async fn a_tunnel_leads_to_servers_with_tls() {
        let (heard, wire) = heard("https://pods.invalid/x", "ann:secret@", "http").await;
        assert!(heard.starts_with("CONNECT pods.invalid:443 HTTP/1.1\r\n"), "{heard}");
        assert!(heard.to_lowercase().contains("proxy-authorization: basic yw5uonnly3jlda=="), "{heard}");
        assert_eq!(wire, Ok(false));
    }

    #[tokio::test]
    async fn a_proxy_over_tls_is_refused() {
        let (_, wire) = heard("https://pods.invalid/x", "", "https").await;
        assert!(wire.unwrap_err().ends_with("only http and socks5 proxies are supported"));
    }
}
