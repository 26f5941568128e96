//! What pods hold of the node, from the published tables.

use std::sync::Arc;

use model::{Pod, WorkerPhase, WorkerView};
use ports::pod_resources::{ContractVersion, PodHoldings, PodResources};

use crate::metrics::Metrics;
use crate::published::Reader;

/// The tables.
pub struct PublishedResources {
    /// Pods that sources want.
    pub desired: Reader<Pod>,
    /// How far their workers are.
    pub workers: Reader<WorkerView>,
    /// Which pods a list has.
    pub listed: Listed,
    /// Where calls are counted.
    pub metrics: Arc<Metrics>,
}

/// The gate `KubeletPodResourcesListUseActivePods`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// Pods that are not over.
    Active,
    /// All that are known.
    All,
}

impl PublishedResources {
    fn is_active(&self, pod: &Pod) -> bool {
        self.workers.get(&pod.uid).is_none_or(|view| view.phase < WorkerPhase::Terminated)
    }
}

impl PodResources for PublishedResources {
    fn list(&self, version: ContractVersion) -> Vec<PodHoldings> {
        let counts = &self.metrics.pod_resources;
        counts.requests.get([version.as_str()]).inc();
        let mut pods = self.desired.all();
        pods.sort_by(|one, other| one.full_name.cmp(&other.full_name));
        match version {
            ContractVersion::V1 => {
                counts.list.get([version.as_str()]).inc();
                pods.retain(|pod| self.listed == Listed::All || self.is_active(pod));
                pods.iter().map(|pod| holdings(pod)).collect()
            }
            // The old contract knows neither sidecars nor which pods are over.
            ContractVersion::V1Alpha1 => {
                let pods = pods.iter().map(|pod| (pod, holdings(pod)));
                pods.map(|(pod, known)| PodHoldings { containers: regular(pod).collect(), ..known }).collect()
            }
        }
    }

    fn get(&self, namespace: &str, name: &str) -> Option<PodHoldings> {
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
        found.map(|pod| holdings(&pod))
    }

    fn asked_for_allocatable(&self) {
        let counts = &self.metrics.pod_resources;
        let version = [ContractVersion::V1.as_str()];
        counts.requests.get(version).inc();
        counts.allocatable.get(version).inc();
    }
}

/// Init containers that end hold nothing while the pod runs; sidecars do.
fn holdings(pod: &Pod) -> PodHoldings {
    let init = pod.spec.init_containers.iter().flatten();
    let sidecars = init.filter(|container| container.restart_policy.as_deref() == Some("Always"));
    PodHoldings {
        name: pod.name().to_owned(),
        namespace: pod.namespace().to_owned(),
        containers: sidecars.map(|container| container.name.clone()).chain(regular(pod)).collect(),
    }
}

fn regular(pod: &Pod) -> impl Iterator<Item = String> {
    pod.spec.containers.iter().map(|container| container.name.clone())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1 as core;
    use model::{PodFullName, PodSource};
    use serde_json::json;

    use super::*;
    use crate::metrics::Format;
    use crate::published::table;

    fn pod(name: &str) -> Arc<Pod> {
        let object: core::Pod = serde_json::from_value(json!({
            "metadata": {"uid": name, "name": name},
            "spec": {
                "initContainers": [{"name": "once"}, {"name": "sidecar", "restartPolicy": "Always"}],
                "containers": [{"name": "main"}],
            },
        }))
        .unwrap();
        Arc::new(Pod::from_object(object, PodSource::Api).unwrap())
    }

    #[test]
    fn pods_that_hold_something_are_told_with_their_sidecars() {
        let (desired, pods) = table(Vec::new());
        let (workers, views) = table(Vec::new());
        for name in ["b", "a", "over"] {
            desired.set(&name.into(), pod(name));
        }
        let over = WorkerView {
            uid: "over".into(),
            full_name: PodFullName { namespace: "default".into(), name: "over".into() },
            phase: WorkerPhase::Terminated,
            started: true,
            passed: true,
            restart_requested: false,
            orphan: false,
            is_static: false,
            problems: Default::default(),
            last_error: None,
            rejection: None,
        };
        workers.set(&"over".into(), Arc::new(over));
        let metrics = Arc::new(Metrics::new());
        let mut resources = PublishedResources {
            desired: pods,
            workers: views,
            listed: Listed::Active,
            metrics: metrics.clone(),
        };
        let listed = resources.list(ContractVersion::V1);
        assert_eq!(listed.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(listed[0].containers, ["sidecar", "main"]);
        assert!(resources.get("default", "b").is_some());
        assert_eq!(resources.get("default", "over"), None);
        let old = resources.list(ContractVersion::V1Alpha1);
        assert_eq!(old.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>(), ["a", "b", "over"]);
        assert_eq!(old[0].containers, ["main"]);
        let text = metrics.encode(Format::Text);
        assert!(!text.contains("requests_list{server_api_version=\"v1alpha1\"}"), "{text}");
        for line in [
            "kubelet_pod_resources_endpoint_requests_total{server_api_version=\"v1\"} 3\n",
            "kubelet_pod_resources_endpoint_requests_list{server_api_version=\"v1\"} 1\n",
            "kubelet_pod_resources_endpoint_requests_total{server_api_version=\"v1alpha1\"} 1\n",
            "kubelet_pod_resources_endpoint_errors_get{server_api_version=\"v1\"} 1\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        resources.listed = Listed::All;
        assert_eq!(resources.list(ContractVersion::V1).len(), 3);
        assert_eq!(resources.get("default", "over"), None);
    }
}
