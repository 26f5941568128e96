//! Asking for certificates when they are due, and taking them up.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::Client;
use model::Timestamp;
use ports::api::ApiErrorKind;
use ports::certificate_meter::{CertificateMeter, CertificateUse};
use ports::clock::Clock;
use rcgen::KeyPair;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::bootstrap::{self, Bootstrap};
use super::certificate_store::{CertificateStore, StoreError};
use super::credential::Names;
use super::current_certificate::CurrentCertificate;
use super::rotation::{ServerHealth, due_at, gives_up, satisfies, wait_after};
use super::signing::{Naming, Purpose, SigningError, submit};
use crate::clients::{ConnectError, Links};

/// How long one request may wait for approval before another is made.
const APPROVAL: Duration = Duration::from_secs(15 * 60);
/// The first certificate of a node may wait for somebody to wake up.
const FIRST_APPROVAL: Duration = Duration::from_secs(3600);
/// Between two looks at the clock, which may have been set meanwhile.
const LOOK: Duration = Duration::from_secs(10);

/// Why an attempt failed.
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
}

/// Keeps one certificate good.
pub(super) struct Renewal {
    pub(super) purpose: Purpose,
    /// What the certificate is to say; none means that it is not known yet.
    pub(super) wanted: watch::Receiver<Option<Names>>,
    pub(super) store: CertificateStore,
    pub(super) current: CurrentCertificate,
    /// Asks with the certificate in use.
    pub(super) client: Client,
    /// How to ask without one.
    pub(super) bootstrap: Option<Bootstrap>,
    /// Connections that use it.
    pub(super) links: Option<Links>,
    pub(super) clock: Arc<dyn Clock>,
    /// Who is told how it goes.
    pub(super) meter: Arc<dyn CertificateMeter>,
    pub(super) server_refuses: AtomicBool,
}

impl Renewal {
    /// Renews for ever. Ends when the node has had no certificate for too long though the server answers; says why.
    pub(super) async fn run(self, renew_now: bool, cancel: CancellationToken) {
        self.tell();
        tokio::select! {
            () = cancel.cancelled() => {}
            () = self.renew_for_ever(renew_now) => {}
            () = self.watch_over() => {}
        }
    }

    /// Gets the first certificate, and no more. Says whether there is one now.
    pub(super) async fn first(&self, cancel: &CancellationToken) -> bool {
        tokio::select! {
            () = cancel.cancelled() => false,
            () = self.attempt_until_done() => true,
            () = self.watch_over() => false,
        }
    }

    async fn renew_for_ever(&self, mut renew_now: bool) {
        let mut at_once = 0;
        loop {
            if !renew_now {
                self.until_due().await;
            }
            renew_now = false;
            self.attempt_until_done().await;
            // With a clock far ahead every new certificate is due at once; the server must not suffer from it.
            at_once = if self.remaining(self.clock.now(), 0.0).is_none() { at_once + 1 } else { 0 };
            tokio::time::sleep(wait_after(at_once, spread())).await;
        }
    }

    async fn until_due(&self) {
        let mut wanted = self.wanted.clone();
        let spread = spread();
        loop {
            wanted.mark_unchanged();
            let now = self.clock.now();
            let Some(remaining) = self.remaining(now, spread) else { return };
            tokio::select! {
                () = tokio::time::sleep(remaining.min(LOOK)) => {}
                Ok(()) = wanted.changed() => {}
            }
        }
    }

    /// Time until a certificate is to be asked for; none means now.
    fn remaining(&self, now: Timestamp, spread: f64) -> Option<Duration> {
        let Some(wanted) = self.wanted.borrow().clone() else { return Some(LOOK) };
        let current = self.current.current()?;
        if !satisfies(&current, &wanted) {
            return None;
        }
        let due = due_at(current.not_before, current.not_after, spread);
        (due > now).then(|| due.since(now))
    }

