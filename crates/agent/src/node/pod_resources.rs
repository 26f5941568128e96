//! Serves the PodResources API from the published tables.

use std::sync::Arc;

use decide::memory::MemoryBlock;
use decide::resource_claims::container_devices::ContainerClaim;
use k8s_openapi::api::core::v1::Container;
use model::{Pod, PreparedDevice, WorkerPhase, WorkerView};
use ports::served::pod_resources::{
    AllocatedClaim, AllocatedContainer, AllocatedDevice, AllocatedMemory, AllocatedPod, ContractVersion,
    PodResources,
};

use crate::dynamic_resources::resource_claims::ResourceClaims;
use crate::metrics::Metrics;
use crate::pipeline::exclusive_cpus::ExclusiveCpus;
use crate::pipeline::pinned_memory::PinnedMemory;
use crate::pipeline::plugin_devices::PluginDevices;
use crate::pipeline::tables::Reader;

pub struct PodResourcesService {
    pub desired: Reader<Pod>,
    pub workers: Reader<WorkerView>,
    pub cpus: ExclusiveCpus,
    pub memory: PinnedMemory,
    pub devices: PluginDevices,
    /// `None` without an API server.
    pub claims: Option<Arc<ResourceClaims>>,
    pub scope: ListScope,
    pub metrics: Arc<Metrics>,
}

/// The gate `KubeletPodResourcesListUseActivePods`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListScope {
    /// Pods that have not terminated.
    Active,
    /// All desired pods.
    All,
}

impl PodResourcesService {
    fn is_active(&self, pod: &Pod) -> bool {
        self.workers.get(&pod.uid).is_none_or(|view| view.phase < WorkerPhase::Terminated)
    }

    /// Ordinary init containers are left out, because they hold no resources while the pod runs.
    fn allocated_pod(&self, pod: &Pod) -> AllocatedPod {
        let init = pod.spec.init_containers.iter().flatten();
        let sidecars = init.filter(|container| container.restart_policy.as_deref() == Some("Always"));
        let containers = sidecars.chain(&pod.spec.containers);
        AllocatedPod {
            name: pod.name().to_owned(),
            namespace: pod.namespace().to_owned(),
            containers: containers.map(|container| self.allocated_container(pod, container)).collect(),
        }
    }

    fn allocated_container(&self, pod: &Pod, container: &Container) -> AllocatedContainer {
        let claim = |claim: &ContainerClaim<'_>| AllocatedClaim {
            name: claim.claim.name.clone(),
            namespace: pod.namespace().to_owned(),
            devices: distinct(claim.devices()),
        };
        let claims = self.claims.as_ref().map(|claims| claims.read_container(pod, container, claim));
        AllocatedContainer {
            name: container.name.clone(),
            cpus: self.cpus.exclusive(&pod.uid, &container.name).iter().collect(),
            memory: self.memory.blocks(&pod.uid, &container.name).into_iter().map(allocated_memory).collect(),
            devices: self.devices.of_container(&pod.uid, &container.name),
            claims: claims.unwrap_or_default(),
        }
    }
}

impl PodResources for PodResourcesService {
    fn list(&self, version: ContractVersion) -> Vec<AllocatedPod> {
        let counts = &self.metrics.pod_resources;
        counts.requests.get([version.as_str()]).inc();
        let mut pods = self.desired.all();
        pods.sort_by(|one, other| one.full_name.cmp(&other.full_name));
        match version {
            ContractVersion::V1 => {
                counts.list.get([version.as_str()]).inc();
                pods.retain(|pod| self.scope == ListScope::All || self.is_active(pod));
                pods.iter().map(|pod| self.allocated_pod(pod)).collect()
            }
            // The old version has neither sidecars nor the notion of active pods.
            ContractVersion::V1Alpha1 => {
                let pods = pods.iter().map(|pod| (pod, self.allocated_pod(pod)));
                pods.map(|(pod, allocated)| {
                    let containers = pod.spec.containers.iter();
                    let containers = containers.map(|container| self.allocated_container(pod, container));
                    AllocatedPod { containers: containers.collect(), ..allocated }
                })
                .collect()
            }
        }
    }

