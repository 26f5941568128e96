//! Which of the runtime's handlers runs a pod.

use model::{Pod, RuntimeHandler};

/// The handler of the pod's runtime class; empty is the default one. A node that stands alone has no `RuntimeClass`
/// objects to look up: there the class is the handler of that name, and the runtime says which ones it has.
///
/// # Errors
/// When the runtime has no such handler: a pod that asks for isolation must not run without it.
pub fn runtime_handler(pod: &Pod, handlers: &[RuntimeHandler]) -> Result<String, String> {
    let class = pod.spec.runtime_class_name.as_deref().unwrap_or_default();
    if class.is_empty() || handlers.iter().any(|handler| handler.name == class) {
        return Ok(class.to_owned());
    }
    let known: Vec<&str> =
        handlers.iter().map(|handler| handler.name.as_str()).filter(|name| !name.is_empty()).collect();
    Err(format!(
        "runtimeclass.node.k8s.io {class:?} not found (spec.runtimeClassName; the runtime's handlers are [{}])",
        known.join(" ")
    ))
}

/// The handler of the pod's runtime class in a cluster, whose classes `handler_of` knows.
///
/// # Errors
/// When there is no such class, in upstream's words.
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
    fn a_class_is_the_handler_of_its_name_or_an_error() {
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
    fn a_class_of_the_cluster_names_its_handler() {
        let of = |class: serde_json::Value| {
            let pod = pod(json!({"containers": [], "runtimeClassName": class}));
            cluster_handler(&pod, |name| (name == "isolated").then(|| "kata".to_owned()))
        };
        assert_eq!(of(json!(null)), Ok(String::new()));
        assert_eq!(of(json!("isolated")), Ok("kata".to_owned()));
        assert_eq!(of(json!("kata")).unwrap_err(), "runtimeclass.node.k8s.io \"kata\" not found");
    }
}
