//! Rejects pods while the node is under pressure or shuts down.

use k8s_openapi::api::core::v1::Taint;
use model::{Pod, Rejection};

use super::taints::{NumericOperators, tolerates};
use crate::eviction::EVICTED;
use crate::node::node_status::Pressure;
use crate::pod_resources::critical_pods::is_critical;
use crate::pod_resources::qos::{QosClass, pod_qos_class};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shutdown {
    #[default]
    None,
    /// The node shuts down; a pod admitted now would be killed.
    Imminent,
}

/// A node under pressure admits critical pods. Under memory pressure alone it also admits pods with requests and pods that
/// tolerate the pressure.
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
    let names: Vec<&str> =
        conditions.into_iter().filter_map(|(is_true, name)| is_true.then_some(name)).collect();
    Err(Rejection::at_admission(EVICTED, format!("The node had condition: [{}]. ", names.join(" "))))
}

fn tolerates_memory_pressure(pod: &Pod) -> bool {
    let taint = Taint {
        key: "node.kubernetes.io/memory-pressure".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    // The taint has no value that could be compared.
    let tolerates = |toleration| tolerates(toleration, &taint, NumericOperators::Ignored);
    pod.spec.tolerations.iter().flatten().any(tolerates)
}

pub(super) fn check_shutdown(shutdown: Shutdown) -> Result<(), Rejection> {
    match shutdown {
        Shutdown::None => Ok(()),
        Shutdown::Imminent => {
            Err(Rejection::at_admission("NodeShutdown", "Pod was rejected as the node is shutting down."))
        }
    }
}
