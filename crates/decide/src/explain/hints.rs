//! What to do about a problem.

/// What to do about a runtime that is away.
pub(super) const RUNTIME: &str =
    "the agent goes on by itself when the runtime answers; is its service running?";
/// What to do about a network that is not set up.
pub(super) const NETWORK: &str =
    "the runtime needs a CNI configuration (usually in /etc/cni/net.d) and the plugins it names";

/// What to do about a pod that was refused or ended.
pub(super) fn rejection(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "OutOfpods" => "the node has as many pods as maxPods allows",
        reason if reason.starts_with("OutOf") => {
            "what pods may use is `podward get node -o yaml`, status.allocatable; lower the request or stop another pod"
        }
        "NodeAffinity" | "NodeName" => {
            "spec.nodeSelector, spec.affinity or spec.nodeName does not name this node"
        }
        "NodePorts" => "another pod has a hostPort of this pod; they cannot run beside each other",
        "TaintToleration" => "the node has a taint that spec.tolerations does not name",
        "SysctlForbidden" => "a sysctl of the pod is neither safe nor in allowedUnsafeSysctls",
        "PodOSNotSupported" => "spec.os.name is not this node's",
        "AppArmor" => "the node's kernel has no AppArmor, or not the profile that the pod names",
        "NodeShutdown" => "the machine is shutting down and takes no new pods",
        "Terminated" => "the machine was shutting down; pods end then in the order of their priorities",
        "DeadlineExceeded" => "it ran for longer than spec.activeDeadlineSeconds",
        _ => return None,
    })
}

/// The hint for a pull that failed with such a message.
pub(super) fn pull(message: &str) -> Option<&'static str> {
    let lower = message.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if has(&["unauthorized", "authentication required", "denied", "forbidden", "no basic auth"]) {
        Some("the registry wants credentials: name a Secret in spec.imagePullSecrets")
    } else if has(&["not found", "manifest unknown", "does not exist", "no such image"]) {
        Some("check the name and the tag of the image")
    } else if has(&[
        "no such host",
        "i/o timeout",
        "connection refused",
        "deadline exceeded",
        "unreachable",
        "dial tcp",
        "temporary failure",
    ]) {
        Some("the registry cannot be reached from this node: check its name, DNS and the network")
    } else if has(&["x509", "certificate"]) {
        Some("the registry's certificate is not trusted by the container runtime")
    } else if has(&["no space left"]) {
        Some("the disk of the container runtime is full")
    } else {
        None
    }
}

/// The object that a message says is missing: `ConfigMap "settings"`.
pub(super) fn missing_object(message: &str) -> Option<String> {
    let kinds = [
        ("configmap \"", "ConfigMap"),
        ("secret \"", "Secret"),
        ("persistentvolumeclaim \"", "PersistentVolumeClaim"),
    ];
    for (word, kind) in kinds {
        for (at, _) in message.match_indices(word) {
            let rest = message.get(at + word.len()..)?;
            let (name, rest) = rest.split_once('"')?;
            if rest.trim_start().starts_with("not found") {
                return Some(format!("{kind} {name:?}"));
            }
        }
    }
    None
}

/// What to do about it.
pub(super) fn make_object(object: &str) -> String {
    format!("the pod starts by itself as soon as {object} is there, in the pod's namespace")
}
