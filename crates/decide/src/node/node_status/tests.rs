use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeStatus, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use model::{EventType, MachineIdentity, RuntimeHandler, RuntimeVersion, Timestamp};
use serde_json::json;

use super::patch::{has_changed, status_patch};
use super::*;
use crate::devices::DeviceCount;
use crate::quantity::ResourceList;

const NOW: Timestamp = Timestamp::from_secs(1_000_000);
const LATER: Timestamp = Timestamp::from_secs(1_000_300);

fn profile() -> NodeProfile {
    NodeProfile {
        name: "n".into(),
        architecture: "amd64".into(),
        labels: [("role".to_owned(), "db".to_owned())].into(),
        controller_attach_detach: true,
        resources: crate::cgroups::allocatable::tests::resources(),
        requires_ephemeral_storage: true,
        max_images: Some(50),
        port: 10250,
        declared_features: vec!["G".into(), "F".into()],
        version: "v1.36.4".into(),
        ..NodeProfile::default()
    }
}

fn inputs() -> NodeStatusInputs {
    NodeStatusInputs {
        machine: MachineIdentity { boot_id: "b-1".into(), swap_bytes: 1 << 20, ..Default::default() },
        addresses: NodeAddressInputs {
            default_routes: vec!["192.0.2.7".parse().unwrap()],
            ..Default::default()
        },
        runtime: Some(RuntimeVersion {
            name: "containerd".into(),
            version: "2.3.7".into(),
            api_version: "v1".into(),
        }),
        handlers: vec![
            RuntimeHandler { name: "runc".into(), ..Default::default() },
            RuntimeHandler { user_namespaces: true, ..Default::default() },
        ],
        supplemental_groups_policy: Some(true),
        ..NodeStatusInputs::default()
    }
}

fn node() -> Node {
    initial_node(&profile(), &inputs(), NOW).node
}

fn status(node: &Node) -> &NodeStatus {
    node.status.as_ref().unwrap()
}

fn condition<'a>(node: &'a Node, type_: &str) -> &'a NodeCondition {
    let mut conditions = status(node).conditions.iter().flatten();
    conditions.find(|condition| condition.type_ == type_).unwrap()
}

