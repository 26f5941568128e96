//! The rows of the display for pods, containers and pulls: pure.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};
use model::Pod;
use runtime::images::PullProgress;

const MIB: u64 = 1 << 20;

/// A pod of the run as it is now.
#[derive(Clone, Debug)]
pub(super) struct PodState {
    pub(super) pod: Arc<Pod>,
    pub(super) status: Option<PodStatus>,
    /// Why the last pass of its worker failed.
    pub(super) last_error: Option<String>,
}

/// One line of the display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) subject: String,
    pub(super) state: String,
    /// Changes too often for a line each.
    pub(super) progress: String,
}

impl Row {
    fn new(subject: String, state: impl Into<String>) -> Self {
        Self { subject, state: state.into(), progress: String::new() }
    }
}

/// The rows of all pods, each followed by its containers, and then those of the pulls.
pub(super) fn rows(pods: &[PodState], pulls: &[(String, PullProgress)]) -> Vec<Row> {
    let of_pods = pods.iter().flat_map(pod_rows);
    let of_pulls = pulls.iter().map(|(image, progress)| Row {
        subject: format!("image {image}"),
        state: "pulling".to_owned(),
        progress: progress_text(progress),
    });
    let clean = |text: &str| text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>();
    of_pods
        .chain(of_pulls)
        .map(|row| Row { subject: clean(&row.subject), state: clean(&row.state), progress: row.progress })
        .collect()
}

/// The name in the manifest: without the name of the node, and with a namespace only if it is not the default.
pub(super) fn pod_name(pod: &Pod) -> String {
    let name = pod.full_name.name.as_str();
    let node = pod.spec.node_name.as_deref().unwrap_or_default();
    let name = name.strip_suffix(node).and_then(|rest| rest.strip_suffix('-')).unwrap_or(name);
    match pod.full_name.namespace.as_str() {
        "default" => name.to_owned(),
        namespace => format!("{namespace}/{name}"),
    }
}

fn pod_rows(state: &PodState) -> Vec<Row> {
    let name = pod_name(&state.pod);
    let Some(status) = &state.status else { return vec![Row::new(name, "waiting")] };
    let mut rows = vec![Row::new(name.clone(), pod_text(status, state.last_error.as_deref()))];
    for container in status.init_container_statuses.iter().flatten() {
        rows.push(Row::new(format!("{name}/{} (init)", container.name), container_text(container)));
    }
    for container in status.container_statuses.iter().flatten() {
        rows.push(Row::new(format!("{name}/{}", container.name), container_text(container)));
    }
    rows
}

fn pod_text(status: &PodStatus, last_error: Option<&str>) -> String {
    let phase = status.phase.as_deref().unwrap_or("Pending");
    match phase {
        "Running" => {
            let containers = status.container_statuses.as_deref().unwrap_or_default();
            let ready = containers.iter().filter(|container| container.ready).count();
            let address =
                status.pod_ip.as_deref().filter(|ip| !ip.is_empty()).map(|ip| format!(", address {ip}"));
            format!("Running, {ready} of {} ready{}", containers.len(), address.unwrap_or_default())
        }
        "Failed" => {
            let reasons = [status.reason.as_deref(), status.message.as_deref()];
            let reasons: Vec<&str> = reasons.into_iter().flatten().filter(|text| !text.is_empty()).collect();
            with_reason(phase, &reasons.join(": "))
        }
        "Pending" => with_reason(phase, last_error.unwrap_or_default()),
        other => other.to_owned(),
    }
}

fn container_text(status: &ContainerStatus) -> String {
    let state = status.state.clone().unwrap_or_default();
    let mut text = match (state.running, state.terminated, state.waiting) {
        (Some(_), _, _) if status.ready => "running, ready".to_owned(),
        (Some(_), _, _) if status.started == Some(false) => "running, not started yet".to_owned(),
        (Some(_), _, _) => "running, not ready".to_owned(),
        (_, Some(ended), _) if ended.exit_code == 0 => "completed".to_owned(),
        (_, Some(ended), _) => {
            let reason = ended.reason.filter(|reason| reason != "Error");
            let message = ended.message.unwrap_or_default();
            let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
            with_reason(&format!("ended with exit code {}{reason}", ended.exit_code), message.trim())
        }
        (_, _, Some(waiting)) => {
            let reason = waiting.reason.unwrap_or_else(|| "waiting".to_owned());
            with_reason(&reason, &waiting.message.unwrap_or_default())
        }
        (None, None, None) => "waiting".to_owned(),
    };
    if status.restart_count > 0 {
        text.push_str(&format!(", restarts: {}", status.restart_count));
    }
    text
}

