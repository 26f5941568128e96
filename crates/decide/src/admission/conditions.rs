//! Pods that a node in trouble does not take.

use k8s_openapi::api::core::v1::Taint;
use model::{Pod, Rejection};

use super::preemption::is_critical;
use super::taints::tolerates;
use crate::node_status::Pressure;
use crate::qos::{QosClass, pod_qos_class};

/// Whether the machine is going down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shutdown {
    /// It stays.
    #[default]
    None,
    /// It goes down; pods that come now would only be killed.
    Imminent,
}

/// A node under pressure takes critical pods, and those that cannot make it worse: while only memory is short, pods with
/// requests and pods that tolerate it.
pub(super) fn check_pressure(pod: &Pod, pressure: Pressure) -> Result<(), Rejection> {
    if pressure == Pressure::default() || is_critical(pod) {
        return Ok(());
    }
    let only_memory = pressure == Pressure { memory: true, ..Pressure::default() };
    if only_memory && (pod_qos_class(pod) != QosClass::BestEffort || tolerates_memory_pressure(pod)) {
        return Ok(());
    }
    let conditions =
        [(pressure.memory, "MemoryPressure"), (pressure.disk, "DiskPressure"), (pressure.pid, "PIDPressure")];
    let names: Vec<&str> = conditions.into_iter().filter_map(|(holds, name)| holds.then_some(name)).collect();
    Err(Rejection {
        reason: "Evicted".to_owned(),
        message: format!("The node had condition: [{}]. ", names.join(" ")),
    })
}

fn tolerates_memory_pressure(pod: &Pod) -> bool {
    let taint = Taint {
        key: "node.kubernetes.io/memory-pressure".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    pod.spec.tolerations.iter().flatten().any(|toleration| tolerates(toleration, &taint))
}

pub(super) fn check_shutdown(shutdown: Shutdown) -> Result<(), Rejection> {
    match shutdown {
        Shutdown::None => Ok(()),
        Shutdown::Imminent => Err(Rejection {
            reason: "NodeShutdown".to_owned(),
            message: "Pod was rejected as the node is shutting down.".to_owned(),
        }),
    }
}
