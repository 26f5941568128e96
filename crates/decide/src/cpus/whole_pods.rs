//! CPUs of pods with pod-level resources: a pod owns CPUs as a whole, and its containers get parts of them.

use std::collections::BTreeMap;

use model::{NumaMask, Pod};
use values::cpu_set::CpuSet;

use super::accumulator::TakeError;
use super::allocator::{AllocationError, AllocationReport, CpuAllocator};
use super::requests::{exclusive_request, pod_level_request};
use crate::pipeline::pod_actions::is_sidecar;

/// The CPUs of each container of a pod.
struct Parts {
    by_container: BTreeMap<String, CpuSet>,
    exclusive: u64,
}

impl CpuAllocator {
    /// Assigns CPUs to a pod as a whole, those of `affinity` first, and divides them among its containers. A pod that has
    /// CPUs keeps them; upstream would assign others after its restart (kubernetes#140989).
    ///
    /// # Errors
    /// When not enough CPUs are free, not enough whole cores, or when containers would be left without CPUs. Nothing has
    /// changed then.
    pub fn allocate_whole_pod(
        &mut self,
        pod: &Pod,
        affinity: Option<NumaMask>,
        report: &mut AllocationReport,
    ) -> Result<(), AllocationError> {
        let total = pod_level_request(pod);
        let names = || pod.containers().map(|entry| entry.container.name.as_str());
        let has_all =
            |allocator: &Self| names().all(|name| allocator.assignments.of(&pod.uid, name).is_some());
        let existing = self.assignments.pods.get(&pod.uid).cloned();
        if total == 0 || (existing.is_some() && has_all(self)) {
            return Ok(());
        }
        self.check_shared_part(pod)?;
        let mut after = self.clone();
        let own = if let Some(own) = existing {
            own
        } else {
            // Containers that were allocated one by one, under another scope, give their CPUs back.
            after.retain(|uid, _| *uid != pod.uid);
            after.check_alignment(total)?;
            let free = after.policy().available(&after.assignments);
            let own = after.policy().choose(&free, total, affinity)?;
            report.uncore_aligned += u64::from(after.policy().is_uncore_aligned(&own));
            own
        };
        let parts = self.divide(pod, &own)?;
        let containers = u64::try_from(parts.by_container.len()).unwrap_or(u64::MAX);
        report.requests += parts.exclusive;
        report.from_pod += parts.exclusive;
        report.shared_in_pod += containers.saturating_sub(parts.exclusive);
        after.assignments.shared = after.assignments.shared.difference(&own);
        after.assignments.exclusive.insert(pod.uid.clone(), parts.by_container);
        after.assignments.pods.insert(pod.uid.clone(), own);
        *self = after;
        Ok(())
    }

    /// Sidecars and regular containers with exclusive CPUs keep them for the life of the pod. Init containers use what
    /// earlier sidecars leave, and all others share the rest.
    fn divide(&self, pod: &Pod, own: &CpuSet) -> Result<Parts, TakeError> {
        let mut by_container = BTreeMap::new();
        let mut exclusive = 0;
        let mut left = own.clone();
        for container in pod.spec.init_containers.iter().flatten() {
            let cpus = match exclusive_request(pod, container, self.management()) {
                0 if is_sidecar(container) => continue,
                0 => left.clone(),
                request => {
                    exclusive += 1;
                    self.policy().take(&left, request)?
                }
            };
            if is_sidecar(container) {
                left = left.difference(&cpus);
            }
            by_container.insert(container.name.clone(), cpus);
        }
        for container in &pod.spec.containers {
            let request = exclusive_request(pod, container, self.management());
            if request > 0 {
                exclusive += 1;
                let cpus = self.policy().take(&left, request)?;
                left = left.difference(&cpus);
                by_container.insert(container.name.clone(), cpus);
            }
        }
        for entry in pod.containers() {
            by_container.entry(entry.container.name.clone()).or_insert_with(|| left.clone());
        }
        Ok(Parts { by_container, exclusive })
    }

    /// Containers without exclusive CPUs must not be left without any.
    pub(super) fn check_shared_part(&self, pod: &Pod) -> Result<(), AllocationError> {
        let total = pod_level_request(pod);
        let (mut exclusive, mut has_shared) = (0_usize, false);
        for container in pod.spec.init_containers.iter().flatten() {
            let request = exclusive_request(pod, container, self.management());
            if is_sidecar(container) {
                has_shared |= request == 0;
                exclusive = exclusive.saturating_add(request);
            } else if request == 0 && exclusive >= total {
                return Err(AllocationError::NoneForInitContainers);
            }
        }
        for container in &pod.spec.containers {
            let request = exclusive_request(pod, container, self.management());
            has_shared |= request == 0;
            exclusive = exclusive.saturating_add(request);
        }
        if has_shared && exclusive >= total {
            return Err(AllocationError::NoneForSharedContainers);
        }
        Ok(())
    }
}
