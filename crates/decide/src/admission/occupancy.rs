use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::ContainerPort;
use model::{Pod, PodUid, ResourceAmounts};
use values::quantity::Amount;

use crate::pipeline::pod_actions::is_sidecar;
use crate::pod_resources::resources::pod_requests_with_overhead;

/// Requests and host ports of all admitted pods. The totals are updated pod by pod, so that admitting many pods takes linear
/// time.
#[derive(Clone, Debug, Default)]
pub struct Occupancy {
    pods: HashMap<PodUid, AdmittedPod>,
    requested: ResourceAmounts,
}

#[derive(Clone, Debug)]
pub(super) struct AdmittedPod {
    pub(super) pod: Arc<Pod>,
    pub(super) requests: ResourceAmounts,
    pub(super) ports: Vec<HostPort>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostPort {
    address: String,
    protocol: String,
    port: i32,
}

impl Occupancy {
    /// Adds a pod, or updates it to its latest spec.
    pub fn insert(&mut self, pod: &Arc<Pod>) {
        self.remove(&pod.uid);
        let usage = AdmittedPod { pod: Arc::clone(pod), requests: requests(pod), ports: host_ports(pod) };
        for (name, amount) in &usage.requests {
            let sum = self.requested.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
        self.pods.insert(pod.uid.clone(), usage);
    }

    pub fn remove(&mut self, uid: &PodUid) {
        let Some(usage) = self.pods.remove(uid) else { return };
        for (name, amount) in &usage.requests {
            if let Some(sum) = self.requested.get_mut(name) {
                *sum = sum.saturating_sub(*amount);
            }
        }
    }

    pub fn retain(&mut self, mut keep: impl FnMut(&PodUid) -> bool) {
        let removed: Vec<PodUid> = self.pods.keys().filter(|uid| !keep(uid)).cloned().collect();
        for uid in removed {
            self.remove(&uid);
        }
    }

    pub fn contains(&self, uid: &PodUid) -> bool {
        self.pods.contains_key(uid)
    }

    /// Number of pods other than `uid`.
    pub(super) fn count_without(&self, uid: &PodUid) -> i64 {
        let others = self.pods.len() - usize::from(self.pods.contains_key(uid));
        i64::try_from(others).unwrap_or(i64::MAX)
    }

    /// Requests of all pods other than `uid`.
    pub(super) fn requested_without(&self, uid: &PodUid, name: &str) -> i64 {
        let own = self.pods.get(uid).and_then(|usage| usage.requests.get(name)).copied().unwrap_or_default();
        self.requested.get(name).copied().unwrap_or_default().saturating_sub(own)
    }

    /// All pods other than `uid`, ordered by UID.
    pub(super) fn others(&self, uid: &PodUid) -> Vec<&AdmittedPod> {
        let sorted: BTreeMap<&PodUid, &AdmittedPod> =
            self.pods.iter().filter(|(other, _)| *other != uid).collect();
        sorted.into_values().collect()
    }

    pub(super) fn uses_port(&self, uid: &PodUid, port: &HostPort) -> bool {
        self.pods
            .iter()
            .filter(|(other, _)| *other != uid)
            .any(|(_, usage)| usage.ports.iter().any(|used| used.conflicts_with(port)))
    }
}

impl HostPort {
    fn of(port: &ContainerPort) -> Option<Self> {
        let or = |text: &Option<String>, default: &str| match text.as_deref() {
            None | Some("") => default.to_owned(),
            Some(text) => text.to_owned(),
        };
        let number = port.host_port.filter(|number| *number > 0)?;
        Some(Self {
            address: or(&port.host_ip, ANY_ADDRESS),
            protocol: or(&port.protocol, "TCP"),
            port: number,
        })
    }

    fn conflicts_with(&self, other: &Self) -> bool {
        (self.port, &self.protocol) == (other.port, &other.protocol)
            && (self.address == other.address || self.address == ANY_ADDRESS || other.address == ANY_ADDRESS)
    }
}

const ANY_ADDRESS: &str = "0.0.0.0";

/// Host ports of regular containers and sidecars.
pub(super) fn host_ports(pod: &Pod) -> Vec<HostPort> {
    let sidecars = pod.spec.init_containers.iter().flatten().filter(|container| is_sidecar(container));
    let all = sidecars.chain(&pod.spec.containers);
    all.flat_map(|container| container.ports.iter().flatten()).filter_map(HostPort::of).collect()
}

/// Requests of a pod including overhead.
pub(super) fn requests(pod: &Pod) -> ResourceAmounts {
    let totals = pod_requests_with_overhead(pod);
    let amount = |name: &str, total: Amount| if name == "cpu" { total.milli() } else { total.units() };
    totals.into_iter().map(|(name, total)| (name.clone(), amount(&name, total))).collect()
}