    fn get(&self, namespace: &str, name: &str) -> Option<AllocatedPod> {
        let counts = &self.metrics.pod_resources;
        let version = [ContractVersion::V1.as_str()];
        counts.requests.get(version).inc();
        counts.get.get(version).inc();
        let mut pods = self.desired.all().into_iter();
        let found =
            pods.find(|pod| pod.namespace() == namespace && pod.name() == name && self.is_active(pod));
        if found.is_none() {
            counts.get_errors.get(version).inc();
        }
        found.map(|pod| self.allocated_pod(&pod))
    }

    fn allocatable_cpus(&self) -> Vec<u32> {
        let counts = &self.metrics.pod_resources;
        let version = [ContractVersion::V1.as_str()];
        counts.requests.get(version).inc();
        counts.allocatable.get(version).inc();
        self.cpus.allocatable().iter().collect()
    }

    fn allocatable_memory(&self) -> Vec<AllocatedMemory> {
        self.memory.allocatable().into_iter().map(allocated_memory).collect()
    }

    fn allocatable_devices(&self) -> Vec<AllocatedDevice> {
        self.devices.allocatable()
    }
}

fn allocated_memory(block: MemoryBlock) -> AllocatedMemory {
    AllocatedMemory { kind: block.kind, size: block.size, nodes: block.nodes.nodes().collect() }
}

/// Each device once, also if it satisfies several requests of the container.
fn distinct<'a>(
    devices: impl Iterator<Item = (&'a str, &'a PreparedDevice)>,
) -> Vec<(String, PreparedDevice)> {
    let mut found: Vec<(String, PreparedDevice)> = Vec::new();
    for (driver, device) in devices {
        if !found.iter().any(|(known, other)| known == driver && other == device) {
            found.push((driver.to_owned(), device.clone()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use model::PodSource;
    use serde_json::json;
    use testkit::builders::{self, worker_view};

    use super::*;
    use crate::metrics::Format;
    use crate::pipeline::tables::table;

    fn pod(name: &str) -> Arc<Pod> {
        let spec = json!({
            "initContainers": [{"name": "once"}, {"name": "sidecar", "restartPolicy": "Always"}],
            "containers": [{"name": "main"}],
        });
        Arc::new(builders::pod(name, PodSource::Api, spec))
    }

    #[test]
    fn lists_active_pods_with_their_sidecars() {
        let (desired, pods) = table(Vec::new());
        let (workers, views) = table(Vec::new());
        for name in ["b", "a", "terminated"] {
            desired.set(&name.into(), pod(name));
        }
        workers.set(&"terminated".into(), Arc::new(worker_view("terminated", WorkerPhase::Terminated)));
        let metrics = Arc::new(Metrics::new());
        let mut resources = PodResourcesService {
            desired: pods,
            workers: views,
            cpus: ExclusiveCpus::default(),
            memory: PinnedMemory::default(),
            devices: PluginDevices::default(),
            claims: None,
            scope: ListScope::Active,
            metrics: metrics.clone(),
        };
        let listed = resources.list(ContractVersion::V1);
        assert_eq!(listed.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        let names = |pod: &AllocatedPod| {
            pod.containers.iter().map(|container| container.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&listed[0]), ["sidecar", "main"]);
        assert!(resources.allocatable_cpus().is_empty());
        assert!(resources.get("default", "b").is_some());
        assert_eq!(resources.get("default", "terminated"), None);
        let old = resources.list(ContractVersion::V1Alpha1);
        assert_eq!(old.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>(), ["a", "b", "terminated"]);
        assert_eq!(names(&old[0]), ["main"]);
        let text = metrics.encode(Format::Text);
        assert!(!text.contains("requests_list{server_api_version=\"v1alpha1\"}"), "{text}");
        for line in [
            "kubelet_pod_resources_endpoint_requests_total{server_api_version=\"v1\"} 4\n",
            "kubelet_pod_resources_endpoint_requests_list{server_api_version=\"v1\"} 1\n",
            "kubelet_pod_resources_endpoint_requests_total{server_api_version=\"v1alpha1\"} 1\n",
            "kubelet_pod_resources_endpoint_errors_get{server_api_version=\"v1\"} 1\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        resources.scope = ListScope::All;
        assert_eq!(resources.list(ContractVersion::V1).len(), 3);
        assert_eq!(resources.get("default", "terminated"), None);
    }
}
