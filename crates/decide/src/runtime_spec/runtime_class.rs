//! Selects the runtime handler of a pod.

use model::{Pod, RuntimeHandler};

/// The runtime handler on a standalone node; empty is the default one. Without `RuntimeClass` objects, the class name is
/// the handler name.
///
/// # Errors
/// When the runtime does not have the handler: a pod that requests isolation must not run without it.
pub fn runtime_handler(pod: &Pod, handlers: &[RuntimeHandler]) -> Result<String, String> {
    let class = pod.spec.runtime_class_name.as_deref().unwrap_or_default();
    if class.is_empty() || handlers.iter().any(|handler| handler.name == class) {
        return Ok(class.to_owned());
    }
    let names: Vec<&str> =
        handlers.iter().map(|handler| handler.name.as_str()).filter(|name| !name.is_empty()).collect();
    Err(format!(
        "runtimeclass.node.k8s.io {class:?} not found (spec.runtimeClassName; the runtime's handlers are [{}])",
        names.join(" ")
    ))
}

/// The runtime handler in a cluster; `handler_of` maps a `RuntimeClass` name to its handler.
///
/// # Errors
/// When the class does not exist, with upstream's message.
pub fn cluster_handler(pod: &Pod, handler_of: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    match pod.spec.runtime_class_name.as_deref().unwrap_or_default() {
        "" => Ok(String::new()),
        class => handler_of(class).ok_or_else(|| format!("runtimeclass.node.k8s.io {class:?} not found")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_objects::pod;

    #[test]
    fn standalone_class_is_handler_name_or_error() {
        let handlers = ["", "runc", "kata"]
            .map(|name| RuntimeHandler { name: name.into(), ..RuntimeHandler::default() });
        let of = |class: serde_json::Value| {
            runtime_handler(&pod(json!({"containers": [], "runtimeClassName": class})), &handlers)
        };
        assert_eq!(of(json!(null)), Ok(String::new()));
        assert_eq!(of(json!("kata")), Ok("kata".to_owned()));
        assert_eq!(
            of(json!("gvisor")).unwrap_err(),
            "runtimeclass.node.k8s.io \"gvisor\" not found (spec.runtimeClassName; the runtime's handlers are [runc kata])"
        );
    }

    #[test]
    fn cluster_class_maps_to_handler() {
        let of = |class: serde_json::Value| {
            let pod = pod(json!({"containers": [], "runtimeClassName": class}));
            cluster_handler(&pod, |name| (name == "isolated").then(|| "kata".to_owned()))
        };
        assert_eq!(of(json!(null)), Ok(String::new()));
        assert_eq!(of(json!("isolated")), Ok("kata".to_owned()));
        assert_eq!(of(json!("kata")).unwrap_err(), "runtimeclass.node.k8s.io \"kata\" not found");
    }
}
