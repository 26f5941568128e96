use std::sync::Arc;

use decide::pipeline::dead_containers::{PodSurplus, surplus};
use decide::pipeline::deadline::{self, deadline, deadline_exceeded};
use decide::pipeline::pod_actions::{
    PodActions, SandboxPlan, StartContainer, is_finished, plan, restart_count,
};
use decide::pipeline::start_limit::start_urgency;
use decide::runtime_spec::pod_paths::PodPaths;
use model::{
    ContainerId, ContainerProblems, EventType, Moment, ObservedPod, PlannedVolume, Pod, PodUid, Replacement,
    SandboxId, SandboxSpec, StartStep, SyncFailure, SyncOutcome, Timestamp,
};
use ports::runtime::RuntimeError;
use timing::Permit;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::container::{StartFailure, StartPrerequisites};
use super::state_cache::CachedPodState;
use super::{PodRuntime, PodRuntimeDeps, runtime_failed, sync_failed};
use crate::images::ImageProblem;

/// One sync of a pod that should run.
pub(super) struct PodSync<'a> {
    pub(super) runtime: &'a PodRuntime,
    pub(super) deps: &'a PodRuntimeDeps,
    pub(super) pod: &'a Arc<Pod>,
    pub(super) observed: &'a ObservedPod,
}

pub(super) struct ReadySandbox {
    pub(super) id: SandboxId,
    pub(super) ips: Vec<String>,
    pub(super) spec: SandboxSpec,
}

/// What a sync starts.
pub(super) struct StartInputs<'a> {
    pub(super) sandbox: &'a SandboxPlan,
    pub(super) due: &'a [StartContainer],
    pub(super) volumes: &'a [PlannedVolume],
    pub(super) permit: &'a Permit,
    pub(super) interrupt: &'a CancellationToken,
}

/// Records the end of all actions on a pod when dropped, so also when the sync returns early.
pub(super) struct ActionMark<'a>(pub(super) &'a PodSync<'a>);

impl Drop for ActionMark<'_> {
    fn drop(&mut self) {
        let PodSync { runtime, deps, pod, .. } = self.0;
        let ended = deps.observer.moments().next();
        runtime.cache.with(&pod.uid, |cached| cached.last_action = ended);
        runtime.end_replacement(&pod.uid, ended);
        deps.observer.hint(&pod.uid);
    }
}

