use std::borrow::Cow;
use std::path::PathBuf;

use decide::pipeline::backoff::{self, BackoffDecision};
use decide::pipeline::grace::container_grace;
use decide::pipeline::pod_actions::{PodActions, StartContainer, never_ran, restart_count};
use decide::runtime_spec::container_spec::{ContainerInputs, container_spec};
use decide::runtime_spec::hosts_file::{hostname_and_domain, hosts_file, needs_hosts_mount};
use decide::runtime_spec::pod_paths::{PodPaths, log_folder};
use k8s_openapi::api::core::v1::Container;
use model::{
    ContainerId, ContainerProblem, ContainerRef, ContainerSpec, ContainerState, EventType, PlannedVolume,
    SandboxSpec, StartStep, SyncFailure, Timestamp,
};
use ports::host::pod_folders::FileError;
use ports::runtime::RuntimeErrorKind;
use tokio_util::sync::CancellationToken;
use values::fnv::Fnv32a;

use super::hooks::HookSubject;
use super::state_cache::CrashKey;
use super::stop::ContainerStop;
use super::sync::{DeferredStarts, PodSync, ReadySandbox};
use super::sync_failed;
use crate::images::{ImageProblem, ReadyImage};

/// Everything that must exist before a container can be created.
pub(super) struct StartPrerequisites<'a> {
    pub(super) sandbox: &'a ReadySandbox,
    pub(super) volumes: &'a [PlannedVolume],
    pub(super) image: Result<ReadyImage, ImageProblem>,
    pub(super) interrupt: &'a CancellationToken,
}

pub(super) enum StartFailure {
    /// The container waits for a backoff.
    Later {
        problem: ContainerProblem,
        retry_at: Timestamp,
    },
    Failed(ContainerProblem),
    /// The whole sync must be retried.
    Sync(SyncFailure),
}

impl From<ImageProblem> for StartFailure {
    fn from(ImageProblem { problem, retry_at }: ImageProblem) -> Self {
        match retry_at {
            Some(retry_at) => Self::Later { problem, retry_at },
            None => Self::Failed(problem),
        }
    }
}

