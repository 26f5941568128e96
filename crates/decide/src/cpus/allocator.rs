//! Assigns and releases exclusive CPUs.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;
use model::{ContainerKind, NumaMask, Pod, PodLevelManagement, PodUid, Rejection};
use values::cpu_set::CpuSet;

use super::accumulator::TakeError;
use super::requests::exclusive_request;
use super::static_policy::{CpuAssignments, StaticPolicy};
use crate::pipeline::pod_actions::is_sidecar;

pub(crate) const SMT_ALIGNMENT_ERROR: &str = "SMTAlignmentError";
pub(crate) const EMPTY_POD_SHARED_POOL_ERROR: &str = "EmptyPodSharedPoolError";
pub(crate) const UNEXPECTED_ADMISSION_ERROR: &str = "UnexpectedAdmissionError";

/// Why a container cannot get its CPUs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllocationError {
    #[error("SMT Alignment Error: requested {requested} cpus not multiple cpus per core = {per_core}")]
    PartOfCore { requested: usize, per_core: usize },
    #[error(
        "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = {available}, requested CPUs = {requested}, CPUs per core = {per_core}"
    )]
    TooFewCores { available: usize, requested: usize, per_core: usize },
    #[error("pod rejected, pod has shared init containers but no cpus available for them")]
    NoneForInitContainers,
    #[error(
        "pod rejected, sum of exclusive container cpu requests equals pod budget, leaving no cpus for shared containers"
    )]
    NoneForSharedContainers,
    #[error(transparent)]
    Take(#[from] TakeError),
}

/// The result of an allocation, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocationReport {
    /// Containers that qualify for exclusive CPUs, also those that already had them.
    pub requests: u64,
    /// Containers and pods whose new CPUs share one L3 cache.
    pub uncore_aligned: u64,
    /// Containers that got CPUs of the node.
    pub from_node: u64,
    /// Containers that got CPUs of their pod, and do not share them.
    pub from_pod: u64,
    /// Containers that share CPUs of their pod.
    pub shared_in_pod: u64,
}

/// The state of the static policy.
#[derive(Clone, Debug)]
pub struct CpuAllocator {
    policy: StaticPolicy,
    management: PodLevelManagement,
    pub(super) assignments: CpuAssignments,
    /// CPUs of finished init containers that later containers of the same pod may use. Only the pod that was allocated
    /// last has some.
    reusable: Option<(PodUid, CpuSet)>,
}

impl AllocationError {
    /// The rejection of the pod.
    pub fn rejection(&self) -> Rejection {
        match self {
            Self::PartOfCore { .. } | Self::TooFewCores { .. } => {
                Rejection::at_admission(SMT_ALIGNMENT_ERROR, self.to_string())
            }
            Self::NoneForInitContainers | Self::NoneForSharedContainers => {
                Rejection::at_admission(EMPTY_POD_SHARED_POOL_ERROR, self.to_string())
            }
            Self::Take(error) => Rejection::at_admission(
                UNEXPECTED_ADMISSION_ERROR,
                format!("Allocate failed due to {error}, which is unexpected"),
            ),
        }
    }
}

impl CpuAllocator {
    /// `assignments` must have passed [`StaticPolicy::validate`].
    pub fn new(policy: StaticPolicy, management: PodLevelManagement, assignments: CpuAssignments) -> Self {
        Self { policy, management, assignments, reusable: None }
    }

    pub fn management(&self) -> PodLevelManagement {
        self.management
    }

    pub fn policy(&self) -> &StaticPolicy {
        &self.policy
    }

    pub fn assignments(&self) -> &CpuAssignments {
        &self.assignments
    }

