//! Reloads a client certificate from files that another program renews.

use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::credential::Credential;
use super::current_certificate::CurrentCertificate;
use crate::clients::ClientConnections;

/// Certificates are usually renewed long before they expire, so this need not be short.
const RELOAD_INTERVAL: Duration = Duration::from_secs(60);

/// The files, and the connections that use their certificate.
pub(super) struct CertificateFileReloader {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
    pub(super) current: CurrentCertificate,
    pub(super) connections: ClientConnections,
}

impl CertificateFileReloader {
    pub(super) async fn run(self, cancel: CancellationToken) {
        loop {
            tokio::select! {
                () = cancel.cancelled() => return,
                () = tokio::time::sleep(RELOAD_INTERVAL) => self.reload_if_changed().await,
            }
        }
    }

    /// Missing or half-written files are read again after the next interval.
    async fn reload_if_changed(&self) {
        let (certificate, key) = (self.certificate.clone(), self.key.clone());
        let read = tokio::task::spawn_blocking(move || Credential::from_files(&certificate, &key));
        // A panicked thread stops the agent anyway.
        let Ok(found) = read.await else { return };
        match found {
            Ok(found) if self.is_new(&found) => {
                tracing::info!(file = %self.certificate.display(), until = %found.not_after,
                    "client certificate changed; reconnecting");
                self.current.set(found);
                self.connections.renew();
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(file = %self.certificate.display(), %error,
                    "failed to reload client certificate; keeping the current one");
            }
        }
    }

    fn is_new(&self, found: &Credential) -> bool {
        self.current.current().is_none_or(|current| current.key.cert != found.key.cert)
    }
}
