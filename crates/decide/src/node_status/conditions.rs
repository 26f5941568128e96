//! The conditions that the agent owns. Those of others stay as they are.

use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeStatus};
use model::Timestamp;

use super::{NodeEvent, NodeProfile, NodeSight};

/// The conditions that the agent owns, in upstream's order: `Ready` comes last.
pub(super) const OWN: [&str; 4] = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"];

/// Whether the node is known to be ready.
#[must_use]
pub fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
    conditions.into_iter().any(says_ready)
}

fn says_ready(condition: &NodeCondition) -> bool {
    condition.type_ == "Ready" && condition.status == "True"
}

/// Reason, message and event of a condition that holds or does not.
struct Words {
    reason: &'static str,
    message: &'static str,
    event: &'static str,
}

const MEMORY: [Words; 2] = [
    Words {
        reason: "KubeletHasSufficientMemory",
        message: "kubelet has sufficient memory available",
        event: "NodeHasSufficientMemory",
    },
    Words {
        reason: "KubeletHasInsufficientMemory",
        message: "kubelet has insufficient memory available",
        event: "NodeHasInsufficientMemory",
    },
];
const DISK: [Words; 2] = [
    Words {
        reason: "KubeletHasNoDiskPressure",
        message: "kubelet has no disk pressure",
        event: "NodeHasNoDiskPressure",
    },
    Words {
        reason: "KubeletHasDiskPressure",
        message: "kubelet has disk pressure",
        event: "NodeHasDiskPressure",
    },
];
const PID: [Words; 2] = [
    Words {
        reason: "KubeletHasSufficientPID",
        message: "kubelet has sufficient PID available",
        event: "NodeHasSufficientPID",
    },
    Words {
        reason: "KubeletHasInsufficientPID",
        message: "kubelet has insufficient PID available",
        event: "NodeHasInsufficientPID",
    },
];

/// Sets the conditions and tells what changed. Every one is said to be seen now; the time of change moves only with
/// the status.
pub(super) fn set(
    status: &mut NodeStatus,
    profile: &NodeProfile,
    sight: &NodeSight,
    now: Timestamp,
) -> Vec<NodeEvent> {
    let ready = ready(status, profile, sight);
    let pressure = sight.pressure;
    let conditions = status.conditions.get_or_insert_default();
    let pressures = [(&MEMORY, pressure.memory), (&DISK, pressure.disk), (&PID, pressure.pid)];
    let mut events = Vec::new();
    for (type_, (words, is_short)) in OWN.into_iter().zip(pressures) {
        let [fine, short] = words;
        let words = if is_short { short } else { fine };
        let wanted =
            Wanted { type_, holds: is_short, reason: words.reason, message: words.message.to_owned() };
        if put(conditions, wanted, now) != Change::None {
            events.push(NodeEvent::now_is(&profile.name, words.event));
        }
    }
    let event = if ready.holds { "NodeReady" } else { "NodeNotReady" };
    if put(conditions, ready, now) == Change::Turned {
        events.push(NodeEvent::now_is(&profile.name, event));
    }
    events
}

fn ready(status: &NodeStatus, profile: &NodeProfile, sight: &NodeSight) -> Wanted {
    let mut problems: Vec<String> = Vec::new();
    let missing = missing_capacities(status, profile);
    let was_ready = status.conditions.iter().flatten().any(says_ready);
    let obstacles = if was_ready { &[][..] } else { &sight.obstacles };
    for problem in sight.problems.iter().chain(obstacles).chain(&missing) {
        if !problems.contains(problem) {
            problems.push(problem.clone());
        }
    }
    let (holds, reason, message) = match problems.as_slice() {
        [] => (true, "KubeletReady", "kubelet is posting ready status".to_owned()),
        [only] => (false, "KubeletNotReady", only.clone()),
        several => (false, "KubeletNotReady", format!("[{}]", several.join(", "))),
    };
    Wanted { type_: "Ready", holds, reason, message }
}

fn missing_capacities(status: &NodeStatus, profile: &NodeProfile) -> Option<String> {
    let storage = profile.needs_storage.then_some("ephemeral-storage");
    let needed = ["cpu", "memory", "pods"].into_iter().chain(storage);
    let is_missing = |name: &&str| status.capacity.as_ref().is_none_or(|list| !list.contains_key(*name));
    let missing: Vec<&str> = needed.filter(is_missing).collect();
    (!missing.is_empty()).then(|| format!("missing node capacity for resources: {}", missing.join(", ")))
}

struct Wanted {
    type_: &'static str,
    holds: bool,
    reason: &'static str,
    message: String,
}

#[derive(PartialEq, Eq)]
enum Change {
    None,
    /// It was there with another status.
    Turned,
    /// It was not there.
    New,
}

fn put(conditions: &mut Vec<NodeCondition>, wanted: Wanted, now: Timestamp) -> Change {
    let known = conditions.iter_mut().find(|condition| condition.type_ == wanted.type_);
    let status = if wanted.holds { "True" } else { "False" };
    let (changed, since) = match &known {
        None => (Change::New, None),
        Some(known) if known.status == status => (Change::None, known.last_transition_time.clone()),
        Some(_) => (Change::Turned, None),
    };
    let condition = NodeCondition {
        type_: wanted.type_.to_owned(),
        status: status.to_owned(),
        reason: Some(wanted.reason.to_owned()),
        message: Some(wanted.message),
        last_heartbeat_time: Some(now.to_api_time()),
        last_transition_time: Some(since.unwrap_or_else(|| now.to_api_time())),
    };
    match known {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
    changed
}
