use std::cmp::Reverse;
use std::time::Duration;

use cri::v1::{
    Container as ContainerItem, ContainerConfig, ContainerEventType, ContainerFilter, ContainerMetadata,
    ContainerState, CreateContainerRequest, LinuxContainerResources, PodSandboxMetadata,
};
use model::labels::POD_UID;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::behaviour::{KILLED, Life, OnStop};
use super::image::names_of;
use super::record::{Container, Exit};
use super::runtime_state::{RuntimeState, take_out};
use super::violation::Violation;

impl RuntimeState {
    pub(crate) fn create_container(
        &mut self,
        request: CreateContainerRequest,
        now: i64,
    ) -> Result<String, Status> {
        let config = request.config.unwrap_or_default();
        let sandbox_id = request.pod_sandbox_id;
        let name = self.reserve_name(&sandbox_id, &config)?;
        let sandbox = self.sandboxes.get(&sandbox_id).ok_or_else(|| no_sandbox(&sandbox_id))?;
        if !sandbox.is_ready() {
            return Err(Status::unknown(format!("sandbox \"{sandbox_id}\" is not ready")));
        }
        let log_path = match (sandbox.config.log_directory.as_str(), config.log_path.as_str()) {
            (_, "") => String::new(),
            (folder, file) => format!("{folder}/{file}"),
        };
        let pod_uid = sandbox.pod_uid().to_owned();
        let requested = config.image.clone().unwrap_or_default();
        let image = self.images.find(&requested.image).cloned();
        let image = image
            .ok_or_else(|| Status::not_found(format!("failed to resolve image \"{}\"", requested.image)))?;
        let mut image_names = names_of(&image);
        image_names.push(requested.user_specified_image);
        let behaviour = self.behaviours.choose(&config, &image_names);
        let (_, id) = self.next_id();
        let container = Container {
            id: id.clone(),
            sandbox_id,
            pod_uid,
            resources: config.linux.as_ref().and_then(|linux| linux.resources.clone()),
            config,
            log_path,
            image,
            behaviour,
            state: ContainerState::ContainerCreated,
            created_at: now,
            started_at: 0,
            finished_at: 0,
            exit: Exit::default(),
            stop_timeouts: Vec::new(),
            log_reopens: 0,
            due: None,
            exited: CancellationToken::new(),
        };
        self.keep_container(name, container, now);
        Ok(id)
    }

    /// Reserves the container's name; fails if another container has it.
    fn reserve_name(&mut self, sandbox_id: &str, config: &ContainerConfig) -> Result<String, Status> {
        let sandbox = self.sandboxes.get(sandbox_id).ok_or_else(|| no_sandbox(sandbox_id))?;
        let ContainerMetadata { name: container, attempt } = config.metadata.clone().unwrap_or_default();
        if container.is_empty() {
            return Err(Status::invalid_argument("container config must have a name"));
        }
        let name = container_name(&container, attempt, &sandbox.metadata());
        let Some(owner) = self.container_names.get(&name) else { return Ok(name) };
        let pod_uid = sandbox.pod_uid().to_owned();
        self.violations.push(Violation::CreatedTwice { pod_uid, container, attempt });
        Err(Status::unknown(format!(
            "failed to reserve container name \"{name}\": name is reserved for \"{owner}\""
        )))
    }

    fn keep_container(&mut self, name: String, container: Container, now: i64) {
        let (id, sandbox_id) = (container.id.clone(), container.sandbox_id.clone());
        if let Some(uid) = container.labels().get(POD_UID) {
            self.labelled_containers.entry(uid.clone()).or_default().insert(id.clone());
        }
        if let Some(sandbox) = self.sandboxes.get_mut(&sandbox_id) {
            sandbox.containers.insert(id.clone());
        }
        self.container_names.insert(name, id.clone());
        self.containers.insert(id.clone(), container);
        self.emit(ContainerEventType::ContainerCreatedEvent, &id, &sandbox_id, now);
    }

