//! The remote end of a connection.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio_rustls::rustls::pki_types::CertificateDer;

use crate::listener::OpenConnection;

/// An extension of every request of a connection.
#[derive(Clone, Default)]
pub struct Peer {
    address: Option<SocketAddr>,
    chain: Arc<[CertificateDer<'static>]>,
    connection: Option<Arc<OpenConnection>>,
}

impl Peer {
    pub(crate) fn new(
        address: SocketAddr,
        chain: &[CertificateDer<'static>],
        connection: Arc<OpenConnection>,
    ) -> Self {
        Self { address: Some(address), chain: chain.into(), connection: Some(connection) }
    }

    /// `None` for requests that did not arrive over TCP.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    pub(crate) fn has_certificate(&self) -> bool {
        !self.chain.is_empty()
    }

    /// The certificate chain, leaf first.
    pub(crate) fn certificates(&self) -> Vec<&[u8]> {
        self.chain.iter().map(AsRef::as_ref).collect()
    }

    pub(crate) fn mark_authenticated(&self) {
        if let Some(connection) = &self.connection {
            connection.recognise();
        }
    }
}
