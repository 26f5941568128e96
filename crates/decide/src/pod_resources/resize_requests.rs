//! The resizes that an update of a pod requests, for metrics.

use k8s_openapi::api::core::v1::{Container, ResourceRequirements};
use model::Pod;
use values::quantity::Amount;

use crate::quantity::{ResourceList, amount_of};

/// One requested change of one resource of one container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResizeRequest {
    /// `cpu` or `memory`.
    pub resource: &'static str,
    /// `requests` or `limits`.
    pub requirement: &'static str,
    /// `add`, `remove`, `increase` or `decrease`.
    pub operation: &'static str,
}

/// All changes between two versions of a pod.
pub fn resize_requests(old: &Pod, new: &Pod) -> Vec<ResizeRequest> {
    let pairs = new.containers().filter_map(|entry| {
        old.container(&entry.container.name).map(|before| (before.container, entry.container))
    });
    let mut requests = Vec::new();
    for (before, after) in pairs {
        for resource in ["cpu", "memory"] {
            for (requirement, list) in LISTS {
                let operation = operation(amount(before, list, resource), amount(after, list, resource));
                requests.extend(operation.map(|operation| ResizeRequest {
                    resource,
                    requirement,
                    operation,
                }));
            }
        }
    }
    requests
}

type List = fn(&ResourceRequirements) -> Option<&ResourceList>;

const LISTS: [(&str, List); 2] =
    [("requests", |own| own.requests.as_ref()), ("limits", |own| own.limits.as_ref())];

fn amount(container: &Container, list: List, resource: &str) -> Option<Amount> {
    let quantity = container.resources.as_ref().and_then(list)?.get(resource)?;
    Some(amount_of(quantity))
}

fn operation(before: Option<Amount>, after: Option<Amount>) -> Option<&'static str> {
    match (before, after) {
        (None, None) => None,
        (None, Some(_)) => Some("add"),
        (Some(_), None) => Some("remove"),
        (Some(before), Some(after)) if after > before => Some("increase"),
        (Some(before), Some(after)) if after < before => Some("decrease"),
        (Some(_), Some(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::test_objects::pod;

    fn of(resources: &Value) -> Pod {
        pod(json!({"containers": [{"name": "c", "resources": resources}]}))
    }

    fn operations(old: &Value, new: &Value) -> Vec<String> {
        let all = resize_requests(&of(old), &of(new));
        all.iter().map(|one| format!("{} {} {}", one.operation, one.resource, one.requirement)).collect()
    }

    #[test]
    fn lists_each_change_once() {
        let small = json!({"requests": {"cpu": "100m", "memory": "1Gi"}});
        for (new, expected) in [
            (json!({"requests": {"cpu": "0.1", "memory": "1024Mi"}}), vec![]),
            (json!({"requests": {"cpu": "200m", "memory": "1Gi"}}), vec!["increase cpu requests"]),
            (json!({"requests": {"cpu": "100m", "memory": "1Mi"}}), vec!["decrease memory requests"]),
            (
                json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}}),
                vec!["add cpu limits", "remove memory requests"],
            ),
        ] {
            assert_eq!(operations(&small, &new), expected, "{new}");
        }
    }
}
