//! Container annotations from which a restarted agent restores state.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;
use model::{Pod, labels};

use super::go_json;
use crate::runtime_spec::container_hash::{as_annotation, container_hash};

pub(super) fn container_annotations(
    pod: &Pod,
    container: &Container,
    restart_count: u32,
) -> BTreeMap<String, String> {
    let message_path = container.termination_message_path.clone().unwrap_or_default();
    let message_policy = container.termination_message_policy.clone().unwrap_or_default();
    let mut annotations = BTreeMap::from([
        (labels::CONTAINER_HASH.to_owned(), as_annotation(container_hash(container))),
        (labels::RESTART_COUNT.to_owned(), restart_count.to_string()),
        (labels::TERMINATION_MESSAGE_PATH.to_owned(), message_path),
        (labels::TERMINATION_MESSAGE_POLICY.to_owned(), message_policy),
    ]);
    let mut set = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            annotations.insert(key.to_owned(), value);
        }
    };
    let grace = |seconds: Option<i64>| seconds.map(|seconds| seconds.to_string());
    set(labels::POD_DELETION_GRACE, grace(pod.metadata.deletion_grace_period_seconds));
    set(labels::POD_TERMINATION_GRACE, grace(pod.spec.termination_grace_period_seconds));
    let pre_stop = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref());
    set(labels::PRE_STOP_HANDLER, pre_stop.map(go_json::lifecycle_handler));
    let ports = container.ports.as_ref().filter(|ports| !ports.is_empty());
    set(labels::CONTAINER_PORTS, ports.map(|ports| go_json::container_ports(ports)));
    annotations
}
