//! The Node object at registration, and its reconciliation if it already exists.

use k8s_openapi::api::core::v1::{Node, NodeSpec, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use model::Timestamp;

use super::capacity::{HUGE_PAGES_PREFIX, remove_missing_huge_pages, reset_extended_resources};
use super::{
    ARCHITECTURE_LABEL, CloudProvider, NodeProfile, NodeStatusInputs, OS, OS_LABEL, UpdatedNode, updated_node,
};
use crate::quantity::amount_of;

const ATTACH_DETACH_ANNOTATION: &str = "volumes.kubernetes.io/controller-managed-attach-detach";
const UNINITIALIZED_TAINT: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// Labels that are reconciled on an existing Node; users may have changed other labels on purpose.
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

/// The Node object to create.
pub fn initial_node(profile: &NodeProfile, inputs: &NodeStatusInputs, now: Timestamp) -> UpdatedNode {
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
    let attach = profile.controller_attach_detach.then(|| owned((ATTACH_DETACH_ANNOTATION, "true")));
    let mut taints = profile.taints.clone();
    if profile.cloud == CloudProvider::External {
        taints.push(Taint {
            key: UNINITIALIZED_TAINT.to_owned(),
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
    updated_node(&bare, profile, inputs, now)
}

/// An existing Node with the fields that registration reconciles: default labels, the attach/detach annotation and huge
/// pages. `initial` is the Node that would be created; the rest of the status follows with the first report.
pub fn reconcile_node(initial: &Node, existing: &Node, profile: &NodeProfile) -> Node {
    let mut node = existing.clone();
    let annotation = |node: &Node| node.metadata.annotations.as_ref()?.get(ATTACH_DETACH_ANNOTATION).cloned();
    match annotation(initial) {
        Some(value) => {
            node.metadata
                .annotations
                .get_or_insert_default()
                .insert(ATTACH_DETACH_ANNOTATION.to_owned(), value);
        }
        None => {
            node.metadata.annotations.iter_mut().for_each(|list| drop(list.remove(ATTACH_DETACH_ANNOTATION)));
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
    let Some(desired) = &initial.status else { return };
    let status = node.status.get_or_insert_default();
    for (desired, current) in
        [(&desired.capacity, &mut status.capacity), (&desired.allocatable, &mut status.allocatable)]
    {
        let Some(current) = current else {
            current.clone_from(desired);
            continue;
        };
        for (name, amount) in desired.iter().flatten().filter(|(name, _)| name.starts_with(HUGE_PAGES_PREFIX))
        {
            if current.get(name).is_none_or(|old| amount_of(old) != amount_of(amount)) {
                current.insert(name.clone(), amount.clone());
            }
        }
    }
    remove_missing_huge_pages(status, &profile.resources);
    if profile.device_state_lost {
        reset_extended_resources(status);
    }
}