#[test]
fn new_node_has_complete_status() {
    let UpdatedNode { node, events } = initial_node(&profile(), &inputs(), NOW);
    let labels = node.metadata.labels.as_ref().unwrap();
    assert_eq!((labels["kubernetes.io/hostname"].as_str(), labels["role"].as_str()), ("n", "db"));
    assert_eq!(labels.len(), 6);
    let found = status(&node);
    assert_eq!(found.capacity.as_ref().unwrap()["memory"].0, "8Gi");
    assert_eq!(found.allocatable.as_ref().unwrap()["cpu"].0, "3");
    assert!(!found.capacity.as_ref().unwrap().contains_key("pid"));
    let info = found.node_info.as_ref().unwrap();
    assert_eq!(info.container_runtime_version, "containerd://2.3.7");
    assert_eq!(info.swap.as_ref().unwrap().capacity, Some(1 << 20));
    let handlers = found.runtime_handlers.as_ref().unwrap();
    assert_eq!((handlers[0].name.as_deref(), handlers[1].name.as_deref()), (Some(""), Some("runc")));
    assert_eq!(found.declared_features.as_deref(), Some(&["F".to_owned(), "G".to_owned()][..]));
    let types: Vec<&str> = found.conditions.iter().flatten().map(|found| found.type_.as_str()).collect();
    assert_eq!(types, conditions::OWNED_CONDITIONS);
    let reasons: Vec<&str> = events.iter().map(|event| event.reason).collect();
    assert_eq!(reasons, ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID"]);
    assert_eq!(events[0].message, "Node n status is now: NodeHasSufficientMemory");
}

#[test]
fn applies_configured_taints_and_labels() {
    let mut profile = profile();
    profile.labels.insert("kubernetes.io/arch".into(), "mine".into());
    profile.taints = vec![Taint { key: "dedicated".into(), effect: "NoExecute".into(), ..Taint::default() }];
    profile.cloud = CloudProvider::External;
    profile.provider_id = "cloud://1".into();
    profile.controller_attach_detach = false;
    let node = initial_node(&profile, &inputs(), NOW).node;
    let spec = node.spec.unwrap();
    let keys: Vec<String> = spec.taints.unwrap().into_iter().map(|taint| taint.key).collect();
    assert_eq!(keys, ["dedicated", "node.cloudprovider.kubernetes.io/uninitialized"]);
    assert_eq!(spec.provider_id.as_deref(), Some("cloud://1"));
    assert_eq!(node.metadata.annotations, None);
}

#[test]
fn fault_injection_is_a_condition_until_it_is_off_again() {
    let status_of = |node: &Node| {
        let mut conditions = status(node).conditions.iter().flatten();
        conditions.find(|condition| condition.type_ == "FaultsInjected").map(|found| found.status.clone())
    };
    let faulty = NodeProfile { fault_injection: FaultInjection::On, ..profile() };
    let node = initial_node(&profile(), &inputs(), NOW).node;
    assert_eq!(status_of(&node), None);
    let node = updated_node(&node, &faulty, &inputs(), LATER).node;
    assert_eq!(status_of(&node).as_deref(), Some("True"));
    let node = updated_node(&node, &profile(), &inputs(), LATER).node;
    assert_eq!(status_of(&node).as_deref(), Some("False"));
}

#[test]
fn unchanged_node_updates_only_heartbeats() {
    let current = node();
    let UpdatedNode { node, events } = updated_node(&current, &profile(), &inputs(), LATER);
    assert!(!has_changed(&current, &node) && events.is_empty());
    let patch = status_patch(&current, &node);
    let conditions = patch["status"]["conditions"].as_array().unwrap();
    assert_eq!(conditions.len(), 4);
    assert_eq!(conditions[0]["lastHeartbeatTime"], "1970-01-12T13:51:40Z");
    assert_eq!(conditions[0]["lastTransitionTime"], "1970-01-12T13:46:40Z");
    assert_eq!(patch.as_object().unwrap().len(), 1);
    assert_eq!(patch["status"].as_object().unwrap().len(), 1);
}

#[test]
fn problem_makes_node_not_ready_with_event() {
    let current = node();
    let mut inputs = inputs();
    inputs.problems = vec!["container runtime is down".into()];
    let UpdatedNode { node, events } = updated_node(&current, &profile(), &inputs, LATER);
    assert!(has_changed(&current, &node) && is_ready(&current) && !is_ready(&node));
    let ready = condition(&node, "Ready");
    assert_eq!(ready.reason.as_deref(), Some("KubeletNotReady"));
    assert_eq!(ready.message.as_deref(), Some("container runtime is down"));
    assert_eq!(ready.last_transition_time, Some(LATER.to_api_time()));
    assert_eq!(events, [NodeEvent::status_change("n", "NodeNotReady")]);
    // Another message is a change but not a transition.
    inputs.problems.push("network state unknown".into());
    inputs.problems.push("container runtime is down".into());
    let again = updated_node(&node, &profile(), &inputs, NOW);
    let message = condition(&again.node, "Ready").message.as_deref();
    assert_eq!(message, Some("[container runtime is down, network state unknown]"));
    assert!(has_changed(&node, &again.node) && again.events.is_empty());
    assert_eq!(condition(&again.node, "Ready").last_transition_time, Some(LATER.to_api_time()));
}

#[test]
fn startup_problem_does_not_affect_ready_node() {
    let mut inputs = inputs();
    inputs.startup_problems = vec!["CSINode is not yet initialized".into()];
    let current = node();
    let same = updated_node(&current, &profile(), &inputs, LATER);
    assert!(is_ready(&current) && !has_changed(&current, &same.node));
    let new = initial_node(&profile(), &inputs, NOW).node;
    assert!(!is_ready(&new));
    assert_eq!(condition(&new, "Ready").message.as_deref(), Some("CSINode is not yet initialized"));
    inputs.startup_problems.clear();
    assert!(is_ready(&updated_node(&new, &profile(), &inputs, LATER).node));
}

#[test]
fn missing_capacity_makes_node_not_ready() {
    let mut profile = profile();
    profile.resources.capacity.remove("ephemeral-storage");
    profile.resources.capacity.remove("pods");
    let node = initial_node(&profile, &inputs(), NOW).node;
    let message = condition(&node, "Ready").message.clone().unwrap();
    assert_eq!(message, "missing node capacity for resources: pods, ephemeral-storage");
}

#[test]
fn pressure_sets_conditions_and_events() {
    let current = node();
    let mut inputs = inputs();
    inputs.pressure = Pressure { memory: true, disk: true, pid: true };
    let UpdatedNode { node, events } = updated_node(&current, &profile(), &inputs, LATER);
    let reasons: Vec<_> = events.iter().map(|event| event.reason).collect();
    assert_eq!(reasons, ["NodeHasInsufficientMemory", "NodeHasDiskPressure", "NodeHasInsufficientPID"]);
    let memory = condition(&node, "MemoryPressure");
    assert_eq!(
        (memory.status.as_str(), memory.reason.as_deref()),
        ("True", Some("KubeletHasInsufficientMemory"))
    );
    let back = updated_node(&node, &profile(), &super::tests::inputs(), LATER);
    assert_eq!(back.events[1].reason, "NodeHasNoDiskPressure");
}

#[test]
fn resets_conditions_marked_unknown_by_control_plane() {
    let mut current = node();
    for condition in current.status.as_mut().unwrap().conditions.as_mut().unwrap() {
        condition.status = "Unknown".into();
        condition.reason = Some("NodeStatusUnknown".into());
    }
    let UpdatedNode { node, events } = updated_node(&current, &profile(), &inputs(), LATER);
    assert!(is_ready(&node));
    assert_eq!(condition(&node, "PIDPressure").last_transition_time, Some(LATER.to_api_time()));
    assert_eq!(events.last().unwrap().reason, "NodeReady");
}

#[test]
fn records_event_after_reboot() {
    let current = node();
    let mut inputs = inputs();
    inputs.machine.boot_id = "b-2".into();
    let events = updated_node(&current, &profile(), &inputs, LATER).events;
    assert_eq!((events[0].kind, events[0].reason), (EventType::Warning, "Rebooted"));
    assert_eq!(events[0].message, "Node n has been rebooted, boot id: b-2");
}

#[test]
fn keeps_fields_of_other_writers() {
    let mut current = node();
    let found = current.status.as_mut().unwrap();
    found.conditions.as_mut().unwrap().insert(
        0,
        NodeCondition { type_: "NetworkUnavailable".into(), status: "False".into(), ..Default::default() },
    );
    found.capacity.as_mut().unwrap().insert("example.com/gpu".into(), Quantity("2".into()));
    let allocatable = found.allocatable.as_mut().unwrap();
    allocatable.insert("example.com/allocatable".into(), Quantity("1".into()));
    current.metadata.labels.as_mut().unwrap().remove("kubernetes.io/os");
    let node = updated_node(&current, &profile(), &inputs(), LATER).node;
    assert_eq!(status(&node).allocatable.as_ref().unwrap()["example.com/gpu"].0, "2");
    let patch = status_patch(&current, &node);
    let expected = json!({ "example.com/gpu": "2", "example.com/allocatable": null });
    assert_eq!(patch["status"]["allocatable"], expected);
    assert_eq!(patch["metadata"]["labels"], json!({ "kubernetes.io/os": "linux" }));
    let types = patch["status"]["conditions"].as_array().unwrap();
    assert!(types.iter().all(|condition| condition["type"] != "NetworkUnavailable"));
}

#[test]
fn patch_replaces_all_addresses() {
    let current = node();
    let mut inputs = inputs();
    inputs.addresses.default_routes = vec!["192.0.2.9".parse().unwrap()];
    let node = updated_node(&current, &profile(), &inputs, LATER).node;
    let expected = json!([
        { "type": "InternalIP", "address": "192.0.2.9" },
        { "type": "Hostname", "address": "n" },
        { "$patch": "replace" },
    ]);
    assert_eq!(status_patch(&current, &node)["status"]["addresses"], expected);
}

#[test]
fn keeps_volumes_in_use_while_unknown() {
    let mut current = node();
    current.status.as_mut().unwrap().volumes_in_use = Some(vec!["v".into()]);
    let mut inputs = inputs();
    assert_eq!(
        status(&updated_node(&current, &profile(), &inputs, NOW).node).volumes_in_use,
        Some(vec!["v".into()])
    );
    inputs.volumes_in_use = Some(Vec::new());
    assert_eq!(status(&updated_node(&current, &profile(), &inputs, NOW).node).volumes_in_use, None);
}

#[test]
fn unhealthy_devices_stay_in_the_capacity_and_gone_ones_become_zero() {
    let mut current = node();
    let found = current.status.as_mut().unwrap();
    for list in [&mut found.capacity, &mut found.allocatable].into_iter().flatten() {
        list.insert("example.com/gone".into(), Quantity("4".into()));
        list.insert("example.com/other".into(), Quantity("5".into()));
    }
    let mut inputs = inputs();
    let count = |capacity, allocatable| DeviceCount { capacity, allocatable };
    inputs.devices =
        [("example.com/gpu".to_owned(), count(3, 2)), ("example.com/gone".to_owned(), count(0, 0))].into();
    let updated = updated_node(&current, &profile(), &inputs, NOW).node;
    let status = status(&updated);
    let amount = |list: &Option<ResourceList>, name: &str| list.as_ref().unwrap()[name].0.clone();
    let amounts = |name: &str| (amount(&status.capacity, name), amount(&status.allocatable, name));
    assert_eq!(amounts("example.com/gpu"), ("3".to_owned(), "2".to_owned()));
    assert_eq!(amounts("example.com/gone"), ("0".to_owned(), "0".to_owned()));
    assert_eq!(amounts("example.com/other"), ("5".to_owned(), "5".to_owned()), "another writer's");
}

#[test]
fn reconciles_existing_node_after_restart() {
    let (initial, mut existing) = (node(), node());
    let unchanged = reconcile_node(&initial, &existing, &profile());
    assert_eq!(status_patch(&existing, &unchanged), json!({}));
    let labels = existing.metadata.labels.as_mut().unwrap();
    labels.insert("kubernetes.io/hostname".into(), "other".into());
    // Changed by a user after registration.
    labels.insert("role".into(), "web".into());
    existing.metadata.annotations = None;
    let found = existing.status.as_mut().unwrap();
    for list in [&mut found.capacity, &mut found.allocatable].into_iter().flatten() {
        list.remove("hugepages-2Mi");
        list.insert("hugepages-1Gi".into(), Quantity("1Gi".into()));
        list.insert("memory".into(), Quantity("1".into()));
        list.insert("example.com/gpu".into(), Quantity("1".into()));
    }
    let mut profile = profile();
    profile.device_state_lost = true;
    let amounts = json!({ "hugepages-1Gi": null, "hugepages-2Mi": "1Gi", "example.com/gpu": "0" });
    let expected = json!({
        "metadata": {
            "annotations": { "volumes.kubernetes.io/controller-managed-attach-detach": "true" },
            "labels": { "kubernetes.io/hostname": "n" },
        },
        "status": { "allocatable": amounts, "capacity": amounts },
    });
    assert_eq!(status_patch(&existing, &reconcile_node(&initial, &existing, &profile)), expected);
    // The attach/detach annotation can be removed.
    profile.controller_attach_detach = false;
    let initial = initial_node(&profile, &inputs(), NOW).node;
    let node = reconcile_node(&initial, &super::tests::node(), &profile);
    assert!(node.metadata.annotations.unwrap().is_empty());
}
