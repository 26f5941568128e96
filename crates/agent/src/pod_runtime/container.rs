use std::borrow::Cow;
use std::path::PathBuf;

use decide::backoff::{self, Verdict};
use decide::container_spec::{ContainerInputs, container_spec};
use decide::grace::container_grace;
use decide::hosts_file::{hostname_and_domain, hosts_file, needs_hosts_mount};
use decide::pod_actions::{PodActions, StartContainer, is_half_made, restart_count};
use decide::pod_paths::{PodPaths, log_folder};
use k8s_openapi::api::core::v1::Container;
use model::{
    ContainerId, ContainerProblem, ContainerRef, ContainerSpec, ContainerState, EventType, PlannedVolume,
    SandboxSpec, StartStep, SyncFailure, Timestamp,
};
use ports::pod_syncer::Interruption;
use ports::runtime::RuntimeErrorKind;

use super::hooks::HookSubject;
use super::memory::CrashKey;
use super::plain;
use super::stop::Stopping;
use super::sync::{Pass, ReadySandbox, Waiting};
use crate::images::{ImageProblem, ReadyImage};

/// What a container needs before it can be made.
pub(super) struct Preparation<'a> {
    pub(super) sandbox: &'a ReadySandbox,
    pub(super) volumes: &'a [PlannedVolume],
    pub(super) image: Result<ReadyImage, ImageProblem>,
    pub(super) interruption: &'a dyn Interruption,
}

/// Why a container was not started.
pub(super) enum StartFailure {
    /// It waits for a back-off.
    Later { problem: ContainerProblem, retry_at: Timestamp },
    /// It failed.
    Failed(ContainerProblem),
    /// The whole pass must be tried again.
    Pass(SyncFailure),
}

