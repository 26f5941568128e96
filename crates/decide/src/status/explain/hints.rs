//! Hints for fixing a problem, appended to the causes of an explanation.

pub(super) const RUNTIME: &str = "the agent continues when the runtime answers; is its service running?";
pub(super) const NETWORK: &str =
    "the runtime needs a CNI configuration (usually in /etc/cni/net.d) and the plugins it refers to";

pub(super) const NEVER_PULL: &str =
    "imagePullPolicy is Never: import the image into the container runtime, or use IfNotPresent";

/// Hint for a pod that the agent rejected or terminated with this reason.
pub(super) fn rejection(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "OutOfpods" => "the node has as many pods as maxPods allows",
        reason if reason.starts_with("OutOf") => {
            "see status.allocatable in `podward get node -o yaml`; lower the request or stop another pod"
        }
        "NodeAffinity" | "NodeName" => {
            "spec.nodeSelector, spec.affinity or spec.nodeName does not match this node"
        }
        "NodePorts" => "another pod has a hostPort of this pod; they cannot run on the same node",
        "TaintToleration" => "the node has a taint that spec.tolerations does not tolerate",
        "SysctlForbidden" => "a sysctl of the pod is neither safe nor in allowedUnsafeSysctls",
        "PodOSNotSupported" => "spec.os.name does not match this node",
        "AppArmor" => "AppArmor is not enabled on the node, or the pod's profile is not loaded",
        "NodeShutdown" => "the node is shutting down and accepts no new pods",
        "Terminated" => "the node was shutting down; pods are terminated in order of priority",
        "DeadlineExceeded" => "it ran for longer than spec.activeDeadlineSeconds",
        _ => return None,
    })
}

/// Hint for a failed image pull with this error message.
pub(super) fn pull(message: &str) -> Option<&'static str> {
    let lower = message.to_lowercase();
    let has = |patterns: &[&str]| patterns.iter().any(|pattern| lower.contains(pattern));
    if has(&["unauthorized", "authentication required", "denied", "forbidden", "no basic auth"]) {
        Some("the registry requires credentials: add a Secret to spec.imagePullSecrets")
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

/// The object that an error message reports as missing, for example `ConfigMap "settings"`.
pub(super) fn missing_object(message: &str) -> Option<String> {
    let kinds = [
        ("configmap \"", "ConfigMap"),
        ("secret \"", "Secret"),
        ("persistentvolumeclaim \"", "PersistentVolumeClaim"),
    ];
    for (pattern, kind) in kinds {
        for (at, _) in message.match_indices(pattern) {
            let rest = message.get(at + pattern.len()..)?;
            let (name, rest) = rest.split_once('"')?;
            if rest.trim_start().starts_with("not found") {
                return Some(format!("{kind} {name:?}"));
            }
        }
    }
    None
}

pub(super) fn create_object(object: &str) -> String {
    format!("the pod starts by itself as soon as {object} is there, in the pod's namespace")
}
