//! Certificates that pods ask for. Each pass over a pod brings them a step on (`decide::pod_certificates`); a pass is due
//! when one is to be refreshed. They end with the agent: the next one asks anew, and the files stay until then.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use decide::pod_certificates::{CertificateState, Need, Warning};
use k8s_openapi::api::core::v1::PodCertificateProjection;
use model::{
    CertificateWish, EventSubject, EventType, Pod, PodCertificate, PodUid, RecordedEvent, Timestamp,
};
use ports::api::pod_certificates::ApiPodCertificates;
use ports::api::service_accounts::ApiServiceAccounts;
use ports::clock::Clock;
use ports::event_recorder::EventRecorder;
use tokio::sync::watch;

use crate::metrics::{Collect, Page, to_gauge};
use crate::node_view::NodeView;

/// Requests of many pods come spread over this time.
const SPREAD: u64 = 300;

/// What the service needs.
pub struct Parts {
    /// Where certificates come from.
    pub api: Arc<dyn ApiPodCertificates>,
    /// The accounts of pods.
    pub accounts: Arc<dyn ApiServiceAccounts>,
    /// The node as the API server shows it.
    pub node: watch::Receiver<NodeView>,
    /// Events.
    pub events: Arc<dyn EventRecorder>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// The certificates of this node's pods.
pub struct PodCertificates {
    parts: Parts,
    kept: Mutex<HashMap<Key, Kept>>,
}

/// A pod's UID, one of its volumes, and the place among that one's sources.
type Key = (PodUid, String, usize);

struct Kept {
    signer: String,
    state: CertificateState,
}

impl PodCertificates {
    /// None yet.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self { parts, kept: Mutex::default() }
    }

    /// Brings a certificate a step on, and returns what there is of it. There is one pass over a pod at a time.
    ///
    /// # Errors
    /// Why there is none, in upstream's words.
    pub async fn get(
        &self,
        pod: &Pod,
        (volume, place): (&str, usize),
        source: &PodCertificateProjection,
    ) -> Result<PodCertificate, String> {
        let key = (pod.uid.clone(), volume.to_owned(), place);
        let spread = spread(&key);
        let mut state = self.kept().get(&key).map(|kept| kept.state.clone()).unwrap_or_default();
        let mut failure = None;
        let now = self.parts.clock.now();
        if state.need(now) == Need::Request {
            let late = state.lateness(now);
            self.tell(pod, late);
            match self.request(pod, source).await {
                Ok(request) => state = state.requested(request, spread),
                Err(problem) => failure = Some(problem),
            }
        }
        if let Need::Look(name) = state.need(now) {
            match self.parts.api.get(pod.namespace(), &name).await {
                Ok(outcome) => {
                    let full_name = format!("{}/{name}", pod.namespace());
                    let now = self.parts.clock.now();
                    let (next, warning) = state.looked_at(outcome, &full_name, now, spread);
                    state = next;
                    self.tell(pod, warning);
                    let late = state.lateness(now);
                    self.tell(pod, late);
                }
                Err(error) => {
                    failure = Some(format!("while getting PodCertificateRequest {name:?}: {error}"));
                }
            }
        }
        let certificate = state.certificate();
        self.kept().insert(key, Kept { signer: source.signer_name.clone(), state });
        match (certificate, failure) {
            (Ok(certificate), Some(problem)) => {
                tracing::warn!(pod = %pod.full_name, volume, %problem, "a certificate cannot be refreshed; the old one stays");
                Ok(certificate)
            }
            (Ok(certificate), None) => Ok(certificate),
            (Err(problem), Some(cause)) => Err(format!("{problem}: {cause}")),
            (Err(problem), None) => Err(problem),
        }
    }

    /// When a certificate of a pod is due to be refreshed.
    #[must_use]
    pub fn due_at(&self, uid: &PodUid) -> Option<Timestamp> {
        let kept = self.kept();
        let own = kept.iter().filter(|((pod, _, _), _)| pod == uid);
        own.filter_map(|(_, kept)| kept.state.due_at()).min()
    }

    /// Drops the certificates of a pod that is over.
    pub fn forget(&self, uid: &PodUid) {
        self.kept().retain(|(pod, _, _), _| pod != uid);
    }

    async fn request(
        &self,
        pod: &Pod,
        source: &PodCertificateProjection,
    ) -> Result<model::CertificateRequest, String> {
        let account = pod.spec.service_account_name.clone().unwrap_or_default();
        let found = self.parts.accounts.get(pod.namespace(), &account).await;
        let found = found.map_err(|error| format!("while fetching service account: {error}"))?;
        let node = self.parts.node.borrow().identity();
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
        let made = self.parts.api.create(&wish).await;
        made.map_err(|error| format!("while creating PodCertificateRequest: {error}"))
    }

    fn tell(&self, pod: &Pod, warnings: impl IntoIterator<Item = Warning>) {
        for (reason, message) in warnings {
            self.parts.events.record(RecordedEvent {
                annotations: Default::default(),
                subject: EventSubject::pod(pod, String::new()),
                kind: EventType::Warning,
                reason: reason.to_owned(),
                message,
                at: self.parts.clock.now(),
            });
        }
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<Key, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collect for PodCertificates {
    fn collect(&self, page: &mut Page) {
        let now = self.parts.clock.now();
        let mut counts: BTreeMap<(String, &str), usize> = BTreeMap::new();
        for kept in self.kept().values() {
            *counts.entry((kept.signer.clone(), kept.state.word(now))).or_default() += 1;
        }
        let rows = counts.iter().map(|((signer, word), count)| ([signer.as_str(), *word], to_gauge(*count)));
        let family =
            ("kubelet_podcertificate_states", "Certificates of pods by who signs them and how far they are");
        page.gauges(family, ["signer_name", "state"], rows);
    }
}

fn spread(key: &Key) -> Duration {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    Duration::from_secs(hasher.finish() % SPREAD)
}

#[cfg(test)]
mod tests;
