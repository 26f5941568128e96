//! Certificates for pods with a `podCertificate` volume source. Each sync of a pod takes the next step of the request
//! (`decide::projected::pod_certificates`), and a sync is scheduled when a certificate is due for refresh. Certificates are
//! not saved: the next agent requests new ones, and the files stay in the volume until then.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use decide::projected::pod_certificates::{CertificateState, Need, Warning};
use k8s_openapi::api::core::v1::PodCertificateProjection;
use model::{
    CertificateWish, EventSubject, EventType, Pod, PodCertificate, PodUid, RecordedEvent, Timestamp,
};
use ports::api::pod_certificates::ApiPodCertificates;
use ports::api::service_accounts::ApiServiceAccounts;
use ports::clock::Clock;
use ports::served::event_recorder::EventRecorder;
use timing::{fraction_of, up_to};
use tokio::sync::watch;

use crate::metrics::{Collect, Page, to_gauge};
use crate::node::node_view::NodeView;

/// Spreads the requests of many pods.
const MAX_JITTER: Duration = Duration::from_secs(300);

pub struct PodCertificatesDeps {
    pub api: Arc<dyn ApiPodCertificates>,
    pub accounts: Arc<dyn ApiServiceAccounts>,
    pub node: watch::Receiver<NodeView>,
    pub events: Arc<dyn EventRecorder>,
    pub clock: Arc<dyn Clock>,
}

pub struct PodCertificates {
    deps: PodCertificatesDeps,
    certificates: Mutex<HashMap<Key, TrackedCertificate>>,
}

/// UID of the pod, name of the volume, and index of the source in the volume.
type Key = (PodUid, String, usize);

struct TrackedCertificate {
    signer: String,
    state: CertificateState,
}

impl PodCertificates {
    #[must_use]
    pub fn new(deps: PodCertificatesDeps) -> Self {
        Self { deps, certificates: Mutex::default() }
    }

    /// Takes the next step of the request and returns the current certificate. Must not be called concurrently for one
    /// pod.
    ///
    /// # Errors
    /// Upstream's message if there is no certificate.
    pub async fn get(
        &self,
        pod: &Pod,
        (volume, source_index): (&str, usize),
        source: &PodCertificateProjection,
    ) -> Result<PodCertificate, String> {
        let key = (pod.uid.clone(), volume.to_owned(), source_index);
        let jitter = up_to(MAX_JITTER, fraction_of(&key));
        let mut state =
            self.certificates.lock().get(&key).map(|tracked| tracked.state.clone()).unwrap_or_default();
        let mut failure = None;
        let now = self.deps.clock.now();
        if state.need(now) == Need::Request {
            let late = state.overdue_warnings(now);
            self.record_warnings(pod, late);
            match self.request(pod, source).await {
                Ok(request) => state = state.requested(request, jitter),
                Err(problem) => failure = Some(problem),
            }
        }
        if let Need::Look(name) = state.need(now) {
            match self.deps.api.get(pod.namespace(), &name).await {
                Ok(outcome) => {
                    let full_name = format!("{}/{name}", pod.namespace());
                    let now = self.deps.clock.now();
                    let (next, warning) = state.looked_at(outcome, &full_name, now, jitter);
                    state = next;
                    self.record_warnings(pod, warning);
                    let late = state.overdue_warnings(now);
                    self.record_warnings(pod, late);
                }
                Err(error) => {
                    failure = Some(format!("while getting PodCertificateRequest {name:?}: {error}"));
                }
            }
        }
        let certificate = state.certificate();
        self.certificates
            .lock()
            .insert(key, TrackedCertificate { signer: source.signer_name.clone(), state });
        match (certificate, failure) {
            (Ok(certificate), Some(problem)) => {
                tracing::warn!(pod = %pod.full_name, volume, %problem, "failed to refresh pod certificate, using the old one");
                Ok(certificate)
            }
            (Ok(certificate), None) => Ok(certificate),
            (Err(problem), Some(cause)) => Err(format!("{problem}: {cause}")),
            (Err(problem), None) => Err(problem),
        }
    }

    /// When the pod's next certificate is due for refresh.
    #[must_use]
    pub fn due_at(&self, uid: &PodUid) -> Option<Timestamp> {
        let certificates = self.certificates.lock();
        let own = certificates.iter().filter(|((pod, _, _), _)| pod == uid);
        own.filter_map(|(_, tracked)| tracked.state.due_at()).min()
    }

    /// Drops the certificates of a finished pod.
    pub fn forget(&self, uid: &PodUid) {
        self.certificates.lock().retain(|(pod, _, _), _| pod != uid);
    }

    async fn request(
        &self,
        pod: &Pod,
        source: &PodCertificateProjection,
    ) -> Result<model::CertificateRequest, String> {
        let account = pod.spec.service_account_name.clone().unwrap_or_default();
        let found = self.deps.accounts.get(pod.namespace(), &account).await;
        let found = found.map_err(|error| format!("while fetching service account: {error}"))?;
        let node = self.deps.node.borrow().identity();
        let (node, node_uid) =
            node.ok_or("while getting node object from local cache: it is not known yet")?;
        let wish = CertificateWish {
            namespace: pod.namespace().to_owned(),
            pod_name: pod.name().to_owned(),
            pod_uid: pod.uid.clone(),
            account,
            account_uid: found.uid,
            node,
            node_uid,
            signer: source.signer_name.clone(),
            key_type: source.key_type.clone(),
            max_expiration_seconds: source.max_expiration_seconds,
            annotations: source.user_annotations.clone().unwrap_or_default(),
        };
        let created = self.deps.api.create(&wish).await;
        created.map_err(|error| format!("while creating PodCertificateRequest: {error}"))
    }

    fn record_warnings(&self, pod: &Pod, warnings: impl IntoIterator<Item = Warning>) {
        for (reason, message) in warnings {
            let subject = EventSubject::pod(pod, String::new());
            let now = self.deps.clock.now();
            self.deps.events.record(RecordedEvent::new(subject, EventType::Warning, reason, message, now));
        }
    }
}

impl Collect for PodCertificates {
    fn collect(&self, page: &mut Page) {
        let now = self.deps.clock.now();
        let mut counts: BTreeMap<(String, &str), usize> = BTreeMap::new();
        for tracked in self.certificates.lock().values() {
            *counts.entry((tracked.signer.clone(), tracked.state.word(now))).or_default() += 1;
        }
        let rows =
            counts.iter().map(|((signer, state), count)| ([signer.as_str(), *state], to_gauge(*count)));
        let family = ("kubelet_podcertificate_states", "Pod certificates by signer and state");
        page.gauges(family, ["signer_name", "state"], rows);
    }
}

#[cfg(test)]
mod tests;
