//! The output of all containers of a run, line by line.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::ContainerStatus;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::rows::{PodState, pod_name};
use crate::command::client::Client;

/// Lines that wait for the display; a container that writes more waits for its reader.
const MAX_PENDING_LINES: usize = 256;
/// A longer line is split.
const MAX_LINE: usize = 16 * 1024;

/// Follows every container once per run of it.
pub(super) struct LogStreams {
    client: Client,
    lines: mpsc::Sender<String>,
    followed: HashSet<String>,
    tasks: JoinSet<()>,
}

/// A container that runs or has run.
#[derive(Debug, PartialEq, Eq)]
struct Started {
    path: String,
    label: String,
    id: String,
}

impl LogStreams {
    /// The agent serves logs on its local socket.
    pub(super) fn new(client: Client) -> (Self, mpsc::Receiver<String>) {
        let (lines, receiver) = mpsc::channel(MAX_PENDING_LINES);
        (Self { client, lines, followed: HashSet::new(), tasks: JoinSet::new() }, receiver)
    }

    /// Follows the containers that have started since the last call.
    pub(super) fn follow(&mut self, pods: &[PodState]) {
        while self.tasks.try_join_next().is_some() {}
        for container in pods.iter().flat_map(started) {
            if self.followed.insert(container.id.clone()) {
                self.tasks.spawn(copy(self.client.clone(), container, self.lines.clone()));
            }
        }
    }

    /// Whether all output has been delivered of the containers that were followed.
    pub(super) fn are_finished(&mut self) -> bool {
        while self.tasks.try_join_next().is_some() {}
        self.tasks.is_empty()
    }
}

fn started(state: &PodState) -> Vec<Started> {
    let Some(status) = &state.status else { return Vec::new() };
    let (namespace, name) = (&state.pod.full_name.namespace, &state.pod.full_name.name);
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    containers
        .filter_map(|container| {
            Some(Started {
                path: format!("/containerLogs/{namespace}/{name}/{}?follow=true", container.name),
                label: format!("{}/{}", pod_name(&state.pod), container.name),
                id: started_id(container)?.to_owned(),
            })
        })
        .collect()
}

/// The id of the container if it has started.
fn started_id(container: &ContainerStatus) -> Option<&str> {
    let state = container.state.as_ref()?;
    let has_started = state.running.is_some() || state.terminated.is_some();
    container.container_id.as_deref().filter(|_| has_started)
}

/// Ends with the container, or with the receiver of the lines.
async fn copy(client: Client, container: Started, lines: mpsc::Sender<String>) {
    let Ok(mut log) = client.open(&container.path).await else { return };
    let mut pending = Vec::new();
    // An error ends the output like its end: the display shows the state of the container.
    while let Ok(Some(chunk)) = log.next().await {
        for byte in chunk {
            if byte == b'\n' || pending.len() >= MAX_LINE {
                if lines.send(line(&container.label, &pending)).await.is_err() {
                    return;
                }
                pending.clear();
            }
            if byte != b'\n' {
                pending.push(byte);
            }
        }
    }
    if !pending.is_empty() {
        // The receiver has ended with the run.
        let _ = lines.send(line(&container.label, &pending)).await;
    }
}

/// Control characters could move the cursor out of the output.
fn line(label: &str, text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let is_hostile = |c: char| c.is_control() && c != '\t';
    let text: String = text.trim_end_matches('\r').chars().filter(|c| !is_hostile(*c)).collect();
    format!("{label} | {text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_a_label_and_no_control_characters() {
        assert_eq!(line("web/a", b"one\ttwo\r"), "web/a | one\ttwo");
        assert_eq!(line("web/a", b"\x1b[2Jx\xff"), "web/a | [2Jx\u{fffd}");
    }

    #[test]
    fn only_started_containers_are_followed() {
        let container = |state: &str| -> ContainerStatus {
            serde_json::from_str(&format!(
                r#"{{"name":"a","image":"i","imageID":"","ready":false,"restartCount":0,"containerID":"r://1","state":{state}}}"#
            ))
            .unwrap()
        };
        assert_eq!(started_id(&container(r#"{"running":{}}"#)), Some("r://1"));
        assert_eq!(started_id(&container(r#"{"terminated":{"exitCode":0}}"#)), Some("r://1"));
        assert_eq!(started_id(&container(r#"{"waiting":{}}"#)), None);
    }
}