    /// Assigns CPUs to all containers of a pod, init containers first. Containers that have CPUs keep them.
    ///
    /// # Errors
    /// When a container cannot get its CPUs. The assignments are then those before the call; upstream keeps what it had
    /// assigned to earlier containers until the pod is removed. The report counts the failed container too.
    pub fn allocate_pod(&mut self, pod: &Pod) -> (AllocationReport, Result<(), AllocationError>) {
        let before = self.clone();
        let mut report = AllocationReport::default();
        for entry in pod.containers() {
            if let Err(error) = self.allocate(pod, (entry.kind, entry.container), None, &mut report) {
                *self = before;
                return (report, Err(error));
            }
        }
        (report, Ok(()))
    }

    /// Assigns CPUs to one container, if it qualifies.
    ///
    /// # Errors
    /// When not enough CPUs are free, or not enough whole cores.
    pub fn allocate(
        &mut self,
        pod: &Pod,
        (kind, container): (ContainerKind, &Container),
        affinity: Option<NumaMask>,
        report: &mut AllocationReport,
    ) -> Result<(), AllocationError> {
        let request = exclusive_request(pod, container, self.management);
        if request == 0 {
            return Ok(());
        }
        report.requests += 1;
        let cpus = if let Some(cpus) = self.assignments.of(&pod.uid, &container.name) {
            // Upstream checks the alignment first, and so rejects running pods when it restarts on a full node
            // (kubernetes#129078).
            cpus.clone()
        } else {
            self.check_alignment(request)?;
            let pool = self.policy.available(&self.assignments).union(&self.reusable_for(&pod.uid));
            let cpus = self.policy.choose(&pool, request, affinity)?;
            report.from_node += 1;
            report.uncore_aligned += u64::from(self.policy.is_uncore_aligned(&cpus));
            self.assignments.shared = self.assignments.shared.difference(&cpus);
            let containers = self.assignments.exclusive.entry(pod.uid.clone()).or_default();
            containers.insert(container.name.clone(), cpus.clone());
            cpus
        };
        let reusable = self.reusable_for(&pod.uid);
        let reusable = if kind == ContainerKind::Init && !is_sidecar(container) {
            reusable.union(&cpus)
        } else {
            reusable.difference(&cpus)
        };
        self.reusable = Some((pod.uid.clone(), reusable));
        Ok(())
    }

    /// Releases the CPUs of all containers for which `keep` returns false. Returns whether there were any.
    pub fn retain(&mut self, keep: impl Fn(&PodUid, &str) -> bool) -> bool {
        let before = self.assignments.assigned();
        let mut is_changed = false;
        for (pod, containers) in &mut self.assignments.exclusive {
            containers.retain(|container, _| {
                let keeps = keep(pod, container);
                is_changed |= !keeps;
                keeps
            });
        }
        let CpuAssignments { exclusive, pods, .. } = &mut self.assignments;
        exclusive.retain(|_, containers: &mut BTreeMap<_, _>| !containers.is_empty());
        // The CPUs of a pod are released with its last container.
        let count = pods.len();
        pods.retain(|pod, _| exclusive.contains_key(pod));
        is_changed |= pods.len() != count;
        if is_changed {
            // CPUs that another container of the pod reuses stay exclusive.
            let released = before.difference(&self.assignments.assigned());
            self.assignments.shared = self.assignments.shared.union(&released);
        }
        is_changed
    }

    pub(super) fn reusable_for(&self, uid: &PodUid) -> CpuSet {
        let own = self.reusable.as_ref().filter(|(owner, _)| owner == uid);
        own.map(|(_, cpus)| cpus.clone()).unwrap_or_default()
    }

    /// `full-pcpus-only`: other containers must not run on the same cores.
    pub(super) fn check_alignment(&self, requested: usize) -> Result<(), AllocationError> {
        if !self.policy.options().full_cores_only {
            return Ok(());
        }
        let per_core = self.policy.topology().cpus_per_core().max(1);
        if !requested.is_multiple_of(per_core) {
            return Err(AllocationError::PartOfCore { requested, per_core });
        }
        let available = self.policy.available_cores(&self.assignments).len();
        if requested > available {
            return Err(AllocationError::TooFewCores { available, requested, per_core });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
