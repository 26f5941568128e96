use cri::v1::{
    ContainerEventType, PodSandbox, PodSandboxFilter, PodSandboxMetadata, PodSandboxState,
    RunPodSandboxRequest,
};
use model::labels::POD_UID;
use tonic::Status;

use super::behaviour::KILLED;
use super::record::{Exit, Sandbox, uses_host_network};
use super::runtime_state::{RuntimeState, take_out};
use super::violation::Violation;

impl RuntimeState {
    pub(crate) fn run_sandbox(&mut self, request: RunPodSandboxRequest, now: i64) -> Result<String, Status> {
        let config = request.config.unwrap_or_default();
        let metadata = config.metadata.clone().unwrap_or_default();
        if metadata.uid.is_empty() || metadata.name.is_empty() {
            return Err(Status::invalid_argument("sandbox config must name the pod and its uid"));
        }
        let name = sandbox_name(&metadata);
        if let Some(owner) = self.sandbox_names.get(&name) {
            self.violations
                .push(Violation::SandboxCreatedTwice { pod_uid: metadata.uid, attempt: metadata.attempt });
            return Err(Status::unknown(format!(
                "failed to reserve sandbox name \"{name}\": name is reserved for \"{owner}\""
            )));
        }
        let host_network = uses_host_network(&config);
        if !host_network && !self.settings.network_ready {
            return Err(Status::unknown(format!(
                "failed to set up network of sandbox \"{name}\": not ready"
            )));
        }
        let (number, id) = self.next_id();
        let ip = if host_network { String::new() } else { address(number) };
        if let Some(uid) = config.labels.get(POD_UID) {
            self.labelled_sandboxes.entry(uid.clone()).or_default().insert(id.clone());
        }
        let ready = self.ready.entry(metadata.uid.clone()).or_default();
        ready.insert(id.clone());
        if ready.len() > 1 {
            self.violations.push(Violation::TwoReadySandboxes {
                pod_uid: metadata.uid,
                sandboxes: ready.iter().cloned().collect(),
            });
        }
        self.sandbox_names.insert(name, id.clone());
        self.sandboxes.insert(
            id.clone(),
            Sandbox {
                id: id.clone(),
                config,
                runtime_handler: request.runtime_handler,
                state: PodSandboxState::SandboxReady,
                created_at: now,
                ip,
                containers: Default::default(),
            },
        );
        self.emit(ContainerEventType::ContainerCreatedEvent, &id, &id, now);
        self.emit(ContainerEventType::ContainerStartedEvent, &id, &id, now);
        Ok(id)
    }

    /// Kills the containers of the sandbox, then stops it; ignores unknown and stopped ones.
    pub(crate) fn stop_sandbox(&mut self, id: &str, now: i64) {
        let Some(sandbox) = self.sandboxes.get(id) else { return };
        for container in sandbox.containers.clone() {
            self.end_container(&container, Exit::code(KILLED), now);
        }
        self.end_sandbox(id, now);
    }

    /// Ends the sandbox; its containers keep running.
    pub(crate) fn end_sandbox(&mut self, id: &str, now: i64) {
        let Some(sandbox) = self.sandboxes.get_mut(id).filter(|sandbox| sandbox.is_ready()) else { return };
        sandbox.state = PodSandboxState::SandboxNotready;
        let uid = sandbox.pod_uid().to_owned();
        take_out(&mut self.ready, &uid, id);
        self.emit(ContainerEventType::ContainerStoppedEvent, id, id, now);
    }

    /// Forcibly removes the sandbox and its containers; ignores unknown IDs.
    pub(crate) fn remove_sandbox(&mut self, id: &str, now: i64) {
        let Some(sandbox) = self.sandboxes.get(id) else { return };
        if sandbox.is_ready() {
            self.violations.push(Violation::SandboxRemovedWhileReady { id: id.to_owned() });
            self.stop_sandbox(id, now);
        }
        let containers = self.sandboxes.get(id).map(|sandbox| sandbox.containers.clone());
        for container in containers.into_iter().flatten() {
            self.remove_container(&container, now);
        }
        if let Some(sandbox) = self.sandboxes.remove(id) {
            self.sandbox_names.remove(&sandbox_name(&sandbox.metadata()));
            if let Some(uid) = sandbox.config.labels.get(POD_UID) {
                take_out(&mut self.labelled_sandboxes, uid, id);
            }
        }
        self.emit(ContainerEventType::ContainerDeletedEvent, id, id, now);
    }

    pub(crate) fn list_sandboxes(&self, filter: &PodSandboxFilter) -> Vec<PodSandbox> {
        let matches = |sandbox: &&Sandbox| {
            filter.state.as_ref().is_none_or(|value| value.state() == sandbox.state)
                && filter
                    .label_selector
                    .iter()
                    .all(|(key, value)| sandbox.config.labels.get(key) == Some(value))
        };
        let found = |id: &String| self.sandboxes.get(id);
        if !filter.id.is_empty() {
            return found(&filter.id).into_iter().filter(matches).map(Sandbox::item).collect();
        }
        match filter.label_selector.get(POD_UID) {
            Some(uid) => {
                let ids = self.labelled_sandboxes.get(uid).into_iter().flatten();
                ids.filter_map(found).filter(matches).map(Sandbox::item).collect()
            }
            None => self.sandboxes.values().filter(matches).map(Sandbox::item).collect(),
        }
    }
}

/// The name that containerd reserves: no two sandboxes with the same name exist at the same time.
fn sandbox_name(metadata: &PodSandboxMetadata) -> String {
    format!("{}_{}_{}_{}", metadata.name, metadata.namespace, metadata.uid, metadata.attempt)
}

fn address(number: u32) -> String {
    let [_, high, middle, low] = number.to_be_bytes();
    format!("10.{high}.{middle}.{low}")
}
