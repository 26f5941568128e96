//! Messages of resize events: a phrase and the resources as JSON.

use k8s_openapi::api::core::v1::{Container, ResourceRequirements};
use model::Pod;

use super::PendingReason;
use crate::go_text::{JsonObject, json_array, json_string};

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
    let container = |container: &Container| {
        let mut object = JsonObject::default();
        object.value("name", &json_string(&container.name));
        object.value("resources", &resources(container.resources.as_ref())).finish()
    };
    let mut object = JsonObject::default();
    object.list("initContainers", pod.spec.init_containers.iter().flatten().map(container));
    object.value("containers", &json_array(pod.spec.containers.iter().map(container)));
    object.value("generation", &generation.to_string()).text("error", Some(error)).finish()
}

fn resources(own: Option<&ResourceRequirements>) -> String {
    let lists = [
        ("limits", own.and_then(|own| own.limits.as_ref())),
        ("requests", own.and_then(|own| own.requests.as_ref())),
    ];
    let mut object = JsonObject::default();
    for (name, list) in lists {
        if let Some(list) = list.filter(|list| !list.is_empty()) {
            let amounts = list.iter().map(|(key, amount)| (key.as_str(), json_string(&amount.0)));
            object.value(name, &JsonObject::of(amounts));
        }
    }
    object.finish()
}
