//! The certificate that new connections use.

use parking_lot::Mutex;
use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

use super::credential::Credential;

/// The client has no certificate to authenticate with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no client certificate yet: {0}")]
pub(crate) struct MissingCertificate(String);

/// A replaceable certificate for TLS handshakes. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct CurrentCertificate {
    slot: Arc<Slot>,
}

#[derive(Debug)]
struct Slot {
    current: watch::Sender<Option<Arc<Credential>>>,
    waiting_for: Mutex<String>,
}

impl CurrentCertificate {
    pub(crate) fn new(credential: Option<Credential>) -> Self {
        let current = watch::Sender::new(credential.map(Arc::new));
        let waiting_for = Mutex::new("not requested".to_owned());
        Self { slot: Arc::new(Slot { current, waiting_for }) }
    }

    pub(crate) fn current(&self) -> Option<Arc<Credential>> {
        self.slot.current.borrow().clone()
    }

    /// Sets the certificate for new connections.
    pub(crate) fn set(&self, credential: Credential) {
        self.slot.current.send_replace(Some(Arc::new(credential)));
    }

    /// Waits until there is a certificate.
    pub(crate) async fn ready(&self) {
        let mut changes = self.slot.current.subscribe();
        // Cannot fail: `self` owns the sender.
        let _ = changes.wait_for(Option::is_some).await;
    }

    /// Sets the reason why there is no certificate yet, for [`Self::missing`].
    pub(crate) fn set_waiting_for(&self, reason: String) {
        *self.slot.waiting_for.lock() = reason;
    }

    pub(crate) fn missing(&self) -> MissingCertificate {
        MissingCertificate(self.slot.waiting_for.lock().clone())
    }
}

impl ResolvesClientCert for CurrentCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.current().map(|credential| credential.key.clone())
    }

    fn has_certs(&self) -> bool {
        self.slot.current.borrow().is_some()
    }
}

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current().map(|credential| credential.key.clone())
    }
}
