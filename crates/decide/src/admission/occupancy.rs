use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, ContainerPort};
use model::{Pod, PodUid, ResourceAmounts};

use crate::quantity::Amount;
use crate::resources::pod_requests;

/// What the admitted pods hold of the node; kept up to date pod by pod, so that a thousand pods cost a thousand
/// steps.
#[derive(Clone, Debug, Default)]
pub struct Occupancy {
    pods: HashMap<PodUid, Usage>,
    requested: ResourceAmounts,
}

/// What one pod holds.
#[derive(Clone, Debug)]
pub(super) struct Usage {
    pub(super) pod: Arc<Pod>,
    pub(super) requests: ResourceAmounts,
    pub(super) ports: Vec<HostPort>,
}

/// A port of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostPort {
    address: String,
    protocol: String,
    port: i32,
}

impl Occupancy {
    /// Counts a pod in, with its latest spec.
    pub fn insert(&mut self, pod: &Arc<Pod>) {
        self.remove(&pod.uid);
        let usage = Usage { pod: Arc::clone(pod), requests: requests(pod), ports: host_ports(pod) };
        for (name, amount) in &usage.requests {
            let sum = self.requested.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
        self.pods.insert(pod.uid.clone(), usage);
    }

    /// Counts a pod out.
    pub fn remove(&mut self, uid: &PodUid) {
        let Some(usage) = self.pods.remove(uid) else { return };
        for (name, amount) in &usage.requests {
            if let Some(sum) = self.requested.get_mut(name) {
                *sum = sum.saturating_sub(*amount);
            }
        }
    }

    /// Counts out every pod that does not pass.
    pub fn retain(&mut self, mut keep: impl FnMut(&PodUid) -> bool) {
        let gone: Vec<PodUid> = self.pods.keys().filter(|uid| !keep(uid)).cloned().collect();
        for uid in gone {
            self.remove(&uid);
        }
    }

    /// Whether a pod is counted.
    #[must_use]
    pub fn contains(&self, uid: &PodUid) -> bool {
        self.pods.contains_key(uid)
    }

    /// How many pods, the given one left out.
    pub(super) fn count_without(&self, uid: &PodUid) -> i64 {
        let others = self.pods.len() - usize::from(self.pods.contains_key(uid));
        i64::try_from(others).unwrap_or(i64::MAX)
    }

    /// What all pods request of a resource, the given one left out.
    pub(super) fn requested_without(&self, uid: &PodUid, name: &str) -> i64 {
        let own = self.pods.get(uid).and_then(|usage| usage.requests.get(name)).copied().unwrap_or_default();
        self.requested.get(name).copied().unwrap_or_default().saturating_sub(own)
    }

    /// All pods but the given one, in the order of their UIDs.
    pub(super) fn others(&self, uid: &PodUid) -> Vec<&Usage> {
        let sorted: BTreeMap<&PodUid, &Usage> = self.pods.iter().filter(|(other, _)| *other != uid).collect();
        sorted.into_values().collect()
    }

    pub(super) fn uses_port(&self, uid: &PodUid, wanted: &HostPort) -> bool {
        self.pods
            .iter()
            .filter(|(other, _)| *other != uid)
            .any(|(_, usage)| usage.ports.iter().any(|used| used.conflicts_with(wanted)))
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

/// Host ports of containers that run as long as the pod.
pub(super) fn host_ports(pod: &Pod) -> Vec<HostPort> {
    let lasting = |container: &&Container| container.restart_policy.as_deref() == Some("Always");
    let sidecars = pod.spec.init_containers.iter().flatten().filter(lasting);
    let all = sidecars.chain(&pod.spec.containers);
    all.flat_map(|container| container.ports.iter().flatten()).filter_map(HostPort::of).collect()
}

/// What a pod requests with its overhead.
pub(super) fn requests(pod: &Pod) -> ResourceAmounts {
    let mut totals = pod_requests(pod);
    for (name, quantity) in pod.spec.overhead.iter().flatten() {
        let total = totals.entry(name.clone()).or_default();
        *total = *total + Amount::of(quantity);
    }
    let amount = |name: &str, total: Amount| if name == "cpu" { total.milli() } else { total.units() };
    totals.into_iter().map(|(name, total)| (name.clone(), amount(&name, total))).collect()
}