    async fn attempt_until_done(&self) {
        let mut failures = 0;
        let mut wanted = self.wanted.clone();
        loop {
            wanted.mark_unchanged();
            let asked = wanted.borrow().clone();
            if let Some(names) = asked {
                tokio::select! {
                    outcome = self.attempt(&names) => match outcome {
                        Ok(()) => return,
                        Err(error) => {
                            failures += 1;
                            self.meter.not_renewed(self.usage());
                            self.server_refuses.store(refuses(&error), Ordering::Relaxed);
                            tracing::warn!(purpose = ?self.purpose, error = %error, "no new certificate");
                        }
                    },
                    // What is asked for is not wanted any more.
                    Ok(()) = wanted.changed() => continue,
                }
            }
            tokio::select! {
                () = tokio::time::sleep(wait_after(failures.max(1), spread())) => {}
                Ok(()) = wanted.changed() => {}
            }
        }
    }

    async fn attempt(&self, names: &Names) -> Result<(), RenewalError> {
        let valid = self.current.current().is_some_and(|current| !current.is_expired(self.clock.now()));
        let first = self.bootstrap.as_ref().filter(|_| !valid);
        let (client, key, naming, patience) = match first {
            Some(bootstrap) => {
                (bootstrap.client().await?, bootstrap.key()?, Naming::ByContent, FIRST_APPROVAL)
            }
            None => {
                let key = KeyPair::generate().map_err(SigningError::Make)?;
                (self.client.clone(), key, Naming::ByServer, APPROVAL)
            }
        };
        let submitted = submit(client, self.purpose, naming, names, &key).await?;
        let name = submitted.name().to_owned();
        tracing::info!(
            "waiting for approval of certificate request {name}: kubectl certificate approve {name}"
        );
        self.current.waits_for(format!("waiting for approval of certificate request {name}"));
        let issued = tokio::time::timeout(patience, submitted.issued()).await;
        let certificate = issued.map_err(|_| RenewalError::NotApproved(name))??;
        self.take_up(&certificate, &key)
    }

    fn take_up(&self, certificate: &[u8], key: &KeyPair) -> Result<(), RenewalError> {
        let now = self.clock.now();
        let credential = self.store.update(certificate, key.serialize_pem().as_bytes(), now)?;
        tracing::info!(purpose = ?self.purpose, until = %credential.not_after, "a new certificate");
        // Before it is used: whoever sees the node work finds the kubeconfig written.
        if let Some(Err(error)) = self.bootstrap.as_ref().map(|way| way.finish(&self.store.current_path())) {
            tracing::error!(%error, "the kubeconfig was not written; the next start will bootstrap again");
        }
        if let Some(old) = self.current.current() {
            self.meter.replaced(self.usage(), now.since(old.not_before));
        }
        self.current.set(credential);
        self.tell();
        self.server_refuses.store(false, Ordering::Relaxed);
        if let Some(links) = &self.links {
            links.renew();
        }
        Ok(())
    }

    /// Tells which certificate is in use.
    fn tell(&self) {
        self.meter.in_use(self.usage(), self.current.current().map(|current| current.not_after));
    }

    fn usage(&self) -> CertificateUse {
        match self.purpose {
            Purpose::Client => CertificateUse::Client,
            Purpose::Serving => CertificateUse::Serving,
        }
    }

