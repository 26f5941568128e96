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
use super::pending_admissions::{AdmissionAttempt, AdmissionStep, PodAdmission};
use crate::node::node_reports::NodeReports;
use crate::pipeline::managed_resources::Admission;

const PREEMPTING: &str = "Preempting";
const PREEMPTED: &str = "Preempted in order to admit critical pod";

impl SyncLoop {
    /// Admits a new pod with its allocated resources, if it has an allocation. A spec that differs from it is a resize.
    /// Returns `None` when the pod waits for a device plugin, or for pods that do.
    pub(super) fn admit_allocated(
        &mut self,
        pod: &Arc<Pod>,
        attempt: AdmissionAttempt,
    ) -> Option<Result<(), Rejection>> {
        let admission = PodAdmission {
            pod: Arc::clone(pod),
            allocated: self.deps.allocations.allocated(pod),
            fresh_node: self.fresh_node.clone(),
            attempt,
        };
        if self.admissions.is_idle() {
            self.begin_admission(admission)
        } else {
            self.admissions.push(admission);
            None
        }
    }

    /// Checks a pod and allocates its managed resources. A pod that a check rejects keeps none.
    fn begin_admission(&mut self, admission: PodAdmission) -> Option<Result<(), Rejection>> {
        self.release_managed_resources();
        let pod = &admission.allocated;
        // The worker of a terminating pod does not start it again, so there is nothing to reject.
        if self.is_terminating(&pod.uid) {
            return Some(self.finish_admission(&admission, Ok(None)));
        }
        if let Err(rejection) = self.with_admission_inputs(pod, |node| check_before_allocation(pod, node)) {
            return Some(self.finish_admission(&admission, Err(rejection)));
        }
        let (managed, pod) = (self.deps.allocations.managed().clone(), Arc::clone(pod));
        let mut allocation = async move { managed.admit(&pod).await }.boxed();
        match (&mut allocation).now_or_never() {
            Some(result) => Some(self.finish_admission(&admission, result.map(Some))),
            None => {
                self.admissions.wait(admission, allocation);
                None
            }
        }
    }

    /// `allocated` is `None` for a pod that needs no admission.
    fn finish_admission(
        &mut self,
        admission: &PodAdmission,
        allocated: Result<Option<Admission>, Rejection>,
    ) -> Result<(), Rejection> {
        self.occupy(&admission.allocated, allocated)?;
        self.deps.allocations.allocate(&admission.allocated);
        if self.deps.allocations.differs_from_spec(&admission.pod) {
            self.resizes.push(&admission.pod.uid);
        }
        Ok(())
    }

    /// Continues the admission of a pod that waited.
    pub(super) fn handle_admission(&mut self, step: AdmissionStep) {
        let (pod, attempt, result) = match step {
            AdmissionStep::Begin(mut admission) => {
                // The pod may have changed while it waited.
                if let Some(pod) = self.deps.desired.reader().get(&admission.pod.uid) {
                    admission.allocated = self.deps.allocations.allocated(&pod);
                    admission.pod = pod;
                }
                let (pod, attempt) = (Arc::clone(&admission.pod), admission.attempt);
                self.fresh_node.clone_from(&admission.fresh_node);
                (pod, attempt, self.begin_admission(admission))
            }
            AdmissionStep::Allocated(admission, result) => {
                self.fresh_node.clone_from(&admission.fresh_node);
                let result = self.finish_admission(&admission, result.map(Some));
                (admission.pod, admission.attempt, Some(result))
            }
        };
        self.fresh_node = None;
        let Some(result) = result else { return };
        // The pod may have changed meanwhile.
        let pod = self.deps.desired.reader().get(&pod.uid).unwrap_or(pod);
        match attempt {
            AdmissionAttempt::First => self.dispatch_or_defer(&pod, result),
            AdmissionAttempt::Final => self.dispatch_or_wait(&pod, result),
        }
    }

    /// Admits the new resources of a pod. Its devices do not change.
    pub(super) fn admit_resize(&mut self, pod: &Arc<Pod>) -> Result<(), Rejection> {
        self.release_managed_resources();
        let allocated = if self.is_terminating(&pod.uid) {
            Ok(None)
        } else {
            let checked = self.with_admission_inputs(pod, |node| check_before_allocation(pod, node));
            checked.and_then(|()| self.deps.allocations.managed().admit_resize(pod).map(Some))
        };
        self.occupy(pod, allocated)
    }

    /// Adds a pod to the occupancy if the remaining checks admit it. Preempts other pods if necessary; the pod then waits for
    /// their end.
    fn occupy(
        &mut self,
        pod: &Arc<Pod>,
        allocated: Result<Option<Admission>, Rejection>,
    ) -> Result<(), Rejection> {
        let victims = match allocated {
            Ok(Some(admission)) => self.check_allocated(pod, &admission),
            Ok(None) => Ok(Vec::new()),
            Err(rejection) => Err(rejection),
        };
        let victims = victims.inspect_err(|_| self.occupancy.remove(&pod.uid))?;
        if !victims.is_empty() {
            let missing = self.with_admission_inputs(pod, |node| first_insufficient_resource(pod, node));
            for victim in &victims {
                self.preempt(victim, pod);
            }
            self.preemptions.wait(&pod.uid, missing.unwrap_or_default(), victims, Instant::now());
        }
        self.occupancy.insert(pod);
        Ok(())
    }

    /// Releases the CPUs, memory and devices of containers that do not exist any more. Does nothing before every source has sent a
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
                // A removed pod uses its resources until its worker has stopped it.
                None => is_alive && phase.is_some(),
            }
        });
    }

    /// The checks that follow the allocation of managed resources. A pod that is rejected keeps none.
    fn check_allocated(&mut self, pod: &Pod, admission: &Admission) -> Result<Vec<Arc<Pod>>, Rejection> {
        let check = |own: &Self| own.with_admission_inputs(pod, |node| check_after_allocation(pod, node));
        let result = check(self).or_else(|_| {
            // Pods that have terminated since still occupy resources here: drop them and check again.
            let views = self.deps.worker_views.clone();
            self.occupancy
                .retain(|uid| views.get(uid).is_none_or(|worker| worker.phase < WorkerPhase::Terminated));
            check(self)
        });
        result.inspect_err(|_| self.deps.allocations.managed().undo(admission))
    }

    /// Calls `decide` with the inputs of the admission checks.
    fn with_admission_inputs<T>(&self, pod: &Pod, decide: impl FnOnce(&AdmissionInputs<'_>) -> T) -> T {
        let strict_groups = if self.deps.health.now().features.supplemental_groups_policy {
            StrictGroups::Supported
        } else {
            StrictGroups::Unsupported
        };
        let watched = || self.deps.node.as_ref().map(|node| node.borrow().clone());
        let view = self.fresh_node.clone().or_else(watched).unwrap_or_default();
        let devices = self.deps.allocations.managed().devices().allocated_amounts(&pod.uid);
        let extended_resources = extended_resources(view.allocatable(), &devices);
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