impl PodSync<'_> {
    /// Splits the containers to start into those that are due and those that wait for their crash backoff.
    pub(super) fn split_by_backoff(&self, actions: &PodActions) -> (Vec<StartContainer>, DeferredStarts) {
        let mut due = Vec::new();
        let mut deferred = DeferredStarts::default();
        for start in &actions.start {
            match self.crash_backoff_wait(start) {
                None => due.push(start.clone()),
                Some((problem, until)) => deferred.add(start.name.clone(), problem, until),
            }
        }
        (due, deferred)
    }

    fn crash_backoff_wait(&self, start: &StartContainer) -> Option<(ContainerProblem, Timestamp)> {
        match self.crash_decision(start)? {
            (_, BackoffDecision::Retry { .. }) => None,
            (_, BackoffDecision::Wait { delay, until }) => {
                let pod = self.pod;
                let message = backoff::crash_message(pod, &start.name, delay);
                let (name, namespace, uid) = (pod.name(), pod.namespace(), &pod.uid);
                let event = format!(
                    "Back-off restarting failed container {} in pod {name}_{namespace}({uid})",
                    start.name
                );
                self.record_event(&start.name, EventType::Warning, "BackOff", &event);
                Some((ContainerProblem { reason: "CrashLoopBackOff".to_owned(), message }, until))
            }
        }
    }

    /// The backoff decision of a container's crash history; `None` if it has not crashed.
    pub(super) fn crash_decision(&self, start: &StartContainer) -> Option<(CrashKey, BackoffDecision)> {
        let container = self.pod.container(&start.name)?.container;
        let ended = self
            .observed
            .containers_named(&start.name)
            .find(|status| status.state == ContainerState::Exited && !never_ran(status))?;
        let key = CrashKey {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            resources: serde_json::to_string(&container.resources).unwrap_or_default(),
        };
        let ended_before_start = ended.finished_at < self.deps.started_at;
        let entry = self.cached(|cached| cached.crashes.get(&key).copied()).or_else(|| {
            let adopt = || {
                let restarts = restart_count(ended);
                backoff::adopt_entry(restarts, ended.started_at, ended.finished_at, self.deps.crash_backoff)
            };
            ended_before_start.then(adopt).flatten()
        });
        Some((key, backoff::decide(entry, ended.finished_at, self.deps.clock.now(), self.deps.crash_backoff)))
    }

    pub(super) async fn ensure_image(
        &self,
        start: &StartContainer,
        sandbox: &SandboxSpec,
    ) -> Result<ReadyImage, ImageProblem> {
        let Some(container) = self.pod.container(&start.name) else {
            return Err(ImageProblem::failed("InvalidImageName", "no such container".to_owned()));
        };
        let step = self.deps.timelines.begin_step(&self.pod.uid, StartStep::Image, Some(&start.name));
        let ensured = self.deps.images.ensure(self.pod, container, sandbox).await;
        step.finished(&ensured);
        ensured
    }

    /// Creates and starts one container.
    pub(super) async fn start_container(
        &self,
        start: &StartContainer,
        prerequisites: &StartPrerequisites<'_>,
    ) -> Result<(), StartFailure> {
        let Some(container) = self.pod.container(&start.name) else {
            return Err(StartFailure::Sync(sync_failed(format!("pod has no container {}", start.name))));
        };
        let image = prerequisites.image.as_ref().map_err(|problem| StartFailure::from(problem.clone()))?;
        if let Some((key, BackoffDecision::Retry { next })) = self.crash_decision(start) {
            self.runtime.cache.record_crash(&self.pod.uid, key, next);
        }
        let restart_count = self.restart_count(start).await;
        let spec = self.container_spec(container, restart_count, image, prerequisites).await?;
        self.bind_sub_paths(&spec).await?;
        let (timelines, uid) = (&self.deps.timelines, &self.pod.uid);
        let step = timelines.begin_step(uid, StartStep::Create, Some(&start.name));
        let id = self.create_container(&spec, prerequisites.sandbox).await?;
        step.succeeded();
        let step = timelines.begin_step(uid, StartStep::Start, Some(&start.name));
        self.start_created(&id, &spec).await?;
        step.succeeded();
        self.run_post_start(container.container, &id, prerequisites).await
    }

    /// Runs the `postStart` hook; the next container waits for it. Stops the container if the hook fails.
    async fn run_post_start(
        &self,
        container: &Container,
        id: &ContainerId,
        prerequisites: &StartPrerequisites<'_>,
    ) -> Result<(), StartFailure> {
        let lifecycle = container.lifecycle.as_ref();
        let Some(handler) = lifecycle.and_then(|lifecycle| lifecycle.post_start.as_ref()) else {
            return Ok(());
        };
        // Makes the status report the container as running while the hook runs.
        self.deps.observer.hint(&self.pod.uid);
        let ips = &prerequisites.sandbox.ips;
        let subject = HookSubject { pod: Some(self.pod), container, id, ips };
        // A pod that must stop does not wait for the hook.
        let done = prerequisites.interrupt.run_until_cancelled(self.runtime.run_hook(subject, handler)).await;
        let message = match done.ok_or(StartFailure::Sync(SyncFailure::Interrupted))? {
            Ok(()) => return Ok(()),
            Err(message) => message,
        };
        // The message may contain secrets from the server's response.
        let event = "PostStartHook failed";
        self.record_event(&container.name, EventType::Warning, "FailedPostStartHook", event);
        let stop = ContainerStop {
            pod: Some(self.pod),
            container: Cow::Borrowed(container),
            id,
            ips,
            message: "FailedPostStartHook".to_owned(),
            grace: container_grace(self.pod, container, None),
        };
        if let Err(error) = self.runtime.stop_container(&stop, async {}).await {
            tracing::warn!(pod = %self.pod.full_name, container = %container.name, %error, "failed to stop container after its postStart hook failed");
        }
        Err(problem("PostStartHookError", message))
    }

    /// The container that an ephemeral container targets: it shares its process namespace.
    fn target(&self, name: &str) -> Result<Option<&ContainerId>, StartFailure> {
        let ephemeral = self.pod.ephemeral.iter().find(|entry| entry.container.name == name);
        let Some(target) = ephemeral.and_then(|entry| entry.target.as_deref()) else { return Ok(None) };
        match self.observed.container(target) {
            Some(status) => Ok(Some(&status.id)),
            None => {
                let message = format!("unable to find target container {target}");
                Err(self.config_error(name, message))
            }
        }
    }

    async fn create_container(
        &self,
        spec: &ContainerSpec,
        sandbox: &ReadySandbox,
    ) -> Result<ContainerId, StartFailure> {
        self.save_actuated_resources(&spec.name).await.map_err(StartFailure::Sync)?;
        let runtime = &self.deps.runtime;
        let created = runtime.create_container(&sandbox.id, spec, &sandbox.spec).await;
        self.count_image_volumes(&spec.name, created.is_ok());
        match created {
            Ok(id) => {
                self.deps.allocations.managed().memory().container_created(self.pod, &spec.name);
                self.record_event(&spec.name, EventType::Normal, "Created", "Container created");
                Ok(id)
            }
            Err(error) if is_transient(error.kind) => {
                Err(StartFailure::Sync(super::runtime_failed("create a container", &error)))
            }
            Err(error) => {
                self.record_error(&spec.name, &error.message);
                Err(problem("CreateContainerError", error.message))
            }
        }
    }

    async fn start_created(&self, id: &ContainerId, spec: &ContainerSpec) -> Result<(), StartFailure> {
        if let Err(error) = self.deps.runtime.start_container(id).await {
            if is_transient(error.kind) {
                return Err(StartFailure::Sync(super::runtime_failed("start a container", &error)));
            }
            // Each attempt has another container id; without it the attempts are counted as one event.
            self.record_error(&spec.name, &error.message.replace(id.as_str(), &spec.name));
            return Err(problem("RunContainerError", error.message));
        }
        self.record_event(&spec.name, EventType::Normal, "Started", "Container started");
        let log = PodPaths::new(&self.deps.settings).log_dir(self.pod).join(&spec.log_path);
        let link = PodPaths::log_link_name(self.pod, &spec.name, id);
        if let Err(error) = self.deps.logs.link_container_log(&link, &log).await {
            tracing::warn!(pod = %self.pod.full_name, container = %spec.name, %error, source = %error.source, "failed to link container log");
        }
        Ok(())
    }

    /// The restart count from the runtime, or from the log files when the runtime no longer has the container.
    async fn restart_count(&self, start: &StartContainer) -> u32 {
        if let Some(count) = start.restart_count {
            return count;
        }
        let logs = &self.deps.logs;
        let highest = logs.highest_log_number(&log_folder(self.pod), &start.name).await;
        // A wrong count is better than a pod that does not start.
        let highest = highest.unwrap_or_else(|error| {
            tracing::warn!(pod = %self.pod.full_name, container = %start.name, %error, source = %error.source, "failed to read logs, counting restarts from 0");
            None
        });
        highest.map_or(0, |number| number.saturating_add(1))
    }

    async fn container_spec(
        &self,
        container: ContainerRef<'_>,
        restart_count: u32,
        image: &ReadyImage,
        prerequisites: &StartPrerequisites<'_>,
    ) -> Result<ContainerSpec, StartFailure> {
        let file_error = |error: FileError| StartFailure::Sync(sync_failed(error.text()));
        let name = &container.container.name;
        let sandbox = &prerequisites.sandbox.spec;
        let volumes = self.resolve_image_volumes(container.container, prerequisites.volumes, sandbox).await?;
        self.deps.logs.make_log_folder(&log_folder(self.pod), name).await.map_err(file_error)?;
        let ips = &prerequisites.sandbox.ips;
        let hosts = if needs_hosts_mount(self.pod, container.container, ips) {
            let content = self.hosts_content(ips)?;
            let relative = PodPaths::hosts_file_relative();
            let written =
                self.deps.folders.write_pod_file(&self.pod.uid, &relative, content.as_bytes(), 0o644);
            Some(written.await.map_err(file_error)?)
        } else {
            None
        };
        let termination_log =
            self.termination_log(container.container, restart_count).await.map_err(file_error)?;
        let config_error = |message: String| self.config_error(name, message);
        let sources = self.environment_sources(container.container, prerequisites.volumes).await;
        let sources = sources.map_err(config_error)?;
        let inputs = ContainerInputs {
            pod: self.pod,
            container,
            restart_count,
            image: &image.status,
            image_ref: &image.reference,
            pod_ips: ips,
            settings: &self.deps.settings,
            volumes: &volumes,
            recursive_read_only: self.recursive_read_only(&sandbox.runtime_handler),
            sources: &sources,
            hosts_file: hosts.as_deref(),
            termination_log: termination_log.as_deref(),
            target: self.target(name)?,
            volume_groups: &self.volume_groups(),
        };
        let mut spec = container_spec(&inputs).map_err(config_error)?;
        spec.cdi_devices = self.cdi_ids(container.container).map_err(config_error)?;
        let devices = self.deps.allocations.managed().devices();
        let options = devices.prepare_container(self.pod, container.container).await;
        options.map_err(config_error)?.apply(&mut spec);
        devices.flush().await.map_err(file_error)?;
        let cpus = self.deps.allocations.cpus();
        // A kill of the agent must not give the container's CPUs to another one.
        cpus.flush().await.map_err(file_error)?;
        spec.resources.cpuset_cpus = cpus.effective(&self.pod.uid, name).to_string();
        let memory = self.deps.allocations.managed().memory();
        memory.flush().await.map_err(file_error)?;
        if let Some(nodes) = memory.nodes(&self.pod.uid, name) {
            // A list without ranges, as upstream sends it.
            spec.resources.cpuset_mems =
                nodes.nodes().map(|node| node.to_string()).collect::<Vec<_>>().join(",");
        }
        Ok(spec)
    }

    fn hosts_content(&self, ips: &[String]) -> Result<String, StartFailure> {
        let (hostname, domain) = hostname_and_domain(self.pod, &self.deps.settings)
            .map_err(|message| problem("CreateContainerConfigError", message))?;
        let host_file = if self.pod.is_host_network() {
            let text = self.deps.host.hosts_file();
            Some(text.map_err(|error| {
                StartFailure::Sync(sync_failed(format!("read the node's hosts file: {error}")))
            })?)
        } else {
            None
        };
        Ok(hosts_file(self.pod, ips, &hostname, &domain, host_file.as_deref()))
    }

    /// Creates the file for the termination message, one per start.
    async fn termination_log(
        &self,
        container: &Container,
        restart_count: u32,
    ) -> Result<Option<PathBuf>, FileError> {
        if container.termination_message_path.as_deref().unwrap_or_default().is_empty() {
            return Ok(None);
        }
        let mut hash = Fnv32a::new();
        hash.write(self.pod.uid.as_str().as_bytes());
        hash.write(container.name.as_bytes());
        hash.write(&restart_count.to_le_bytes());
        let relative =
            PodPaths::container_dir_relative(&container.name).join(format!("{:08x}", hash.finish()));
        let folders = &self.deps.folders;
        // Each start has a separate file, so that the message of an earlier attempt is not read.
        folders.write_pod_file(&self.pod.uid, &relative, b"", 0o666).await.map(Some)
    }

    pub(super) fn record_event(&self, container: &str, kind: EventType, reason: &str, message: &str) {
        self.runtime.event(self.pod, Some(container), kind, reason, message);
    }

    pub(super) fn record_error(&self, container: &str, message: &str) {
        self.record_event(container, EventType::Warning, "Failed", &format!("Error: {message}"));
    }

    /// Records that a container cannot be created as configured.
    pub(super) fn config_error(&self, container: &str, message: String) -> StartFailure {
        self.record_error(container, &message);
        problem("CreateContainerConfigError", message)
    }
}

/// Whether a failure is caused by the runtime's state and not by the container.
fn is_transient(kind: RuntimeErrorKind) -> bool {
    matches!(kind, RuntimeErrorKind::Unavailable | RuntimeErrorKind::Busy)
}

fn problem(reason: &str, message: String) -> StartFailure {
    StartFailure::Failed(ContainerProblem { reason: reason.to_owned(), message })
}
