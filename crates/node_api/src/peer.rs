//! The remote end of a connection.

use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio_rustls::rustls::pki_types::CertificateDer;

use crate::listener::UnauthenticatedConnection;

/// An extension of every request of a connection.
#[derive(Clone, Default)]
pub struct Peer {
    address: Option<SocketAddr>,
    chain: Arc<[CertificateDer<'static>]>,
    /// `None` as soon as a request was authenticated.
    unauthenticated: Arc<Mutex<Option<UnauthenticatedConnection>>>,
}

impl Peer {
    pub(crate) fn new(
        address: SocketAddr,
        chain: &[CertificateDer<'static>],
        unauthenticated: UnauthenticatedConnection,
    ) -> Self {
        let unauthenticated = Arc::new(Mutex::new(Some(unauthenticated)));
        Self { address: Some(address), chain: chain.into(), unauthenticated }
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
        self.unauthenticated.lock().take();
    }

    pub(crate) fn is_authenticated(&self) -> bool {
        self.unauthenticated.lock().is_none()
    }
}