    pub(crate) fn start_container(&mut self, id: &str, now: i64) -> Result<(), Status> {
        let container = self.containers.get_mut(id).ok_or_else(|| no_container(id))?;
        let wrong = match container.state {
            ContainerState::ContainerCreated => None,
            ContainerState::ContainerRunning => Some(Violation::StartedWhileRunning { id: id.to_owned() }),
            ContainerState::ContainerExited | ContainerState::ContainerUnknown => {
                Some(Violation::StartedAfterExit { id: id.to_owned() })
            }
        };
        if let Some(violation) = wrong {
            let state = container.state.as_str_name();
            self.violations.push(violation);
            return Err(Status::unknown(format!("container \"{id}\" is in {state} state")));
        }
        let sandbox_id = container.sandbox_id.clone();
        if !self.sandboxes.get(&sandbox_id).is_some_and(super::record::Sandbox::is_ready) {
            return Err(Status::unknown(format!("sandbox \"{sandbox_id}\" is not running")));
        }
        container.state = ContainerState::ContainerRunning;
        container.started_at = now;
        touch_log(container);
        let key = (container.pod_uid.clone(), container.name().to_owned());
        let life = container.behaviour.life.clone();
        self.note_running(key, id);
        self.emit(ContainerEventType::ContainerStartedEvent, id, &sandbox_id, now);
        if let Life::Ends { after, code } = life {
            self.end_later(id, after, Exit::code(code), now);
        }
        Ok(())
    }

    fn note_running(&mut self, key: (String, String), id: &str) {
        let running = self.running.entry(key.clone()).or_default();
        running.insert(id.to_owned());
        if running.len() > 1 {
            let (pod_uid, container) = key;
            let ids = running.iter().cloned().collect();
            self.violations.push(Violation::TwoRunningContainers { pod_uid, container, ids });
        }
    }

    /// Sends the stop signal. The caller must complete the returned value, if any, when the process has exited.
    pub(crate) fn signal_stop(&mut self, id: &str, timeout: i64, now: i64) -> Option<CancellationToken> {
        let container = self.containers.get_mut(id).filter(|container| container.is_running())?;
        container.stop_timeouts.push(timeout);
        let exited = container.exited.clone();
        match container.behaviour.on_stop {
            _ if timeout <= 0 => self.end_container(id, Exit::code(KILLED), now),
            OnStop::Exits { after, code } => self.end_later(id, after, Exit::code(code), now),
            OnStop::Ignores => {}
        }
        (!exited.is_cancelled()).then_some(exited)
    }

    /// Schedules the end of the process, unless it is due earlier anyway.
    fn end_later(&mut self, id: &str, after: Duration, exit: Exit, now: i64) {
        if after.is_zero() {
            return self.end_container(id, exit, now);
        }
        let at = now.saturating_add(i64::try_from(after.as_nanos()).unwrap_or(i64::MAX));
        let Some(container) = self.containers.get_mut(id) else { return };
        if container.due.as_ref().is_none_or(|(earlier, _)| at < *earlier) {
            container.due = Some((at, exit));
            self.due.push(Reverse((at, id.to_owned())));
        }
    }