impl PodRuntime {
    pub(super) async fn sync(
        &self,
        pod: &Arc<Pod>,
        interrupt: &CancellationToken,
    ) -> Result<SyncOutcome, SyncFailure> {
        // The sweeper may still remove an earlier instance with the same UID.
        let swept = interrupt.run_until_cancelled(self.deps.sweeping.wait_until_swept(&pod.uid)).await;
        swept.ok_or(SyncFailure::Interrupted)?;
        let observed = self.observe(pod).await?;
        // The observation shows the result of the last sync.
        self.deps.replacements.remove(&pod.uid);
        if interrupt.is_cancelled() {
            return Err(SyncFailure::Interrupted);
        }
        // The allocation must be on disk before it takes effect.
        let pod = &self.deps.allocations.allocated(pod);
        let saved = self.deps.allocations.flush_allocated(&pod.uid).await;
        saved.map_err(|error| sync_failed(error.text()))?;
        let sync = PodSync { runtime: self, deps: &self.deps, pod, observed: &observed };
        if sync.has_lost_cgroup().await {
            return sync.stop_for_lost_cgroup().await.map(DeferredStarts::into_outcome);
        }
        if is_finished(pod, &observed) {
            return Ok(SyncOutcome::Completed);
        }
        let deadline = sync.deadline();
        if deadline.is_some_and(|deadline| deadline <= self.deps.clock.now()) {
            let rejection = deadline_exceeded();
            self.event(pod, None, EventType::Normal, &rejection.reason, &rejection.message);
            return Ok(SyncOutcome::Rejected(rejection));
        }
        let probes = self.deps.probes.get(&pod.uid).unwrap_or_default();
        let mut actions = plan(pod, &observed, &probes);
        let stopped = self.cache.with(&pod.uid, |cached| cached.stopped_sandboxes.clone());
        actions.stop_dead_sandboxes(&observed, &stopped);
        // A pod that must stop does not wait for tokens and certificates. Files are written atomically.
        let refreshed = interrupt.run_until_cancelled(sync.refresh_files()).await;
        refreshed.ok_or(SyncFailure::Interrupted)?;
        sync.refresh_driver_volumes().await;
        let restart_at = sync.restart_for_objects(&mut actions).await;
        let resize_started = Instant::now();
        let resize = sync.start_resize(&mut actions).await;
        let is_resizing = resize.is_some();
        let acted = if actions.is_empty() {
            Ok(DeferredStarts::default())
        } else if actions.reset.is_empty() {
            sync.act(actions, interrupt).await
        } else {
            sync.reset(&actions.reset).await
        };
        // A container that fails to start does not block the resize of the others.
        let resized = match &acted {
            Err(SyncFailure::Interrupted) => Ok(None),
            Ok(_) | Err(_) => sync.end_resize(resize).await,
        };
        if is_resizing {
            self.deps.metrics.resizes.ended(resize_started.elapsed(), resized.is_ok());
        }
        let mut deferred = match acted {
            Err(SyncFailure::Rejected(rejection)) => return Ok(SyncOutcome::Rejected(rejection)),
            acted => acted?,
        };
        let wake_ups = deferred.retry_at.into_iter().chain(deadline).chain(resized?).chain(restart_at);
        deferred.retry_at = wake_ups.chain(sync.next_renewal()).min();
        sync.remove_surplus().await;
        Ok(deferred.into_outcome())
    }

    fn end_replacement(&self, uid: &PodUid, ended: Moment) {
        let rows = &self.deps.replacements;
        let Some(row) = rows.reader().get(uid).filter(|row| row.ended.is_none()) else { return };
        let ended = Some(ended);
        rows.set(uid, Arc::new(Replacement { ended, ..(*row).clone() }));
    }
}

