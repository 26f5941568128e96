//! Requests certificates when they are due, stores them and puts them in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::Client;
use model::Timestamp;
use ports::api::ApiErrorKind;
use ports::clock::Clock;
use ports::telemetry::certificate_meter::{CertificateMeter, CertificateUse};
use rcgen::KeyPair;
use timing::random;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::bootstrap::{self, Bootstrap};
use super::certificate_store::{CertificateStore, StoreError};
use super::credential::CertificateNames;
use super::current_certificate::CurrentCertificate;
use super::rotation::{ServerHealth, backoff_after, due_at, satisfies, should_give_up};
use super::signing::{CsrNaming, Purpose, SigningError, submit};
use crate::clients::{ClientConnections, ConnectError};

/// After this time without approval the agent submits a new request.
const APPROVAL_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// Longer for the first certificate, which may need manual approval.
const FIRST_APPROVAL_TIMEOUT: Duration = Duration::from_secs(3600);
/// Limits sleeps, because the system clock may be set in the meantime.
const CLOCK_CHECK_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub(super) enum RenewalError {
    #[error(transparent)]
    Signing(#[from] SigningError),
    #[error("certificate request {0} was not approved in time")]
    NotApproved(String),
    #[error("store the certificate: {0}")]
    Store(#[from] StoreError),
    #[error("bootstrap: {0}")]
    Bootstrap(#[from] bootstrap::BootstrapError),
    #[error("{0}")]
    Connect(#[from] ConnectError),
    #[error("the agent stops")]
    Stopped(#[from] tokio::task::JoinError),
}

/// Renews one certificate before it expires or when its names change.
pub(super) struct CertificateRenewer {
    pub(super) purpose: Purpose,
    /// `None` while the node's addresses are not known yet.
    pub(super) desired_names: watch::Receiver<Option<CertificateNames>>,
    pub(super) store: CertificateStore,
    pub(super) current: CurrentCertificate,
    /// Authenticates with the current certificate.
    pub(super) client: Client,
    /// Credentials for requests without a valid certificate.
    pub(super) bootstrap: Option<Bootstrap>,
    /// Connections to reopen after a renewal.
    pub(super) connections: Option<ClientConnections>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) meter: Arc<dyn CertificateMeter>,
    pub(super) server_rejects: AtomicBool,
}

impl CertificateRenewer {
    /// Runs until `cancel`. Returns earlier, after logging the reason, if the API server keeps rejecting the node.
    pub(super) async fn run(self, renew_now: bool, cancel: CancellationToken) {
        self.report_current();
        tokio::select! {
            () = cancel.cancelled() => {}
            () = self.renew_when_due(renew_now) => {}
            () = self.monitor_expiry() => {}
        }
    }

    /// Obtains the first certificate. Returns whether it succeeded.
    pub(super) async fn obtain_first(&self, cancel: &CancellationToken) -> bool {
        tokio::select! {
            () = cancel.cancelled() => false,
            () = self.retry_until_renewed() => true,
            () = self.monitor_expiry() => false,
        }
    }

    async fn renew_when_due(&self, mut renew_now: bool) {
        let mut immediately_due = 0;
        loop {
            if !renew_now {
                self.wait_until_due().await;
            }
            renew_now = false;
            self.retry_until_renewed().await;
            // If the clock is far ahead, every new certificate is due immediately: back off to protect the server.
            immediately_due =
                if self.remaining(self.clock.now(), 0.0).is_none() { immediately_due + 1 } else { 0 };
            tokio::time::sleep(backoff_after(immediately_due, random())).await;
        }
    }

    async fn wait_until_due(&self) {
        let mut desired_names = self.desired_names.clone();
        let random = random();
        loop {
            desired_names.mark_unchanged();
            let now = self.clock.now();
            let Some(remaining) = self.remaining(now, random) else { return };
            tokio::select! {
                () = tokio::time::sleep(remaining.min(CLOCK_CHECK_INTERVAL)) => {}
                Ok(()) = desired_names.changed() => {}
            }
        }
    }

    /// Returns the time until the next request is due; `None` means now.
    fn remaining(&self, now: Timestamp, random: f64) -> Option<Duration> {
        let Some(desired_names) = self.desired_names.borrow().clone() else {
            return Some(CLOCK_CHECK_INTERVAL);
        };
        let current = self.current.current()?;
        if !satisfies(&current, &desired_names) {
            return None;
        }
        let due = due_at(current.not_before, current.not_after, random);
        (due > now).then(|| due.since(now))
    }

    async fn retry_until_renewed(&self) {
        let mut failures = 0;
        let mut desired_names = self.desired_names.clone();
        loop {
            desired_names.mark_unchanged();
            let requested = desired_names.borrow().clone();
            if let Some(names) = requested {
                tokio::select! {
                    outcome = self.attempt(&names) => match outcome {
                        Ok(()) => return,
                        Err(error) => {
                            failures += 1;
                            self.meter.not_renewed(self.usage());
                            self.server_rejects.store(is_rejection(&error), Ordering::Relaxed);
                            tracing::warn!(purpose = ?self.purpose, error = %error, "failed to obtain certificate; will retry");
                        }
                    },
                    // The request is obsolete: other names are desired now.
                    Ok(()) = desired_names.changed() => continue,
                }
            }
            tokio::select! {
                () = tokio::time::sleep(backoff_after(failures.max(1), random())) => {}
                Ok(()) = desired_names.changed() => {}
            }
        }
    }

    async fn attempt(&self, names: &CertificateNames) -> Result<(), RenewalError> {
        let valid = self.current.current().is_some_and(|current| !current.is_expired(self.clock.now()));
        let first = self.bootstrap.as_ref().filter(|_| !valid);
        let (client, key, naming, timeout) = match first {
            Some(bootstrap) => (
                bootstrap.client().await?,
                bootstrap.load_or_generate_key()?,
                CsrNaming::FromContent,
                FIRST_APPROVAL_TIMEOUT,
            ),
            None => {
                let key = KeyPair::generate().map_err(SigningError::CreateRequest)?;
                (self.client.clone(), key, CsrNaming::GeneratedByServer, APPROVAL_TIMEOUT)
            }
        };
        let submitted = submit(client, self.purpose, naming, names, &key).await?;
        let name = submitted.name().to_owned();
        tracing::info!(
            "waiting for approval of certificate request {name}: kubectl certificate approve {name}"
        );
        self.current.set_waiting_for(format!("waiting for approval of certificate request {name}"));
        let issued = tokio::time::timeout(timeout, submitted.wait_until_issued()).await;
        let certificate = issued.map_err(|_| RenewalError::NotApproved(name))??;
        self.install(certificate, &key).await
    }

    async fn install(&self, certificate: Vec<u8>, key: &KeyPair) -> Result<(), RenewalError> {
        let now = self.clock.now();
        let (store, key) = (self.store.clone(), key.serialize_pem());
        let stored = move || store.update(&certificate, key.as_bytes(), now);
        let stored = tokio::task::spawn_blocking(stored).await?;
        let credential = stored?;
        tracing::info!(purpose = ?self.purpose, until = %credential.not_after, "installed new certificate");
        // Before the certificate is used: once the node is online, its kubeconfig must exist.
        if let Some(Err(error)) =
            self.bootstrap.as_ref().map(|bootstrap| bootstrap.finish(&self.store.current_path()))
        {
            tracing::error!(%error, "failed to write kubeconfig; the node will bootstrap again after a restart");
        }
        if let Some(old) = self.current.current() {
            self.meter.replaced(self.usage(), now.since(old.not_before));
        }
        self.current.set(credential);
        self.report_current();
        self.server_rejects.store(false, Ordering::Relaxed);
        if let Some(connections) = &self.connections {
            connections.renew();
        }
        Ok(())
    }

    fn report_current(&self) {
        self.meter.in_use(self.usage(), self.current.current().map(|current| current.not_after));
    }

    fn usage(&self) -> CertificateUse {
        match self.purpose {
            Purpose::Client => CertificateUse::Client,
            Purpose::Serving => CertificateUse::Serving,
        }
    }

    async fn monitor_expiry(&self) {
        let mut last_valid = self.clock.now();
        let mut logged = false;
        loop {
            let now = self.clock.now();
            match self.current.current() {
                Some(current) if !current.is_expired(now) => {
                    last_valid = now;
                    logged = false;
                }
                Some(current) if !logged => {
                    tracing::error!(expired = %current.not_after,
                        "client certificate has expired; the API server will reject this node");
                    logged = true;
                }
                _ => {}
            }
            let health = if self.server_rejects.load(Ordering::Relaxed) {
                ServerHealth::RejectsNode
            } else {
                ServerHealth::Unknown
            };
            if self.purpose == Purpose::Client && should_give_up(now, last_valid, health) {
                tracing::error!(
                    "no valid client certificate since {last_valid}, and the API server rejects requests for one; \
                     check --bootstrap-kubeconfig and the clock, then restart"
                );
                return;
            }
            tokio::time::sleep(CLOCK_CHECK_INTERVAL).await;
        }
    }
}

/// Whether the server is healthy but rejects the node's credentials.
fn is_rejection(error: &RenewalError) -> bool {
    let RenewalError::Signing(SigningError::Api(error)) = error else { return false };
    matches!(error.kind, ApiErrorKind::Unauthorized | ApiErrorKind::Forbidden | ApiErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use http::{Request, Response};
    use kube::client::Body;
    use tempfile::TempDir;
    use testkit::fake_clock::FakeClock;
    use tokio::time::Instant;

    use super::*;
    use crate::identity::Credential;
    use crate::identity::signing::node_names;
    use crate::identity::test_certificates::{Authority, issued};

    /// Creates a renewer whose certificate is valid until `not_after` and whose server always fails with `code`, and the
    /// number of requests that it received.
    fn renewer(folder: &TempDir, not_after: i64, code: u16) -> (CertificateRenewer, Arc<AtomicUsize>) {
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = requests.clone();
        let service = tower::service_fn(move |_: Request<Body>| {
            counter.fetch_add(1, Ordering::Relaxed);
            let status = serde_json::json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                "code": code, "message": "no", "reason": "No"});
            let response = Response::builder().status(code).body(Body::from(status.to_string().into_bytes()));
            std::future::ready(response)
        });
        let (certificate, key) = issued(&Authority::new(), "system:node:n", &[], 0, not_after);
        let credential = Credential::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
        let renewer = CertificateRenewer {
            purpose: Purpose::Client,
            desired_names: watch::channel(Some(node_names("n"))).1,
            store: CertificateStore::new(folder.path(), "kubelet-client"),
            current: CurrentCertificate::new(Some(credential)),
            client: Client::new(service, "default"),
            bootstrap: None,
            connections: None,
            clock: Arc::new(FakeClock::following_tokio(0)),
            meter: Arc::new(()),
            server_rejects: AtomicBool::new(false),
        };
        (renewer, requests)
    }

    #[tokio::test(start_paused = true)]
    async fn requests_when_due_and_ends_after_persistent_rejection() {
        let folder = TempDir::new().unwrap();
        let (renewer, requests) = renewer(&folder, 1000, 401);
        let running = renewer.run(false, CancellationToken::new());
        tokio::pin!(running);
        let start = Instant::now();
        assert!(tokio::time::timeout(Duration::from_secs(699), &mut running).await.is_err());
        assert_eq!(requests.load(Ordering::Relaxed), 0, "sent a request before it was due");
        running.await;
        // Five minutes after the certificate expires, at the next check.
        let ended = start.elapsed().as_secs();
        assert!((1300..=1320).contains(&ended), "{ended}");
        // 400 to 620 seconds with delays of up to 35 seconds.
        let requests = requests.load(Ordering::Relaxed);
        assert!((12..=26).contains(&requests), "{requests}");
    }

    #[tokio::test(start_paused = true)]
    async fn keeps_retrying_while_the_server_fails() {
        let folder = TempDir::new().unwrap();
        let (renewer, requests) = renewer(&folder, 1000, 500);
        let a_day = Duration::from_secs(24 * 3600);
        let ended = tokio::time::timeout(a_day, renewer.run(false, CancellationToken::new())).await;
        assert!(ended.is_err());
        assert!(requests.load(Ordering::Relaxed) > 2000);
    }
}
