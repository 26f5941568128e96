//! Messages of resize events: a phrase and the resources as JSON.

use k8s_openapi::api::core::v1::{Container, ResourceRequirements};
use model::Pod;

use super::PendingReason;
use crate::go_text::json_string as string;
use crate::quantity::ResourceList;

/// The message of `ResizeStarted`.
pub fn started_message(pod: &Pod, generation: i64) -> String {
    format!("Pod resize started: {}", summary(pod, generation, ""))
}

/// The message of `ResizeCompleted`.
pub fn completed_message(pod: &Pod, generation: i64) -> String {
    format!("Pod resize completed: {}", summary(pod, generation, ""))
}

/// The message of `ResizeError`.
pub fn error_message(pod: &Pod, generation: i64, error: &str) -> String {
    format!("Pod resize error: {}", summary(pod, generation, error))
}

/// The message of `ResizeDeferred` and `ResizeInfeasible`.
pub fn pending_message(pod: &Pod, reason: PendingReason, message: &str, generation: i64) -> String {
    format!("Pod resize {}: {}", reason.as_str(), summary(pod, generation, message))
}

/// Formatted like Go's JSON encoder: fields in the order of their definition, without empty ones.
fn summary(pod: &Pod, generation: i64, error: &str) -> String {
    let list = |containers: &[Container]| {
        let one = |container: &Container| {
            let resources = resources(container.resources.as_ref());
            format!("{{\"name\":{},\"resources\":{resources}}}", string(&container.name))
        };
        format!("[{}]", containers.iter().map(one).collect::<Vec<_>>().join(","))
    };
    let mut fields = Vec::new();
    if let Some(init) = pod.spec.init_containers.as_deref().filter(|init| !init.is_empty()) {
        fields.push(format!("\"initContainers\":{}", list(init)));
    }
    fields.push(format!("\"containers\":{}", list(&pod.spec.containers)));
    fields.push(format!("\"generation\":{generation}"));
    if !error.is_empty() {
        fields.push(format!("\"error\":{}", string(error)));
    }
    format!("{{{}}}", fields.join(","))
}

fn resources(own: Option<&ResourceRequirements>) -> String {
    let mut fields = Vec::new();
    let mut add = |name: &str, list: Option<&ResourceList>| {
        if let Some(list) = list.filter(|list| !list.is_empty()) {
            let entries: Vec<_> =
                list.iter().map(|(key, value)| format!("{}:{}", string(key), string(&value.0))).collect();
            fields.push(format!("\"{name}\":{{{}}}", entries.join(",")));
        }
    };
    add("limits", own.and_then(|own| own.limits.as_ref()));
    add("requests", own.and_then(|own| own.requests.as_ref()));
    format!("{{{}}}", fields.join(","))
}
