use std::os::linux::net::SocketAddrExt;
use std::path::PathBuf;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

/// The collector address is invalid.
#[derive(Debug, thiserror::Error)]
#[error("collector address {address:?} must be host:port, or start with dns:, unix: or unix-abstract:")]
pub struct EndpointError {
    address: String,
}

#[derive(Clone, Debug)]
pub(crate) enum CollectorAddress {
    Network(Box<Endpoint>),
    Socket(PathBuf),
    Abstract(String),
}

impl CollectorAddress {
    pub(crate) fn parse(address: &str) -> Result<Self, EndpointError> {
        if let Some(path) = address.strip_prefix("unix:") {
            return Ok(Self::Socket(path.strip_prefix("//").unwrap_or(path).into()));
        }
        if let Some(name) = address.strip_prefix("unix-abstract:") {
            return Ok(Self::Abstract(name.to_owned()));
        }
        // `dns:host:port` or `dns://server/host:port`; the server is ignored in favor of the system resolver.
        let host = match address.strip_prefix("dns:") {
            Some(rest) => rest.rsplit('/').next().unwrap_or(rest),
            None => address,
        };
        let endpoint = Endpoint::from_shared(format!("http://{host}"));
        endpoint
            .map(|endpoint| Self::Network(Box::new(endpoint)))
            .map_err(|_| EndpointError { address: address.to_owned() })
    }

    /// Creates a channel that connects on first use. Must be called within a tokio runtime.
    pub(crate) fn channel(self) -> Channel {
        match self {
            Self::Network(endpoint) => endpoint.connect_lazy(),
            Self::Socket(path) => socket_channel(move || {
                let path = path.clone();
                async move { UnixStream::connect(path).await }
            }),
            Self::Abstract(name) => socket_channel(move || {
                let stream = abstract_stream(&name);
                async move { stream }
            }),
        }
    }
}

fn abstract_stream(name: &str) -> std::io::Result<UnixStream> {
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
    let stream = std::os::unix::net::UnixStream::connect_addr(&address)?;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

fn socket_channel<F>(connect: impl Fn() -> F + Send + Sync + 'static) -> Channel
where
    F: Future<Output = std::io::Result<UnixStream>> + Send + 'static,
{
    let connector = service_fn(move |_: Uri| {
        let stream = connect();
        async move { stream.await.map(TokioIo::new) }
    });
    // The authority that gRPC uses for unix sockets; it is not resolved.
    Endpoint::from_static("http://localhost").connect_with_connector_lazy(connector)
}
