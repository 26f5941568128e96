//! Admission of managed resources: CPUs, memory and devices of which a container gets particular ones.
//!
//! The sync loop calls [`ManagedResources::admit`] between the checks `check_before_allocation` and
//! `check_after_allocation` of `decide::admission`, and [`ManagedResources::undo`] if a later check rejects the pod.
//!
//! # Order
//! Hints are collected from devices, CPUs and memory, in this order; allocations are made in the same order, container
//! by container, init containers first. Both orders are upstream's, and can be seen in rejections.
//!
//! # Waiting
//! CPUs and memory are decided at once: without devices, the future of `admit` never waits. Device plugins are called over
//! their sockets: the sync loop then keeps the future, and admits later pods after it, because they compete for the same
//! resources. The state may change while the future waits: a pod may be released, but no other pod is admitted. A future
//! that is dropped undoes nothing, so the sync loop calls [`ManagedResources::retain`] when a pod disappears while its
//! admission waits.
//!
//! # Running pods
//! Pods that run when the agent starts keep what the restored state says ([`ManagedResources::adopt`]); they are never
//! admitted again.

use std::collections::BTreeSet;
use std::sync::Arc;

use decide::cpus::is_allocated_as_whole;
use decide::topology::{Alignment, AlignmentPolicy, AlignmentScope, MergedHint, affinity_rejection};
use futures::FutureExt as _;
use k8s_openapi::api::core::v1::Container;
use model::{
    ContainerKind, ContainerRef, Pod, PodLevelManagement, PodUid, ProviderHints, Rejection, TopologyHint,
};
use tokio::time::Instant;

use crate::metrics::Metrics;
use crate::pipeline::exclusive_cpus::ExclusiveCpus;
use crate::pipeline::pinned_memory::PinnedMemory;
use crate::pipeline::plugin_devices::PluginDevices;

/// The hint of containers that are not aligned.
const NOT_ALIGNED: TopologyHint = TopologyHint { nodes: None, preferred: false };

/// Clones share their state.
#[derive(Clone, Default)]
pub struct ManagedResources {
    /// `None` with the policy `none` of the topology manager.
    alignment: Option<Alignment>,
    cpus: ExclusiveCpus,
    memory: PinnedMemory,
    devices: PluginDevices,
    management: PodLevelManagement,
    metrics: Arc<Metrics>,
}

/// Which resources an admission allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    All,
    /// Without devices, which a resize cannot change.
    Resize,
}

/// The resources of a pod before its admission, so that [`ManagedResources::undo`] releases only what it got since.
#[derive(Debug)]
pub struct Admission {
    pod: PodUid,
    cpus_before: BTreeSet<String>,
    memory_before: BTreeSet<String>,
    devices_before: BTreeSet<String>,
}

impl ManagedResources {
    #[must_use]
    pub fn new(
        alignment: Option<Alignment>,
        cpus: ExclusiveCpus,
        memory: PinnedMemory,
        metrics: Arc<Metrics>,
    ) -> Self {
        if alignment.is_some() {
            metrics.cpus.alignment_started();
        }
        let (devices, management) = (PluginDevices::default(), PodLevelManagement::default());
        Self { alignment, cpus, memory, devices, management, metrics }
    }

    /// Sets what CPU and memory manager do for pods with pod-level resources.
    #[must_use]
    pub fn with_pod_level_management(self, management: PodLevelManagement) -> Self {
        Self { management, ..self }
    }

    /// Adds the devices of device plugins.
    #[must_use]
    pub fn with_devices(self, devices: PluginDevices) -> Self {
        Self { devices, ..self }
    }

    #[must_use]
    pub fn cpus(&self) -> &ExclusiveCpus {
        &self.cpus
    }

    #[must_use]
    pub fn memory(&self) -> &PinnedMemory {
        &self.memory
    }

    #[must_use]
    pub fn devices(&self) -> &PluginDevices {
        &self.devices
    }

    /// Aligns and allocates the resources of a pod. Containers that have some keep them.
    ///
    /// # Errors
    /// When the resources are not free, or not on suitable NUMA nodes. The pod then has what it had before.
    pub async fn admit(&self, pod: &Pod) -> Result<Admission, Rejection> {
        self.allocate_pod(pod, Scope::All).await
    }

    /// Like [`Self::admit`], for a pod that gets other CPUs and memory. Never waits.
    ///
    /// # Errors
    /// When the resources are not free, or not on suitable NUMA nodes. The pod then has what it had before.
    pub fn admit_resize(&self, pod: &Pod) -> Result<Admission, Rejection> {
        let admission = self.allocate_pod(pod, Scope::Resize).now_or_never();
        admission.unwrap_or_else(|| {
            let message = "Allocate failed due to an allocation that waits, which is unexpected";
            Err(Rejection::at_admission("UnexpectedAdmissionError", message))
        })
    }

    async fn allocate_pod(&self, pod: &Pod, resources: Scope) -> Result<Admission, Rejection> {
        let admission = self.before(pod);
        let started = Instant::now();
        let result = self.align(pod, resources).await;
        self.metrics.topology.checked(started.elapsed());
        match result {
            Ok(()) => Ok(admission),
            Err(rejection) => {
                self.undo(&admission);
                if self.alignment.is_some() {
                    self.metrics.topology.failed();
                }
                Err(rejection)
            }
        }
    }

    /// Releases what a pod got by an admission.
    pub fn undo(&self, admission: &Admission) {
        let Admission { pod, cpus_before, memory_before, devices_before } = admission;
        self.cpus.retain(|uid, container| uid != pod || cpus_before.contains(container));
        self.memory.retain(|uid, container| uid != pod || memory_before.contains(container));
        self.devices.retain(|uid, container| uid != pod || devices_before.contains(container));
    }