impl PodSync<'_> {
    async fn act(
        &self,
        actions: PodActions,
        interrupt: &CancellationToken,
    ) -> Result<DeferredStarts, SyncFailure> {
        let (due, deferred) = self.split_by_backoff(&actions);
        let creates = matches!(actions.sandbox, SandboxPlan::Create { .. });
        let is_idle = !creates && !actions.stops_or_removes() && due.is_empty();
        if is_idle {
            return Ok(deferred);
        }
        self.check_network()?;
        let mark = ActionMark(self);
        self.publish_replacement(&actions);
        self.stop_obsolete(&actions).await?;
        if interrupt.is_cancelled() {
            return Err(SyncFailure::Interrupted);
        }
        if due.is_empty() && !creates {
            return Ok(deferred);
        }
        // A pod that must stop does not wait for a hanging volume.
        let prepared = interrupt.run_until_cancelled(self.prepare_host()).await;
        let volumes = prepared.ok_or(SyncFailure::Interrupted)??;

        let permit = self.runtime.start_limiter.permit(start_urgency(self.pod));
        let sandbox = &actions.sandbox;
        let start = StartInputs { sandbox, due: &due, volumes: &volumes, permit: &permit, interrupt };
        let done = permit.run(Box::pin(self.start(&start, deferred))).await;
        drop(mark);
        done
    }

    /// Must be called before the containers are stopped: the status must not show their exit.
    fn publish_replacement(&self, actions: &PodActions) {
        let containers = actions.replaced(self.observed);
        if !containers.is_empty() {
            let replacement = Replacement { containers, ended: None };
            self.deps.replacements.set(&self.pod.uid, Arc::new(replacement));
        }
    }

    /// Creates the sandbox, if there is none, and starts the containers that are due.
    async fn start(
        &self,
        start: &StartInputs<'_>,
        mut deferred: DeferredStarts,
    ) -> Result<DeferredStarts, SyncFailure> {
        let StartInputs { sandbox, due, volumes, interrupt, .. } = *start;
        let spec = self.planned_sandbox(sandbox).await?;
        // Images are pulled while the sandbox is created. A pull may take minutes; a pod that must stop does not
        // wait for it.
        let images = futures::future::join_all(due.iter().map(|start| async {
            let image = interrupt.run_until_cancelled(self.ensure_image(start, &spec)).await;
            image.unwrap_or_else(|| Err(ImageProblem::failed("Interrupted", String::new())))
        }));
        // Writes the checkpoint meanwhile. `create_container` waits for it again and reports a failure.
        let flushed = self.deps.allocations.flush_actuated(&self.pod.uid);
        let (sandbox, images, _flushed) =
            futures::future::join3(self.sandbox(start, &spec), images, flushed).await;
        // The claims of the pod are not prepared. As upstream, the next sync tries again.
        let Some(sandbox) = sandbox? else { return Ok(deferred) };
        let mut failures = ContainerProblems::new();
        for (start, image) in due.iter().zip(images) {
            if interrupt.is_cancelled() {
                return Err(SyncFailure::Interrupted);
            }
            let prerequisites = StartPrerequisites { sandbox: &sandbox, volumes, image, interrupt };
            match self.count_container_start(start, self.start_container(start, &prerequisites)).await {
                Ok(()) => {}
                Err(StartFailure::Later { problem, retry_at }) => {
                    deferred.add(start.name.clone(), problem, retry_at);
                }
                Err(StartFailure::Failed(problem)) => {
                    failures.insert(start.name.clone(), problem);
                }
                Err(StartFailure::Sync(failure)) => return Err(failure),
            }
        }
        if failures.is_empty() {
            return Ok(deferred);
        }
        let message =
            failures.iter().map(|(name, p)| format!("container {name}: {}: {}", p.reason, p.message));
        let message = message.collect::<Vec<_>>().join("; ");
        failures.extend(deferred.problems);
        Err(SyncFailure::Failed { message, problems: failures })
    }

    fn check_network(&self) -> Result<(), SyncFailure> {
        let problem = self.deps.health.now().network_problem;
        match problem {
            Some(problem) if !self.pod.is_host_network() => {
                self.warn("NetworkNotReady", &format!("network is not ready: {problem}"));
                Err(SyncFailure::NetworkNotReady(problem))
            }
            Some(_) | None => Ok(()),
        }
    }

    async fn stop_obsolete(&self, actions: &PodActions) -> Result<(), SyncFailure> {
        let runtime = &self.deps.runtime;
        if matches!(actions.sandbox, SandboxPlan::Create { reason, .. } if reason.has_event()) {
            let message = "Pod sandbox changed, it will be killed and re-created.";
            self.runtime.event(self.pod, None, EventType::Normal, "SandboxChanged", message);
        }
        if actions.stop_everything {
            self.runtime.stop_everything(Some(self.pod), self.observed, None).await?;
        }
        let kills =
            actions.kill.iter().map(|kill| self.runtime.kill_container(self.pod, self.observed, kill));
        futures::future::try_join_all(kills).await?;
        for id in &actions.discard {
            runtime
                .remove_container(id)
                .await
                .map_err(|error| runtime_failed("remove a container that never ran", &error))?;
        }
        for id in &actions.purge {
            self.remove_with_log(id)
                .await
                .map_err(|error| runtime_failed("remove an init container of an earlier sandbox", &error))?;
        }
        Ok(())
    }

    /// When `activeDeadlineSeconds` of the pod is exceeded.
    fn deadline(&self) -> Option<Timestamp> {
        let status = self.deps.statuses.status(&self.pod.uid);
        let reported = status.and_then(|status| status.start_time.as_ref().map(Timestamp::from_api_time));
        // A pod without a reported status starts now.
        let reported = reported.or_else(|| Some(self.deps.clock.now()));
        deadline(
            self.pod,
            deadline::PodStartTimes {
                reported,
                observed: self.observed,
                agent_started: self.deps.started_at,
            },
        )
    }

    /// Creates the pod's folders and cgroup and sets up its volumes.
    async fn prepare_host(&self) -> Result<Vec<PlannedVolume>, SyncFailure> {
        let step = self.deps.timelines.begin_step(&self.pod.uid, StartStep::Volumes, None);
        if let Err(error) = self.deps.folders.make_pod_folders(&self.pod.uid).await {
            let message = format!("error making pod data directories: {}", error.text());
            self.warn("Failed", &message);
            return Err(sync_failed(message));
        }
        self.ensure_cgroup().await?;
        let volumes = self.set_up_volumes().await;
        step.finished(&volumes);
        volumes
    }

    /// Removes dead containers and sandboxes beyond the number to keep.
    async fn remove_surplus(&self) {
        let surplus = surplus(self.observed, self.deps.keep_dead);
        if surplus == PodSurplus::default() {
            return;
        }
        let _mark = ActionMark(self);
        for id in surplus.containers {
            if let Err(error) = self.remove_with_log(&id).await {
                tracing::warn!(pod = %self.pod.full_name, container = %id, %error, "failed to remove dead container");
            }
        }
        for id in surplus.sandboxes {
            // A dead sandbox that was not stopped still has a network; runtimes refuse to remove it before it is stopped.
            let stopped = self.deps.runtime.stop_sandbox(&id).await;
            let removed = match stopped {
                Ok(()) => self.deps.runtime.remove_sandbox(&id).await,
                Err(error) => Err(error),
            };
            if let Err(error) = removed {
                tracing::warn!(pod = %self.pod.full_name, sandbox = %id, %error, "failed to remove dead sandbox");
            }
        }
    }

    /// Reads or changes the cached state of the pod.
    pub(super) fn cached<T>(&self, act: impl FnOnce(&mut CachedPodState) -> T) -> T {
        self.runtime.cache.with(&self.pod.uid, act)
    }

    /// Records a warning of the whole pod.
    pub(super) fn warn(&self, reason: &str, message: &str) {
        self.runtime.warn(self.pod, reason, message);
    }

    /// Removes a dead container and its log.
    async fn remove_with_log(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        self.deps.runtime.remove_container(id).await?;
        let Some(status) = self.observed.containers.iter().find(|status| status.id == *id) else {
            return Ok(());
        };
        let link = PodPaths::log_link_name(self.pod, &status.name, id);
        let relative = PodPaths::container_log_relative(&status.name, restart_count(status));
        let log = PodPaths::new(&self.deps.settings).log_dir(self.pod).join(relative);
        if let Err(error) = self.deps.logs.remove_log(&log, &link).await {
            tracing::warn!(pod = %self.pod.full_name, %error, source = %error.source, "failed to remove the log of a removed container");
        }
        Ok(())
    }
}

/// Containers that are not started yet, and when to sync the pod again.
#[derive(Default)]
pub(super) struct DeferredStarts {
    problems: ContainerProblems,
    retry_at: Option<Timestamp>,
}

impl DeferredStarts {
    pub(super) fn add(&mut self, name: String, problem: model::ContainerProblem, retry_at: Timestamp) {
        self.problems.insert(name, problem);
        self.retry_at = Some(self.retry_at.map_or(retry_at, |earlier| earlier.min(retry_at)));
    }

    /// No containers, but the pod must be synced again at `retry_at`.
    pub(super) fn until(retry_at: Timestamp) -> Self {
        Self { retry_at: Some(retry_at), ..Self::default() }
    }

    fn into_outcome(self) -> SyncOutcome {
        SyncOutcome::Running { problems: self.problems, retry_at: self.retry_at }
    }
}
