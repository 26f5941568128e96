//! The certificate in use.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

use super::credential::Credential;

/// There is no certificate to ask the API server with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no client certificate yet: {0}")]
pub(crate) struct MissingCertificate(String);

/// The certificate that new connections use. Clones share it.
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
        let waiting_for = Mutex::new("it was not requested".to_owned());
        Self { slot: Arc::new(Slot { current, waiting_for }) }
    }

    pub(crate) fn current(&self) -> Option<Arc<Credential>> {
        self.slot.current.borrow().clone()
    }

    /// For connections from now on.
    pub(crate) fn set(&self, credential: Credential) {
        self.slot.current.send_replace(Some(Arc::new(credential)));
    }

    /// Returns once there is one.
    pub(crate) async fn ready(&self) {
        let mut changes = self.slot.current.subscribe();
        // The sender lives as long as this.
        let _ = changes.wait_for(Option::is_some).await;
    }

    /// Says what the first certificate waits for, for the errors of those who wait.
    pub(crate) fn waits_for(&self, what: String) {
        *self.slot.waiting_for.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    pub(crate) fn missing(&self) -> MissingCertificate {
        MissingCertificate(self.slot.waiting_for.lock().unwrap_or_else(PoisonError::into_inner).clone())
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
