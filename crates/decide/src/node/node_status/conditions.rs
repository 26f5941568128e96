//! The Node conditions that the agent owns; those of other writers are not changed.

use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeStatus};
use model::Timestamp;

use super::{FaultInjection, NodeEvent, NodeProfile, NodeStatusInputs};
use crate::error_list::aggregate;

/// In upstream's order: `Ready` comes last.
pub(super) const OWNED_CONDITIONS: [&str; 4] = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"];

pub fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
    conditions.into_iter().any(is_ready_condition)
}

fn is_ready_condition(condition: &NodeCondition) -> bool {
    condition.type_ == "Ready" && condition.status == "True"
}

/// Reason, message and event reason for one status of a condition.
type ConditionText = (&'static str, &'static str, &'static str);

/// For enough of a resource and for too little of it.
const MEMORY: [ConditionText; 2] = [
    ("KubeletHasSufficientMemory", "kubelet has sufficient memory available", "NodeHasSufficientMemory"),
    (
        "KubeletHasInsufficientMemory",
        "kubelet has insufficient memory available",
        "NodeHasInsufficientMemory",
    ),
];
const DISK: [ConditionText; 2] = [
    ("KubeletHasNoDiskPressure", "kubelet has no disk pressure", "NodeHasNoDiskPressure"),
    ("KubeletHasDiskPressure", "kubelet has disk pressure", "NodeHasDiskPressure"),
];
const PID: [ConditionText; 2] = [
    ("KubeletHasSufficientPID", "kubelet has sufficient PID available", "NodeHasSufficientPID"),
    ("KubeletHasInsufficientPID", "kubelet has insufficient PID available", "NodeHasInsufficientPID"),
];

/// Not one of upstream's: the agent injects faults.
const FAULTS_INJECTED: &str = "FaultsInjected";

/// Sets the conditions and returns events for the changed ones. The heartbeat time is always `now`; the transition time
/// changes only with the status.
pub(super) fn set(
    status: &mut NodeStatus,
    profile: &NodeProfile,
    inputs: &NodeStatusInputs,
    now: Timestamp,
) -> Vec<NodeEvent> {
    let ready = ready(status, profile, inputs);
    let pressure = inputs.pressure;
    let conditions = status.conditions.get_or_insert_default();
    let pressures = [(&MEMORY, pressure.memory), (&DISK, pressure.disk), (&PID, pressure.pid)];
    let mut events = Vec::new();
    for (type_, (text, is_short)) in OWNED_CONDITIONS.into_iter().zip(pressures) {
        let [sufficient, short] = text;
        let (reason, message, event) = if is_short { short } else { sufficient };
        let desired = DesiredCondition { type_, is_true: is_short, reason, message: (*message).to_owned() };
        if set_condition(conditions, desired, now) != Change::Unchanged {
            events.push(NodeEvent::status_change(&profile.name, event));
        }
    }
    set_fault_condition(conditions, profile.fault_injection, now);
    let event = if ready.is_true { "NodeReady" } else { "NodeNotReady" };
    if set_condition(conditions, ready, now) == Change::StatusChanged {
        events.push(NodeEvent::status_change(&profile.name, event));
    }
    events
}

/// A node that never had faults has no such condition.
fn set_fault_condition(conditions: &mut Vec<NodeCondition>, injection: FaultInjection, now: Timestamp) {
    let (is_true, reason, message) = match injection {
        FaultInjection::On => {
            (true, "FaultFile", "calls to the container runtime fail on purpose (--podward-faults)")
        }
        FaultInjection::Off if conditions.iter().any(|condition| condition.type_ == FAULTS_INJECTED) => {
            (false, "NoFaultFile", "no faults are injected")
        }
        FaultInjection::Off => return,
    };
    let message = message.to_owned();
    set_condition(conditions, DesiredCondition { type_: FAULTS_INJECTED, is_true, reason, message }, now);
}

fn ready(status: &NodeStatus, profile: &NodeProfile, inputs: &NodeStatusInputs) -> DesiredCondition {
    let missing = missing_capacities(status, profile);
    let was_ready = status.conditions.iter().flatten().any(is_ready_condition);
    let startup_problems = if was_ready { &[][..] } else { &inputs.startup_problems };
    let problems: Vec<String> =
        inputs.problems.iter().chain(startup_problems).chain(&missing).cloned().collect();
    let (is_true, reason, message) = match problems.is_empty() {
        true => (true, "KubeletReady", "kubelet is posting ready status".to_owned()),
        false => (false, "KubeletNotReady", aggregate(&problems)),
    };
    DesiredCondition { type_: "Ready", is_true, reason, message }
}

fn missing_capacities(status: &NodeStatus, profile: &NodeProfile) -> Option<String> {
    let storage = profile.requires_ephemeral_storage.then_some("ephemeral-storage");
    let needed = ["cpu", "memory", "pods"].into_iter().chain(storage);
    let is_missing = |name: &&str| status.capacity.as_ref().is_none_or(|list| !list.contains_key(*name));
    let missing: Vec<&str> = needed.filter(is_missing).collect();
    (!missing.is_empty()).then(|| format!("missing node capacity for resources: {}", missing.join(", ")))
}

struct DesiredCondition {
    type_: &'static str,
    is_true: bool,
    reason: &'static str,
    message: String,
}

#[derive(PartialEq, Eq)]
enum Change {
    Unchanged,
    /// The condition had another status.
    StatusChanged,
    /// The condition did not exist.
    Added,
}

fn set_condition(conditions: &mut Vec<NodeCondition>, desired: DesiredCondition, now: Timestamp) -> Change {
    let current = conditions.iter_mut().find(|condition| condition.type_ == desired.type_);
    let status = if desired.is_true { "True" } else { "False" };
    let (changed, since) = match &current {
        None => (Change::Added, None),
        Some(current) if current.status == status => {
            (Change::Unchanged, current.last_transition_time.clone())
        }
        Some(_) => (Change::StatusChanged, None),
    };
    let condition = NodeCondition {
        type_: desired.type_.to_owned(),
        status: status.to_owned(),
        reason: Some(desired.reason.to_owned()),
        message: Some(desired.message),
        last_heartbeat_time: Some(now.to_api_time()),
        last_transition_time: Some(since.unwrap_or_else(|| now.to_api_time())),
    };
    match current {
        Some(current) => *current = condition,
        None => conditions.push(condition),
    }
    changed
}
