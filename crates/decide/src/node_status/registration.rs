//! What a node is registered with, and what is mended when it exists already.

use k8s_openapi::api::core::v1::{Node, NodeSpec, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use model::Timestamp;

use super::capacity::{HUGE_PAGES, drop_lost_huge_pages, forget_devices};
use super::{ARCHITECTURE_LABEL, CloudProvider, NodeProfile, NodeSight, OS, OS_LABEL, Updated, updated};
use crate::quantity::Amount;

const ATTACH_DETACH: &str = "volumes.kubernetes.io/controller-managed-attach-detach";
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// Labels that an existing node is brought in line with; others may have been changed on purpose.
const DEFAULT_LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    OS_LABEL,
    ARCHITECTURE_LABEL,
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];

/// The Node object of a machine that the cluster does not know yet.
#[must_use]
pub fn initial_node(profile: &NodeProfile, sight: &NodeSight, now: Timestamp) -> Updated {
    let architecture = profile.architecture.as_str();
    let defaults = [
        ("kubernetes.io/hostname", profile.name.as_str()),
        (OS_LABEL, OS),
        (ARCHITECTURE_LABEL, architecture),
        ("beta.kubernetes.io/os", OS),
        ("beta.kubernetes.io/arch", architecture),
    ];
    let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    let defaults = defaults.into_iter().map(owned);
    let attach = profile.controller_attach_detach.then(|| owned((ATTACH_DETACH, "true")));
    let mut taints = profile.taints.clone();
    if profile.cloud == CloudProvider::External {
        taints.push(Taint {
            key: UNINITIALIZED.to_owned(),
            value: Some("true".to_owned()),
            effect: "NoSchedule".to_owned(),
            time_added: None,
        });
    }
    let bare = Node {
        metadata: ObjectMeta {
            name: Some(profile.name.clone()),
            labels: Some(defaults.chain(profile.labels.clone()).collect()),
            annotations: attach.map(|attach| [attach].into()),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            taints: Some(taints).filter(|taints| !taints.is_empty()),
            provider_id: Some(profile.provider_id.clone()).filter(|id| !id.is_empty()),
            ..NodeSpec::default()
        }),
        status: None,
    };
    updated(&bare, profile, sight, now)
}

/// An existing node with what a restart mends at once: default labels, who attaches volumes, huge pages. `initial` is
/// what the node would be registered with; the rest of the status follows with the first report.
#[must_use]
pub fn reconciled(initial: &Node, existing: &Node, profile: &NodeProfile) -> Node {
    let mut node = existing.clone();
    let annotation = |node: &Node| node.metadata.annotations.as_ref()?.get(ATTACH_DETACH).cloned();
    match annotation(initial) {
        Some(value) => {
            node.metadata.annotations.get_or_insert_default().insert(ATTACH_DETACH.to_owned(), value);
        }
        None => {
            node.metadata.annotations.iter_mut().for_each(|list| drop(list.remove(ATTACH_DETACH)));
        }
    }
    for (key, value) in initial.metadata.labels.iter().flatten() {
        if DEFAULT_LABELS.contains(&key.as_str()) {
            node.metadata.labels.get_or_insert_default().insert(key.clone(), value.clone());
        }
    }
    reconcile_resources(initial, &mut node, profile);
    node
}

fn reconcile_resources(initial: &Node, node: &mut Node, profile: &NodeProfile) {
    let Some(wanted) = &initial.status else { return };
    let status = node.status.get_or_insert_default();
    for (wanted, known) in
        [(&wanted.capacity, &mut status.capacity), (&wanted.allocatable, &mut status.allocatable)]
    {
        let Some(known) = known else {
            known.clone_from(wanted);
            continue;
        };
        for (name, amount) in wanted.iter().flatten().filter(|(name, _)| name.starts_with(HUGE_PAGES)) {
            if known.get(name).is_none_or(|old| Amount::of(old) != Amount::of(amount)) {
                known.insert(name.clone(), amount.clone());
            }
        }
    }
    drop_lost_huge_pages(status, &profile.resources);
    if profile.devices_are_forgotten {
        forget_devices(status);
    }
}