    async fn watch_over(&self) {
        let mut last_valid = self.clock.now();
        let mut told = false;
        loop {
            let now = self.clock.now();
            match self.current.current() {
                Some(current) if !current.is_expired(now) => {
                    last_valid = now;
                    told = false;
                }
                Some(current) if !told => {
                    tracing::error!(expired = %current.not_after,
                        "the client certificate has expired; the API server will not know this node");
                    told = true;
                }
                _ => {}
            }
            let health = if self.server_refuses.load(Ordering::Relaxed) {
                ServerHealth::RefusesUs
            } else {
                ServerHealth::Unknown
            };
            if self.purpose == Purpose::Client && gives_up(now, last_valid, health) {
                tracing::error!(
                    "no valid client certificate since {last_valid}, and the API server refuses to give one; \
                     check --bootstrap-kubeconfig and the clock, then start again"
                );
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Whether the server works but does not want us.
fn refuses(error: &RenewalError) -> bool {
    let RenewalError::Signing(SigningError::Api(error)) = error else { return false };
    matches!(error.kind, ApiErrorKind::Unauthorized | ApiErrorKind::Forbidden | ApiErrorKind::NotFound)
}

/// Anything between 0 and 1.
fn spread() -> f64 {
    let bits = u32::try_from(RandomState::new().hash_one(0) >> 32).unwrap_or_default();
    f64::from(bits) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use http::{Request, Response};
    use kube::client::Body;
    use tempfile::TempDir;
    use tokio::time::Instant;

    use super::*;
    use crate::identity::Credential;
    use crate::identity::signing::node_names;
    use crate::identity::test_certificates::{Authority, issued};

    /// A clock that goes with tokio's, from zero.
    struct TokioClock(Instant);

    impl Clock for TokioClock {
        fn now(&self) -> Timestamp {
            Timestamp::from_secs(0).after(self.0.elapsed())
        }
    }

    /// A renewal of a certificate valid until `not_after`, and the number of requests that it made in vain.
    fn renewal(folder: &TempDir, not_after: i64, answer: u16) -> (Renewal, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = asked.clone();
        let service = tower::service_fn(move |_: Request<Body>| {
            counter.fetch_add(1, Ordering::Relaxed);
            let status = serde_json::json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                "code": answer, "message": "no", "reason": "No"});
            let response =
                Response::builder().status(answer).body(Body::from(status.to_string().into_bytes()));
            std::future::ready(response)
        });
        let (certificate, key) = issued(&Authority::new(), "system:node:n", &[], 0, not_after);
        let credential = Credential::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
        let renewal = Renewal {
            purpose: Purpose::Client,
            wanted: watch::channel(Some(node_names("n"))).1,
            store: CertificateStore::new(folder.path(), "kubelet-client"),
            current: CurrentCertificate::new(Some(credential)),
            client: Client::new(service, "default"),
            bootstrap: None,
            links: None,
            clock: Arc::new(TokioClock(Instant::now())),
            meter: Arc::new(()),
            server_refuses: AtomicBool::new(false),
        };
        (renewal, asked)
    }

    #[tokio::test(start_paused = true)]
    async fn asks_when_due_and_ends_when_refused_for_too_long() {
        let folder = TempDir::new().unwrap();
        let (renewal, asked) = renewal(&folder, 1000, 401);
        let running = renewal.run(false, CancellationToken::new());
        tokio::pin!(running);
        let start = Instant::now();
        assert!(tokio::time::timeout(Duration::from_secs(699), &mut running).await.is_err());
        assert_eq!(asked.load(Ordering::Relaxed), 0, "asked before it was due");
        running.await;
        // Five minutes after the end of the certificate, at the next look.
        let ended = start.elapsed().as_secs();
        assert!((1300..=1320).contains(&ended), "{ended}");
        // In 400 to 620 seconds with waits up to 35: neither too few nor too many.
        let asked = asked.load(Ordering::Relaxed);
        assert!((12..=26).contains(&asked), "{asked}");
    }

    #[tokio::test(start_paused = true)]
    async fn goes_on_while_the_server_is_in_trouble() {
        let folder = TempDir::new().unwrap();
        let (renewal, asked) = renewal(&folder, 1000, 500);
        let a_day = Duration::from_secs(24 * 3600);
        let ended = tokio::time::timeout(a_day, renewal.run(false, CancellationToken::new())).await;
        assert!(ended.is_err());
        assert!(asked.load(Ordering::Relaxed) > 2000);
    }
}
