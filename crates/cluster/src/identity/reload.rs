//! A client certificate in files that somebody else renews.

use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::credential::Credential;
use super::current_certificate::CurrentCertificate;
use crate::clients::Links;

/// Between two looks. Whoever renews does so long before the old certificate ends.
const PERIOD: Duration = Duration::from_secs(60);

/// The files, and the connections that use them.
pub(super) struct ReloadedFiles {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
    pub(super) current: CurrentCertificate,
    pub(super) links: Links,
}

impl ReloadedFiles {
    pub(super) async fn run(self, cancel: CancellationToken) {
        loop {
            tokio::select! {
                () = cancel.cancelled() => return,
                () = tokio::time::sleep(PERIOD) => self.look(),
            }
        }
    }

    /// Takes up what is in the files now. Half-written or missing files are looked at again the next time.
    fn look(&self) {
        match Credential::from_files(&self.certificate, &self.key) {
            Ok(found) if self.is_new(&found) => {
                tracing::info!(file = %self.certificate.display(), until = %found.not_after,
                    "a new client certificate; connecting anew");
                self.current.set(found);
                self.links.renew();
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(file = %self.certificate.display(), %error,
                    "the client certificate cannot be read again; the one in use stays");
            }
        }
    }

    fn is_new(&self, found: &Credential) -> bool {
        self.current.current().is_none_or(|current| current.key.cert != found.key.cert)
    }
}
