//! Admits or rejects pods with the checks of `decide::admission`.

use std::sync::Arc;

use decide::admission::{
    AdmissionInputs, StrictGroups, check_after_allocation, check_before_allocation, extended_resources,
    features_missing_for_update, first_insufficient_resource, rejection_label,
};
use futures::FutureExt as _;
use model::{
    EventSubject, EventType, KillOptions, Pod, PodUid, RecordedEvent, Rejection, RejectionKind, UpdateKind,
    WorkerPhase,
};
use tokio::time::Instant;

use super::SyncLoop;
use crate::node::node_reports::NodeReports;
use crate::pipeline::managed_resources::Admission;

const PREEMPTING: &str = "Preempting";
const PREEMPTED: &str = "Preempted in order to admit critical pod";

impl SyncLoop {
    /// Admits a pod and adds it to the occupancy. Preempts other pods if necessary; the pod then waits for their end.
    pub(super) fn admit(&mut self, pod: &Arc<Pod>) -> Result<(), Rejection> {
        self.release_managed_resources();
        let victims = match self.check(pod) {
            Ok(victims) => victims,
            Err(rejection) => {
                self.occupancy.remove(&pod.uid);
                return Err(rejection);
            }
        };
        if !victims.is_empty() {
            let missing =
                self.with_admission_inputs(|node| first_insufficient_resource(pod, node)).unwrap_or_default();
            for victim in &victims {
                self.preempt(victim, pod);
            }
            self.preemptions.wait(&pod.uid, missing, victims, Instant::now());
        }
        self.occupancy.insert(pod);
        Ok(())
    }

    /// Releases the exclusive CPUs of containers that do not exist any more. Does nothing before every source has sent a
    /// snapshot: the pods of the others are unknown until then.
    pub(super) fn release_managed_resources(&self) {
        if !self.ready_sources.is_superset(&self.deps.sources) {
            return;
        }
        let desired = self.deps.desired.reader();
        self.deps.allocations.managed().retain(|uid, container| {
            let phase = self.deps.worker_views.get(uid).map(|worker| worker.phase);
            let is_alive = phase.is_none_or(|phase| phase < WorkerPhase::Terminated);
            match desired.get(uid) {
                Some(pod) => is_alive && pod.container(container).is_some(),
                // A removed pod uses its CPUs until its worker has stopped it.
                None => is_alive && phase.is_some(),
            }
        });
    }

    /// Checks a pod and allocates its managed resources. A pod that a check rejects keeps none.
    fn check(&mut self, pod: &Pod) -> Result<Vec<Arc<Pod>>, Rejection> {
        // The worker of a terminating pod does not start it again, so there is nothing to reject.
        if self.is_terminating(&pod.uid) {
            return Ok(Vec::new());
        }
        self.with_admission_inputs(|node| check_before_allocation(pod, node))?;
        let admission = self.allocate_managed_resources(pod)?;
        let check = |own: &Self| own.with_admission_inputs(|node| check_after_allocation(pod, node));
        let result = check(self).or_else(|_| {
            // Pods that have terminated since still occupy resources here: drop them and check again.
            let views = self.deps.worker_views.clone();
            self.occupancy
                .retain(|uid| views.get(uid).is_none_or(|worker| worker.phase < WorkerPhase::Terminated));
            check(self)
        });
        result.inspect_err(|_| self.deps.allocations.managed().undo(&admission))
    }

    /// CPUs are allocated at once; see [`crate::pipeline::managed_resources`] for resources that are not.
    fn allocate_managed_resources(&self, pod: &Pod) -> Result<Admission, Rejection> {
        let admission = self.deps.allocations.managed().admit(pod).now_or_never();
        admission.unwrap_or_else(|| {
            let message = "Allocate failed due to an allocation that waits, which is unexpected";
            Err(Rejection::at_admission("UnexpectedAdmissionError", message))
        })
    }

    /// Calls `decide` with the inputs of the admission checks.
    fn with_admission_inputs<T>(&self, decide: impl FnOnce(&AdmissionInputs<'_>) -> T) -> T {
        let strict_groups = if self.deps.health.now().features.supplemental_groups_policy {
            StrictGroups::Supported
        } else {
            StrictGroups::Unsupported
        };
        let watched = || self.deps.node.as_ref().map(|node| node.borrow().clone());
        let view = self.fresh_node.clone().or_else(watched).unwrap_or_default();
        let extended_resources = extended_resources(view.allocatable());
        decide(&AdmissionInputs {
            settings: &self.deps.settings,
            labels: view.labels().unwrap_or(&self.deps.settings.admission.labels),
            taints: view.taints(),
            extended_resources: &extended_resources,
            occupancy: &self.occupancy,
            strict_groups,
            pressure: self.deps.inputs.as_ref().map(NodeReports::pressure).unwrap_or_default(),
            shutdown: self.deps.inputs.as_ref().map(NodeReports::shutdown).unwrap_or_default(),
        })
    }

    fn is_terminating(&self, uid: &PodUid) -> bool {
        let phase = self.deps.worker_views.get(uid).map(|worker| worker.phase);
        matches!(phase, Some(WorkerPhase::Terminating | WorkerPhase::Terminated))
    }

    /// Rejects a pod: it stays a desired pod with phase Failed, and its worker starts nothing.
    pub(super) fn reject(&self, pod: &Arc<Pod>, rejection: Rejection) {
        tracing::warn!(pod = %pod.full_name, reason = %rejection.reason, message = %rejection.message, "rejected pod");
        self.warn(pod, &rejection.reason, &rejection.message);
        self.deps.metrics.pods.rejections.inc([rejection_label(&rejection.reason)]);
        let options = KillOptions { grace_override: None, rejection: Some(rejection) };
        self.send_command(UpdateKind::Kill, pod, Some(options));
    }

    /// Records a warning when a pod update needs features that the node does not declare. The update is still applied as
    /// far as possible.
    pub(super) fn warn_missing_features(&self, old: Option<&Pod>, pod: &Pod) {
        let settings = &self.deps.settings.admission;
        if let Some(message) = old.and_then(|old| features_missing_for_update(old, pod, settings)) {
            self.warn(pod, "FailedNodeDeclaredFeaturesCheck", &message);
        }
    }

    fn preempt(&mut self, victim: &Arc<Pod>, by: &Pod) {
        tracing::warn!(pod = %victim.full_name, by = %by.full_name, "preempting pod for a critical pod");
        self.warn(victim, PREEMPTING, PREEMPTED);
        let rejection = Rejection {
            kind: RejectionKind::Preemption,
            reason: PREEMPTING.to_owned(),
            message: PREEMPTED.to_owned(),
        };
        self.occupancy.remove(&victim.uid);
        let options = KillOptions { grace_override: None, rejection: Some(rejection) };
        self.send_command(UpdateKind::Kill, victim, Some(options));
    }

    pub(super) fn warn(&self, pod: &Pod, reason: &str, message: &str) {
        self.record_event(pod, EventType::Warning, reason, message);
    }

    pub(super) fn record_event(&self, pod: &Pod, kind: EventType, reason: &str, message: &str) {
        let subject = EventSubject::pod(pod, String::new());
        self.deps.recorder.record(RecordedEvent::new(subject, kind, reason, message, self.now()));
    }
}