fn with_reason(text: &str, reason: &str) -> String {
    if reason.is_empty() { text.to_owned() } else { format!("{text}: {reason}") }
}

fn progress_text(progress: &PullProgress) -> String {
    let mib = |bytes: u64| {
        let tenths = bytes * 10 / MIB;
        format!("{}.{}", tenths / 10, tenths % 10)
    };
    match progress.size() {
        0 => String::new(),
        size if progress.layers.iter().all(|layer| layer.fetched >= layer.size) => {
            format!("{} MiB fetched, unpacking", mib(size))
        }
        size => format!("{} of {} MiB", mib(progress.fetched()), mib(size)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn state(status: &Value) -> PodState {
        let mut pod = k8s_openapi::api::core::v1::Pod::default();
        pod.metadata.name = Some("web-node-a".to_owned());
        pod.metadata.namespace = Some("default".to_owned());
        pod.metadata.uid = Some("u".to_owned());
        pod.spec = Some(k8s_openapi::api::core::v1::PodSpec {
            node_name: Some("node-a".to_owned()),
            ..Default::default()
        });
        let pod = Arc::new(Pod::from_object(pod, model::PodSource::File).unwrap());
        let status = serde_json::from_str(&status.to_string()).unwrap();
        PodState { pod, status, last_error: None }
    }

    fn text(status: &Value) -> Vec<String> {
        let rows = rows(&[state(status)], &[]);
        rows.into_iter().map(|row| format!("{} | {}", row.subject, row.state)).collect()
    }

    fn container(name: &str, state: &Value) -> Value {
        let mut status =
            json!({"name": name, "image": "i", "imageID": "", "ready": false, "restartCount": 0});
        for (field, value) in state.as_object().unwrap() {
            status[field] = value.clone();
        }
        status
    }

    #[test]
    fn shows_pods_and_their_containers_in_order() {
        let status = json!({"phase": "Running", "podIP": "10.86.0.2",
        "initContainerStatuses": [container("setup", &json!({"state": {"terminated": {"exitCode": 0}}}))],
        "containerStatuses": [
            container("a", &json!({"ready": true, "state": {"running": {}}})),
            container("b", &json!({"restartCount": 2, "state": {"waiting":
                {"reason": "CrashLoopBackOff", "message": "back-off 20s"}}})),
        ]});
        assert_eq!(
            text(&status),
            [
                "web | Running, 1 of 2 ready, address 10.86.0.2",
                "web/setup (init) | completed",
                "web/a | running, ready",
                "web/b | CrashLoopBackOff: back-off 20s, restarts: 2",
            ]
        );
    }

    #[test]
    fn shows_failures_with_reasons() {
        let status = json!({"phase": "Failed", "reason": "DeadlineExceeded", "message": "too\nlate",
            "containerStatuses": [container("a", &json!({"state": {"terminated":
                {"exitCode": 137, "reason": "OOMKilled"}}}))]});
        assert_eq!(
            text(&status),
            ["web | Failed: DeadlineExceeded: too late", "web/a | ended with exit code 137 (OOMKilled)"]
        );
        assert_eq!(text(&json!(null)), ["web | waiting"]);
    }

    #[test]
    fn shows_bytes_of_pulls() {
        use runtime::images::LayerProgress;
        let digest = format!("sha256:{}", "0".repeat(64)).parse().unwrap();
        let mut progress = PullProgress::default();
        assert_eq!(progress_text(&progress), "");
        progress.layers.push(LayerProgress { digest, size: 3 * MIB, fetched: MIB / 2, unpacked: false });
        assert_eq!(progress_text(&progress), "0.5 of 3.0 MiB");
        progress.layers[0].fetched = 3 * MIB;
        assert_eq!(progress_text(&progress), "3.0 MiB fetched, unpacking");
    }
}