    /// Allocates CPUs and memory for containers of a running pod that have none: it was started under another policy. Devices
    /// cannot be added to a running container.
    ///
    /// # Errors
    /// When the resources are not free. The pod keeps running with what it has.
    pub fn adopt(&self, pod: &Pod) -> Result<(), Rejection> {
        let before = self.before(pod);
        let result = self.allocate_missing(pod, &before);
        result.inspect_err(|_| self.undo(&before))
    }

    fn allocate_missing(&self, pod: &Pod, before: &Admission) -> Result<(), Rejection> {
        if is_allocated_as_whole(pod, self.management) {
            self.cpus.allocate_whole_pod(pod, None)?;
            return self.memory.allocate_whole_pod(pod, NOT_ALIGNED);
        }
        for container in pod.containers() {
            self.cpus.allocate(pod, container, None)?;
        }
        if !before.memory_before.is_empty() {
            return Ok(());
        }
        // Init containers have ended.
        let is_running = |entry: &ContainerRef<'_>| {
            entry.kind != ContainerKind::Init || entry.container.restart_policy.is_some()
        };
        pod.containers()
            .filter(is_running)
            .try_for_each(|entry| self.memory.allocate(pod, entry, NOT_ALIGNED))
    }

    fn before(&self, pod: &Pod) -> Admission {
        Admission {
            pod: pod.uid.clone(),
            cpus_before: self.cpus.owners(&pod.uid),
            memory_before: self.memory.owners(&pod.uid),
            devices_before: self.devices.owners(&pod.uid),
        }
    }

    /// Whether a pod has particular CPUs, memory or devices.
    #[must_use]
    pub fn owns(&self, uid: &PodUid) -> bool {
        let owners = [self.cpus.owners(uid), self.memory.owners(uid), self.devices.owners(uid)];
        owners.iter().any(|containers| !containers.is_empty())
    }

    /// Releases the resources of all containers for which `keep` returns false.
    pub fn retain(&self, keep: impl Fn(&PodUid, &str) -> bool) {
        if self.cpus.is_enabled() {
            self.cpus.retain(&keep);
        }
        if self.memory.is_enabled() {
            self.memory.retain(&keep);
        }
        self.devices.retain(&keep);
    }

    async fn align(&self, pod: &Pod, resources: Scope) -> Result<(), Rejection> {
        let Some(alignment) = &self.alignment else {
            for container in pod.containers() {
                self.allocate(pod, container, NOT_ALIGNED, resources).await?;
            }
            return Ok(());
        };
        match alignment.scope() {
            AlignmentScope::Container => {
                for container in pod.containers() {
                    let hints = self.container_hints(pod, container.container);
                    let hint = self.merge(pod, alignment, &hints)?;
                    self.allocate(pod, container, hint, resources).await?;
                    self.count_aligned(alignment, Ok(()));
                }
            }
            AlignmentScope::Pod => {
                let hint = self.merge(pod, alignment, &self.pod_hints(pod))?;
                if is_allocated_as_whole(pod, self.management) {
                    self.allocate_whole_pod(pod, hint, resources).await?;
                } else {
                    for container in pod.containers() {
                        self.allocate(pod, container, hint, resources).await?;
                    }
                }
                self.count_aligned(alignment, Ok(()));
            }
        }
        Ok(())
    }

    fn merge(
        &self,
        pod: &Pod,
        alignment: &Alignment,
        hints: &[ProviderHints],
    ) -> Result<TopologyHint, Rejection> {
        let MergedHint { hint, is_admitted } = alignment.merge(hints);
        if is_admitted {
            Ok(hint)
        } else {
            self.count_aligned(alignment, Err(()));
            Err(affinity_rejection(pod, alignment.scope(), self.management))
        }
    }

    /// Hints of each resource manager, in the order of allocation.
    fn container_hints(&self, pod: &Pod, container: &Container) -> Vec<ProviderHints> {
        vec![
            self.devices.container_hints(pod, container),
            self.cpus.container_hints(pod, container),
            self.memory.container_hints(pod, container),
        ]
    }

    fn pod_hints(&self, pod: &Pod) -> Vec<ProviderHints> {
        vec![self.devices.pod_hints(pod), self.cpus.pod_hints(pod), self.memory.pod_hints(pod)]
    }

    async fn allocate(
        &self,
        pod: &Pod,
        container: ContainerRef<'_>,
        hint: TopologyHint,
        resources: Scope,
    ) -> Result<(), Rejection> {
        if resources == Scope::All {
            self.devices.allocate(pod, container, hint.nodes).await?;
        }
        self.cpus.allocate(pod, container, hint.nodes)?;
        self.memory.allocate(pod, container, hint)
    }

    async fn allocate_whole_pod(
        &self,
        pod: &Pod,
        hint: TopologyHint,
        resources: Scope,
    ) -> Result<(), Rejection> {
        if resources == Scope::All {
            // Upstream allocates them when the container starts, without alignment.
            for container in pod.containers() {
                self.devices.allocate(pod, container, hint.nodes).await?;
            }
        }
        self.cpus.allocate_whole_pod(pod, hint.nodes)?;
        self.memory.allocate_whole_pod(pod, hint)
    }

    /// Only the policy `single-numa-node` guarantees that the resources come from one NUMA node.
    fn count_aligned(&self, alignment: &Alignment, result: Result<(), ()>) {
        if alignment.policy() == AlignmentPolicy::SingleNumaNode {
            let scope = match alignment.scope() {
                AlignmentScope::Container => "container",
                AlignmentScope::Pod => "pod",
            };
            self.metrics.cpus.numa_aligned(scope, result);
        }
    }
}

#[cfg(test)]
mod tests;