impl Pass<'_> {
    /// Containers whose crash back-off is over, and those that wait.
    pub(super) fn split_by_back_off(&self, actions: &PodActions) -> (Vec<StartContainer>, Waiting) {
        let mut due = Vec::new();
        let mut waiting = Waiting::default();
        for start in &actions.start {
            match self.back_off(start) {
                None => due.push(start.clone()),
                Some((problem, until)) => waiting.add(start.name.clone(), problem, until),
            }
        }
        (due, waiting)
    }

    fn back_off(&self, start: &StartContainer) -> Option<(ContainerProblem, Timestamp)> {
        match self.crash_verdict(start)? {
            (_, Verdict::Go { .. }) => None,
            (_, Verdict::Wait { delay, until }) => {
                let pod = self.pod;
                let message = backoff::crash_message(pod, &start.name, delay);
                self.runtime.event(
                    pod,
                    Some(&start.name),
                    EventType::Warning,
                    "BackOff",
                    format!(
                        "Back-off restarting failed container {} in pod {}_{}({})",
                        start.name,
                        pod.name(),
                        pod.namespace(),
                        pod.uid
                    ),
                );
                Some((ContainerProblem { reason: "CrashLoopBackOff".to_owned(), message }, until))
            }
        }
    }

    /// What the crash history says about starting a container; `None` if it has none.
    pub(super) fn crash_verdict(&self, start: &StartContainer) -> Option<(CrashKey, Verdict)> {
        let parts = &self.runtime.parts;
        let container = self.pod.container(&start.name)?.container;
        let ended = self
            .observed
            .containers_named(&start.name)
            .find(|status| status.state == ContainerState::Exited && !is_half_made(status))?;
        let key = CrashKey {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            resources: serde_json::to_string(&container.resources).unwrap_or_default(),
        };
        let watched_by_another = ended.finished_at < parts.started_at;
        let entry = self.runtime.memory.crash(&self.pod.uid, &key).or_else(|| {
            let adopt = || {
                let restarts = restart_count(ended);
                backoff::adopted(restarts, ended.started_at, ended.finished_at, parts.crash_limits)
            };
            watched_by_another.then(adopt).flatten()
        });
        Some((key, backoff::decide(entry, ended.finished_at, parts.clock.now(), parts.crash_limits)))
    }

    /// The image of a container to be started.
    pub(super) async fn ensure_image(
        &self,
        start: &StartContainer,
        sandbox: &SandboxSpec,
    ) -> Result<ReadyImage, ImageProblem> {
        let Some(container) = self.pod.container(&start.name) else {
            return Err(ImageProblem::failed("InvalidImageName", "no such container".to_owned()));
        };
        let parts = &self.runtime.parts;
        let step = parts.timelines.begin(&self.pod.uid, StartStep::Image, Some(&start.name));
        let ensured = parts.images.ensure(self.pod, container, sandbox).await;
        step.ended(&ensured);
        ensured
    }

    /// Makes and starts one container.
    pub(super) async fn start_container(
        &self,
        start: &StartContainer,
        prepared: &Preparation<'_>,
    ) -> Result<(), StartFailure> {
        let Some(container) = self.pod.container(&start.name) else {
            return Err(StartFailure::Pass(plain(format!("the pod has no container {}", start.name))));
        };
        let image = prepared.image.as_ref().map_err(|problem| match problem.retry_at {
            Some(retry_at) => StartFailure::Later { problem: problem.problem.clone(), retry_at },
            None => StartFailure::Failed(problem.problem.clone()),
        })?;
        if let Some((key, Verdict::Go { next })) = self.crash_verdict(start) {
            self.runtime.memory.crashed(&self.pod.uid, key, next);
        }
        let restart_count = self.restart_count(start).await;
        let spec = self.container_spec(container, restart_count, image, prepared).await?;
        self.bind_sub_paths(&spec).await?;
        let (timelines, uid) = (&self.runtime.parts.timelines, &self.pod.uid);
        let step = timelines.begin(uid, StartStep::Create, Some(&start.name));
        let id = self.create(&spec, prepared.sandbox).await?;
        step.succeeded();
        let step = timelines.begin(uid, StartStep::Start, Some(&start.name));
        self.run(&id, &spec).await?;
        step.succeeded();
        self.run_post_start(container.container, &id, prepared).await
    }

    /// Runs the hook after a start; the next container waits for it. A container whose hook failed is stopped.
    async fn run_post_start(
        &self,
        container: &Container,
        id: &ContainerId,
        prepared: &Preparation<'_>,
    ) -> Result<(), StartFailure> {
        let lifecycle = container.lifecycle.as_ref();
        let Some(handler) = lifecycle.and_then(|lifecycle| lifecycle.post_start.as_ref()) else {
            return Ok(());
        };
        // The container runs already and is shown so.
        self.runtime.parts.observer.hint(&self.pod.uid);
        let ips = &prepared.sandbox.ips;
        let subject = HookSubject { pod: Some(self.pod), container, id, ips };
        let message = tokio::select! {
            done = self.runtime.run_hook(subject, handler) => match done {
                Ok(()) => return Ok(()),
                Err(message) => message,
            },
            // A pod that must stop does not wait for it.
            () = prepared.interruption.requested() => return Err(StartFailure::Pass(SyncFailure::Interrupted)),
        };
        // The message may hold secrets of the server that answered.
        self.tell(
            &container.name,
            EventType::Warning,
            "FailedPostStartHook",
            "PostStartHook failed".to_owned(),
        );
        let stopping = Stopping {
            pod: Some(self.pod),
            container: Cow::Borrowed(container),
            id,
            ips,
            message: "FailedPostStartHook".to_owned(),
            grace: container_grace(self.pod, container, None),
        };
        if let Err(error) = self.runtime.stop_container(&stopping, async {}).await {
            tracing::warn!(pod = %self.pod.full_name, container = %container.name, %error, "a container whose hook failed still runs");
        }
        Err(problem("PostStartHookError", message))
    }

    /// The container whose processes an ephemeral container sees.
    fn target(&self, name: &str) -> Result<Option<&ContainerId>, StartFailure> {
        let asked = self.pod.ephemeral.iter().find(|entry| entry.container.name == name);
        let Some(target) = asked.and_then(|entry| entry.target.as_deref()) else { return Ok(None) };
        match self.observed.container(target) {
            Some(status) => Ok(Some(&status.id)),
            None => {
                let message = format!("unable to find target container {target}");
                self.tell(name, EventType::Warning, "Failed", format!("Error: {message}"));
                Err(problem("CreateContainerConfigError", message))
            }
        }
    }

    async fn create(
        &self,
        spec: &ContainerSpec,
        sandbox: &ReadySandbox,
    ) -> Result<ContainerId, StartFailure> {
        self.note_sizes(&spec.name).await.map_err(StartFailure::Pass)?;
        let runtime = &self.runtime.parts.runtime;
        let created = runtime.create_container(&sandbox.id, spec, &sandbox.spec).await;
        self.count_image_volumes(&spec.name, created.is_ok());
        match created {
            Ok(id) => {
                self.tell(&spec.name, EventType::Normal, "Created", "Container created".to_owned());
                Ok(id)
            }
            Err(error) if tried_again_soon(error.kind) => {
                Err(StartFailure::Pass(super::failed("create a container", &error)))
            }
            Err(error) => {
                let message = format!("Error: {}", error.message);
                self.tell(&spec.name, EventType::Warning, "Failed", message);
                Err(problem("CreateContainerError", error.message))
            }
        }
    }

    async fn run(&self, id: &ContainerId, spec: &ContainerSpec) -> Result<(), StartFailure> {
        let parts = &self.runtime.parts;
        if let Err(error) = parts.runtime.start_container(id).await {
            if tried_again_soon(error.kind) {
                return Err(StartFailure::Pass(super::failed("start a container", &error)));
            }
            // Each try has another id; without it the tries are one event that counts.
            let shown = error.message.replace(id.as_str(), &spec.name);
            self.tell(&spec.name, EventType::Warning, "Failed", format!("Error: {shown}"));
            return Err(problem("RunContainerError", error.message));
        }
        self.tell(&spec.name, EventType::Normal, "Started", "Container started".to_owned());
        let log = PodPaths::new(&parts.settings).log_dir(self.pod).join(&spec.log_path);
        let link = PodPaths::log_link_name(self.pod, &spec.name, id);
        if let Err(error) = parts.logs.link_container_log(&link, &log).await {
            tracing::warn!(pod = %self.pod.full_name, container = %spec.name, %error, source = %error.source, "the log is not linked");
        }
        Ok(())
    }

    /// The restart count from the runtime, or from the logs when the runtime has forgotten the container.
    async fn restart_count(&self, start: &StartContainer) -> u32 {
        if let Some(count) = start.restart_count {
            return count;
        }
        let logs = &self.runtime.parts.logs;
        let highest = logs.highest_log_number(&log_folder(self.pod), &start.name).await;
        // A number that begins again is better than a pod that does not start.
        let highest = highest.unwrap_or_else(|error| {
            tracing::warn!(pod = %self.pod.full_name, container = %start.name, %error, source = %error.source, "logs cannot be read; restarts are counted from 0");
            None
        });
        highest.map_or(0, |number| number.saturating_add(1))
    }

    async fn container_spec(
        &self,
        container: ContainerRef<'_>,
        restart_count: u32,
        image: &ReadyImage,
        prepared: &Preparation<'_>,
    ) -> Result<ContainerSpec, StartFailure> {
        let parts = &self.runtime.parts;
        let file_error = |error: ports::pod_folders::FileError| {
            StartFailure::Pass(plain(format!("{error}: {}", error.source)))
        };
        let name = &container.container.name;
        let sandbox = &prepared.sandbox.spec;
        let volumes = self.with_images(container.container, prepared.volumes, sandbox).await?;
        parts.logs.make_log_folder(&log_folder(self.pod), name).await.map_err(file_error)?;
        let ips = &prepared.sandbox.ips;
        let hosts = if needs_hosts_mount(self.pod, container.container, ips) {
            let content = self.hosts_content(ips)?;
            let relative = PodPaths::hosts_file_relative();
            let written = parts.folders.write_pod_file(&self.pod.uid, &relative, content.as_bytes(), 0o644);
            Some(written.await.map_err(file_error)?)
        } else {
            None
        };
        let termination_log =
            self.termination_log(container.container, restart_count).await.map_err(file_error)?;
        let config_error = |message: String| {
            self.tell(name, EventType::Warning, "Failed", format!("Error: {message}"));
            problem("CreateContainerConfigError", message)
        };
        let sources = self.environment_sources(container.container, prepared.volumes).await;
        let sources = sources.map_err(config_error)?;
        let inputs = ContainerInputs {
            pod: self.pod,
            container,
            restart_count,
            image: &image.status,
            image_ref: &image.reference,
            pod_ips: ips,
            settings: &parts.settings,
            volumes: &volumes,
            recursive_read_only: self.recursive_read_only(&sandbox.runtime_handler),
            sources: &sources,
            hosts_file: hosts.as_deref(),
            termination_log: termination_log.as_deref(),
            target: self.target(name)?,
            volume_groups: &self.volume_groups(),
        };
        container_spec(&inputs).map_err(config_error)
    }

    fn hosts_content(&self, ips: &[String]) -> Result<String, StartFailure> {
        let parts = &self.runtime.parts;
        let (hostname, domain) = hostname_and_domain(self.pod, &parts.settings)
            .map_err(|message| problem("CreateContainerConfigError", message))?;
        let host_file =
            if self.pod.is_host_network() {
                let text = parts.host.hosts_file();
                Some(text.map_err(|error| {
                    StartFailure::Pass(plain(format!("read the node's hosts file: {error}")))
                })?)
            } else {
                None
            };
        Ok(hosts_file(self.pod, ips, &hostname, &domain, host_file.as_deref()))
    }

    /// The file that takes the termination message, one per start.
    async fn termination_log(
        &self,
        container: &Container,
        restart_count: u32,
    ) -> Result<Option<PathBuf>, ports::pod_folders::FileError> {
        if container.termination_message_path.as_deref().unwrap_or_default().is_empty() {
            return Ok(None);
        }
        let mut hash: u32 = 0x811c_9dc5;
        for byte in
            self.pod.uid.as_str().bytes().chain(container.name.bytes()).chain(restart_count.to_le_bytes())
        {
            hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
        let relative = PodPaths::container_dir_relative(&container.name).join(format!("{hash:08x}"));
        let folders = &self.runtime.parts.folders;
        // What an earlier try wrote is kept out of the way: each start has a file of its own.
        folders.write_pod_file(&self.pod.uid, &relative, b"", 0o666).await.map(Some)
    }

    pub(super) fn tell(&self, container: &str, kind: EventType, reason: &str, message: String) {
        self.runtime.event(self.pod, Some(container), kind, reason, message);
    }
}

/// Failures that say nothing about the container.
fn tried_again_soon(kind: RuntimeErrorKind) -> bool {
    matches!(kind, RuntimeErrorKind::Unavailable | RuntimeErrorKind::Busy)
}

fn problem(reason: &str, message: String) -> StartFailure {
    StartFailure::Failed(ContainerProblem { reason: reason.to_owned(), message })
}
