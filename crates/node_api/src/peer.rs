//! The other end of a connection.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_rustls::rustls::pki_types::CertificateDer;

use crate::listener::Stranger;

/// What a connection says of who is at its other end; every request of it carries this.
#[derive(Clone, Default)]
pub struct Peer {
    address: Option<SocketAddr>,
    chain: Arc<[CertificateDer<'static>]>,
    /// The place of a stranger, given back when somebody is recognised.
    stranger: Arc<Mutex<Option<Stranger>>>,
}

impl Peer {
    pub(crate) fn new(address: SocketAddr, chain: &[CertificateDer<'static>], stranger: Stranger) -> Self {
        Self { address: Some(address), chain: chain.into(), stranger: Arc::new(Mutex::new(Some(stranger))) }
    }

    /// Where it is; none for a connection that has no address.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    pub(crate) fn has_certificate(&self) -> bool {
        !self.chain.is_empty()
    }

    /// The chain it showed, the leaf first.
    pub(crate) fn certificates(&self) -> Vec<&[u8]> {
        self.chain.iter().map(AsRef::as_ref).collect()
    }

    /// A request of this connection was authenticated.
    pub(crate) fn recognised(&self) {
        self.stranger.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    pub(crate) fn is_recognised(&self) -> bool {
        self.stranger.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}
