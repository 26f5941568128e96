//! Who the node is to the API server, and to those who ask it.
//!
//! Comes in: `--kubeconfig` and its kin ([`Settings`]). Goes out: [`Clients`], and the work that keeps their
//! certificate good ([`Upkeep`]), to be run beside them.
//!
//! `kubeconfig` reads how to reach the server, `credential` is a certificate with its key, `client_certificate` the one
//! in use, which can be changed under way: new connections use the new one, requests under way end on the old ones,
//! and watches take up where they were.

mod client_certificate;
mod credential;
mod kubeconfig;
mod reload;
#[cfg(test)]
pub(crate) mod test_certificates;

use std::path::PathBuf;

use tokio_util::sync::CancellationToken;

use crate::clients::{ClientSettings, Clients, ConnectError};

pub(crate) use client_certificate::ClientCertificate;
pub use credential::{Credential, CredentialError, Names};
pub(crate) use kubeconfig::{Access, CertificateSource};

/// How the node joins its cluster.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `--kubeconfig`.
    pub kubeconfig: PathBuf,
    /// How much the server may be asked.
    pub clients: ClientSettings,
}

/// Makes the clients; no request is sent yet.
///
/// # Errors
/// When the settings cannot be used.
pub async fn connect(settings: Settings) -> Result<(Clients, Upkeep), ConnectError> {
    let access = Access::read(&settings.kubeconfig).await?;
    let source = access.certificate.clone();
    let credential = source.load().map_err(|source| {
        let path = settings.kubeconfig.clone();
        ConnectError::Certificate { path, source }
    })?;
    let certificate = credential.map(|credential| ClientCertificate::new(Some(credential)));
    let (clients, links) = Clients::open(access, certificate.clone(), settings.clients).await?;
    let work = match (source, certificate) {
        (CertificateSource::Files { certificate, key }, Some(current)) => {
            Work::Files(reload::ReloadedFiles { certificate, key, current, links })
        }
        _ => Work::None,
    };
    Ok((clients, Upkeep { work }))
}

/// Keeps the certificate of the clients good.
pub struct Upkeep {
    work: Work,
}

enum Work {
    None,
    Files(reload::ReloadedFiles),
}

impl Upkeep {
    /// Until `cancel`. Ends before only when the node has no identity any more and must be started anew; the reason
    /// was logged.
    pub async fn run(self, cancel: CancellationToken) {
        match self.work {
            Work::None => cancel.cancelled().await,
            Work::Files(files) => files.run(cancel).await,
        }
    }
}