    /// Ends every process that is due.
    pub(crate) fn settle(&mut self, now: i64) {
        while self.due.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            let Some(Reverse((at, id))) = self.due.pop() else { return };
            let due = self.containers.get(&id).and_then(|container| container.due.clone());
            if let Some((_, exit)) = due.filter(|(planned, _)| *planned == at) {
                self.end_container(&id, exit, at);
            }
        }
    }

    /// Ends the process. Does nothing to a container that is not running.
    pub(crate) fn end_container(&mut self, id: &str, exit: Exit, now: i64) {
        let running = self.containers.get_mut(id).filter(|container| container.is_running());
        let Some(container) = running else { return };
        container.state = ContainerState::ContainerExited;
        container.finished_at = now;
        container.exit = exit;
        container.due = None;
        container.exited.cancel();
        let key = (container.pod_uid.clone(), container.name().to_owned());
        let sandbox_id = container.sandbox_id.clone();
        take_out(&mut self.running, &key, id);
        self.emit(ContainerEventType::ContainerStoppedEvent, id, &sandbox_id, now);
    }

    /// Forcibly removes the container; ignores unknown IDs.
    pub(crate) fn remove_container(&mut self, id: &str, now: i64) {
        if self.containers.get(id).is_some_and(Container::is_running) {
            self.violations.push(Violation::RemovedWhileRunning { id: id.to_owned() });
            self.end_container(id, Exit::code(KILLED), now);
        }
        let Some(container) = self.containers.remove(id) else { return };
        if let Some(uid) = container.labels().get(POD_UID) {
            take_out(&mut self.labelled_containers, uid, id);
        }
        if let Some(sandbox) = self.sandboxes.get_mut(&container.sandbox_id) {
            sandbox.containers.remove(id);
            let name = container_name(container.name(), container.attempt(), &sandbox.metadata());
            self.container_names.remove(&name);
        }
        self.emit(ContainerEventType::ContainerDeletedEvent, id, &container.sandbox_id, now);
    }

    pub(crate) fn update_resources(
        &mut self,
        id: &str,
        resources: Option<LinuxContainerResources>,
    ) -> Result<(), Status> {
        let container = self.containers.get_mut(id).ok_or_else(|| no_container(id))?;
        if container.state == ContainerState::ContainerExited {
            return Err(Status::unknown(format!("container \"{id}\" has exited")));
        }
        container.resources = match (container.resources.take(), resources) {
            (Some(before), Some(change)) => Some(merged(before, change)),
            (before, change) => change.or(before),
        };
        Ok(())
    }

    pub(crate) fn reopen_log(&mut self, id: &str) -> Result<(), Status> {
        let container = self.containers.get_mut(id).ok_or_else(|| no_container(id))?;
        if !container.is_running() {
            return Err(Status::unknown("container is not running"));
        }
        container.log_reopens += 1;
        touch_log(container);
        Ok(())
    }

    pub(crate) fn list_containers(&self, filter: &ContainerFilter) -> Vec<ContainerItem> {
        self.select(filter).map(Container::item).collect()
    }

    /// The containers that match a filter, found by its most selective field.
    pub(crate) fn select<'a>(
        &'a self,
        filter: &'a ContainerFilter,
    ) -> Box<dyn Iterator<Item = &'a Container> + 'a> {
        let found = |id: &String| self.containers.get(id);
        let candidates: Box<dyn Iterator<Item = &Container>> = if !filter.id.is_empty() {
            Box::new(found(&filter.id).into_iter())
        } else if !filter.pod_sandbox_id.is_empty() {
            let sandbox = self.sandboxes.get(&filter.pod_sandbox_id).into_iter();
            Box::new(sandbox.flat_map(|sandbox| &sandbox.containers).filter_map(found))
        } else if let Some(uid) = filter.label_selector.get(POD_UID) {
            Box::new(self.labelled_containers.get(uid).into_iter().flatten().filter_map(found))
        } else {
            Box::new(self.containers.values())
        };
        Box::new(candidates.filter(|container| {
            (filter.pod_sandbox_id.is_empty() || filter.pod_sandbox_id == container.sandbox_id)
                && filter.state.as_ref().is_none_or(|value| value.state() == container.state)
                && filter.label_selector.iter().all(|(key, value)| container.labels().get(key) == Some(value))
        }))
    }
}

/// Like a real runtime: an empty value means unchanged.
fn merged(before: LinuxContainerResources, change: LinuxContainerResources) -> LinuxContainerResources {
    let number = |before: i64, change: i64| if change == 0 { before } else { change };
    let text = |before: String, change: String| if change.is_empty() { before } else { change };
    LinuxContainerResources {
        cpu_period: number(before.cpu_period, change.cpu_period),
        cpu_quota: number(before.cpu_quota, change.cpu_quota),
        cpu_shares: number(before.cpu_shares, change.cpu_shares),
        memory_limit_in_bytes: number(before.memory_limit_in_bytes, change.memory_limit_in_bytes),
        memory_swap_limit_in_bytes: number(
            before.memory_swap_limit_in_bytes,
            change.memory_swap_limit_in_bytes,
        ),
        cpuset_cpus: text(before.cpuset_cpus, change.cpuset_cpus),
        cpuset_mems: text(before.cpuset_mems, change.cpuset_mems),
        unified: before.unified.into_iter().chain(change.unified).collect(),
        ..before
    }
}

/// Creates the empty log file of a running container, unless the agent has not created its folder.
fn touch_log(container: &Container) {
    let _ = std::fs::OpenOptions::new().create(true).append(true).open(&container.log_path);
}

pub(crate) fn no_container(id: &str) -> Status {
    Status::not_found(format!("container \"{id}\": not found"))
}

pub(crate) fn no_sandbox(id: &str) -> Status {
    Status::not_found(format!("sandbox \"{id}\": not found"))
}

/// The name that containerd reserves. It does not include the sandbox: an attempt is unique in the pod.
fn container_name(name: &str, attempt: u32, pod: &PodSandboxMetadata) -> String {
    format!("{name}_{}_{}_{}_{attempt}", pod.name, pod.namespace, pod.uid)
}
