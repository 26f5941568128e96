//! `nodeInfo` of the node status.

use k8s_openapi::api::core::v1::{NodeStatus, NodeSwapStatus};
use model::{EventType, RuntimeVersion};

use super::{NodeEvent, NodeProfile, NodeStatusInputs, OS};

/// Sets `nodeInfo`; returns an event if the boot ID changed.
pub(super) fn set(
    status: &mut NodeStatus,
    profile: &NodeProfile,
    inputs: &NodeStatusInputs,
) -> Option<NodeEvent> {
    let info = status.node_info.get_or_insert_default();
    let machine = &inputs.machine;
    let rebooted = !info.boot_id.is_empty() && info.boot_id != machine.boot_id;
    info.machine_id.clone_from(&machine.machine_id);
    info.system_uuid.clone_from(&machine.system_uuid);
    info.boot_id.clone_from(&machine.boot_id);
    info.kernel_version.clone_from(&machine.kernel);
    info.os_image.clone_from(&machine.os_image);
    info.operating_system = OS.to_owned();
    info.architecture.clone_from(&profile.architecture);
    info.kubelet_version.clone_from(&profile.version);
    info.kube_proxy_version = String::new();
    match &inputs.runtime {
        Some(runtime) => info.container_runtime_version = runtime_version(runtime),
        // Keep the last known version while the runtime does not answer.
        None if info.container_runtime_version.is_empty() => {
            info.container_runtime_version = "unknown://Unknown".to_owned();
        }
        None => {}
    }
    if machine.swap_bytes > 0 {
        info.swap = Some(NodeSwapStatus { capacity: i64::try_from(machine.swap_bytes).ok() });
    }
    rebooted.then(|| NodeEvent {
        kind: EventType::Warning,
        reason: "Rebooted",
        message: format!("Node {} has been rebooted, boot id: {}", profile.name, machine.boot_id),
    })
}

fn runtime_version(runtime: &RuntimeVersion) -> String {
    let version = canonical_version(&runtime.version).unwrap_or("Unknown");
    format!("{}://{version}", runtime.name)
}

/// Like upstream: a semantic version as it is, otherwise only its leading numbers.
fn canonical_version(version: &str) -> Option<&str> {
    let text = version.trim();
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (numbers, extra) = text.split_at(end);
    let parts: Vec<&str> = numbers.split('.').collect();
    if parts.iter().any(|part| part.is_empty()) || parts.len() < 2 {
        return None;
    }
    let plain = |part: &&str| *part == "0" || !part.starts_with('0');
    let extra_is_valid = extra.is_empty()
        || extra.starts_with(['-', '+'])
            && extra.chars().all(|letter| letter.is_ascii_alphanumeric() || "-+.".contains(letter));
    Some(if parts.len() == 3 && parts.iter().all(plain) && extra_is_valid { text } else { numbers })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_runtime_name_and_version() {
        let cases = [
            ("v2.3.7", "containerd://2.3.7"),
            ("2.0.0-rc.1", "containerd://2.0.0-rc.1"),
            ("1.6.20~ds1", "containerd://1.6.20"),
            ("1.36.0-dev+abc", "containerd://1.36.0-dev+abc"),
            ("1.7", "containerd://1.7"),
            ("unknown", "containerd://Unknown"),
        ];
        for (version, expected) in cases {
            let runtime = RuntimeVersion {
                name: "containerd".into(),
                version: version.into(),
                api_version: "v1".into(),
            };
            assert_eq!(runtime_version(&runtime), expected);
        }
    }
}
