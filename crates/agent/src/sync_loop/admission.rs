//! Who may run: the acting half of `decide::admission`.

use std::sync::Arc;

use decide::admission::{
    Node, StrictGroups, admit, announced, first_shortage, rejection_label, unmet_by_update,
};
use model::{
    EventSubject, EventType, KillOptions, Pod, PodUid, RecordedEvent, Rejection, UpdateKind, WorkerPhase,
};
use tokio::time::Instant;

use super::SyncLoop;
use crate::node_inputs::NodeInputs;

const PREEMPTING: &str = "Preempting";
const PREEMPTED: &str = "Preempted in order to admit critical pod";

impl SyncLoop {
    /// Admits a pod and counts it in. Others that must make room for it are ended, and it waits for that.
    pub(super) fn admit(&mut self, pod: &Arc<Pod>) -> Result<(), Rejection> {
        let verdict = self.check(pod).or_else(|_| {
            // Pods that ended meanwhile may have made room.
            let views = self.parts.worker_views.clone();
            self.occupancy
                .retain(|uid| views.get(uid).is_none_or(|worker| worker.phase < WorkerPhase::Terminated));
            self.check(pod)
        });
        match verdict {
            Ok(victims) => {
                if !victims.is_empty() {
                    let missing = self.with_node(|node| first_shortage(pod, node)).unwrap_or_default();
                    for victim in &victims {
                        self.preempt(victim, pod);
                    }
                    self.making_room.wait(&pod.uid, missing, victims, Instant::now());
                }
                self.occupancy.insert(pod);
                Ok(())
            }
            Err(rejection) => {
                self.occupancy.remove(&pod.uid);
                Err(rejection)
            }
        }
    }

    fn check(&self, pod: &Pod) -> Result<Vec<Arc<Pod>>, Rejection> {
        // A pod that is on its way out is not started again by its worker; there is nothing to refuse.
        if self.is_ending(&pod.uid) {
            return Ok(Vec::new());
        }
        self.with_node(|node| admit(pod, node))
    }

    /// What the checks look at.
    fn with_node<T>(&self, look: impl FnOnce(&Node<'_>) -> T) -> T {
        let strict_groups = if self.parts.health.now().abilities.supplemental_groups_policy {
            StrictGroups::Supported
        } else {
            StrictGroups::Unsupported
        };
        let shown = || self.parts.node.as_ref().map(|node| node.borrow().clone());
        let view = self.fresh_node.clone().or_else(shown).unwrap_or_default();
        let announced = announced(view.allocatable());
        look(&Node {
            settings: &self.parts.settings,
            labels: view.labels().unwrap_or(&self.parts.settings.admission.labels),
            taints: view.taints(),
            announced: &announced,
            occupancy: &self.occupancy,
            strict_groups,
            pressure: self.parts.inputs.as_ref().map(NodeInputs::pressure).unwrap_or_default(),
            shutdown: self.parts.inputs.as_ref().map(NodeInputs::shutdown).unwrap_or_default(),
        })
    }

    fn is_ending(&self, uid: &PodUid) -> bool {
        let phase = self.parts.worker_views.get(uid).map(|worker| worker.phase);
        matches!(phase, Some(WorkerPhase::Terminating | WorkerPhase::Terminated))
    }

    /// Refuses a pod: it stays listed, and nothing of it runs.
    pub(super) fn reject(&self, pod: &Arc<Pod>, rejection: Rejection) {
        tracing::warn!(pod = %pod.full_name, reason = %rejection.reason, message = %rejection.message, "pod was rejected");
        self.warn(pod, &rejection.reason, &rejection.message);
        self.parts.metrics.pods.rejected(rejection_label(&rejection.reason));
        let options = KillOptions { grace_override: None, rejection: Some(rejection.at_admission()) };
        self.order(UpdateKind::Kill, pod, Some(options));
    }

    /// Tells when a change asks for what the node does not declare. The change is taken all the same, as far as it can
    /// be.
    pub(super) fn note_unmet_features(&self, old: Option<&Pod>, pod: &Pod) {
        let settings = &self.parts.settings.admission;
        if let Some(message) = old.and_then(|old| unmet_by_update(old, pod, settings)) {
            self.warn(pod, "FailedNodeDeclaredFeaturesCheck", &message);
        }
    }

    fn preempt(&mut self, victim: &Arc<Pod>, by: &Pod) {
        tracing::warn!(pod = %victim.full_name, by = %by.full_name, "ending a pod to make room for a critical one");
        self.warn(victim, PREEMPTING, PREEMPTED);
        let rejection = Rejection { reason: PREEMPTING.to_owned(), message: PREEMPTED.to_owned() };
        self.occupancy.remove(&victim.uid);
        let options = KillOptions { grace_override: None, rejection: Some(rejection) };
        self.order(UpdateKind::Kill, victim, Some(options));
    }

    pub(super) fn warn(&self, pod: &Pod, reason: &str, message: &str) {
        self.parts.recorder.record(RecordedEvent {
            annotations: Default::default(),
            subject: EventSubject::pod(pod, String::new()),
            kind: EventType::Warning,
            reason: reason.to_owned(),
            message: message.to_owned(),
            at: self.now(),
        });
    }
}
