use std::sync::Arc;

use decide::dead_containers::{Surplus, surplus};
use decide::deadline::{self, deadline, deadline_exceeded};
use decide::pod_actions::{PodActions, SandboxPlan, StartContainer, is_finished, plan, restart_count};
use decide::pod_paths::PodPaths;
use model::{
    ContainerId, ContainerProblems, EventType, ObservedPod, PlannedVolume, Pod, SandboxId, SandboxSpec,
    StartStep, SyncFailure, SyncOutcome, Timestamp,
};
use ports::pod_syncer::Interruption;
use ports::runtime::RuntimeError;
use tokio::time::Instant;

use super::container::{Preparation, StartFailure};
use super::turns::Ticket;
use super::{PodRuntime, failed, plain};
use crate::images::ImageProblem;

/// One pass over a pod that should run.
pub(super) struct Pass<'a> {
    pub(super) runtime: &'a PodRuntime,
    pub(super) pod: &'a Arc<Pod>,
    pub(super) observed: &'a ObservedPod,
}

/// The sandbox containers are started in.
pub(super) struct ReadySandbox {
    pub(super) id: SandboxId,
    pub(super) ips: Vec<String>,
    pub(super) spec: SandboxSpec,
}

/// What a pass is about to start.
pub(super) struct Start<'a> {
    pub(super) sandbox: &'a SandboxPlan,
    pub(super) due: &'a [StartContainer],
    pub(super) volumes: &'a [PlannedVolume],
    pub(super) ticket: &'a Ticket,
    pub(super) interruption: &'a dyn Interruption,
}

/// Marks the end of whatever was done to a pod, also when the pass is left early.
pub(super) struct ActionMark<'a>(pub(super) &'a Pass<'a>);

impl Drop for ActionMark<'_> {
    fn drop(&mut self) {
        let Pass { runtime, pod, .. } = self.0;
        runtime.memory.acted(&pod.uid, runtime.parts.observer.moments().next());
        runtime.parts.observer.hint(&pod.uid);
    }
}

impl PodRuntime {
    pub(super) async fn sync(
        &self,
        pod: &Arc<Pod>,
        interruption: &dyn Interruption,
    ) -> Result<SyncOutcome, SyncFailure> {
        // One that was gone and came back.
        tokio::select! {
            () = self.parts.sweeping.over(&pod.uid) => {}
            () = interruption.requested() => return Err(SyncFailure::Interrupted),
        }
        let observed = self.observe(pod).await?;
        if interruption.is_requested() {
            return Err(SyncFailure::Interrupted);
        }
        // What was granted must outlive this agent before it takes effect.
        let pod = &self.parts.allocations.granted(pod);
        let saved = self.parts.allocations.saved(&pod.uid).await;
        saved.map_err(|error| plain(format!("{error}: {}", error.source)))?;
        let pass = Pass { runtime: self, pod, observed: &observed };
        if pass.has_lost_cgroup().await {
            return pass.stop_for_lost_cgroup().await;
        }
        if is_finished(pod, &observed) {
            return Ok(SyncOutcome { finished: true, ..SyncOutcome::default() });
        }
        let deadline = pass.deadline();
        if deadline.is_some_and(|at| at <= self.parts.clock.now()) {
            let rejection = deadline_exceeded();
            self.event(pod, None, EventType::Normal, &rejection.reason, rejection.message.clone());
            return Ok(SyncOutcome { finished: true, rejection: Some(rejection), ..SyncOutcome::default() });
        }
        let probes = self.parts.probes.get(&pod.uid).unwrap_or_default();
        let mut actions = plan(pod, &observed, &probes);
        actions.stop_dead(&observed, &self.memory.stopped_sandboxes(&pod.uid));
        tokio::select! {
            () = pass.refresh_files() => {}
            // A pod that must stop does not wait for keys and certificates. Files are written whole or not at all.
            () = interruption.requested() => return Err(SyncFailure::Interrupted),
        }
        pass.refresh_driven_volumes().await;
        let restart_at = pass.restart_for_objects(&mut actions).await;
        let begun = Instant::now();
        let resize = pass.start_resize(&mut actions).await;
        let resizes = resize.is_some();
        let acted = if actions.is_empty() {
            Ok(SyncOutcome::default())
        } else if actions.reset.is_empty() {
            pass.act(actions, interruption).await
        } else {
            pass.reset(&actions.reset).await
        };
        // A container that cannot be started does not keep the others from being resized.
        let resized = match &acted {
            Err(SyncFailure::Interrupted) => Ok(None),
            Ok(_) | Err(_) => pass.end_resize(resize).await,
        };
        if resizes {
            self.parts.metrics.resizes.ended(begun.elapsed(), resized.is_ok());
        }
        let mut outcome = match acted {
            Err(SyncFailure::Rejected(rejection)) => {
                return Ok(SyncOutcome {
                    finished: true,
                    rejection: Some(rejection),
                    ..SyncOutcome::default()
                });
            }
            acted => acted?,
        };
        let wake_ups = outcome.retry_at.into_iter().chain(deadline).chain(resized?).chain(restart_at);
        outcome.retry_at = wake_ups.chain(pass.next_renewal()).min();
        pass.remove_surplus().await;
        Ok(outcome)
    }
}

impl Pass<'_> {
    async fn act(
        &self,
        actions: PodActions,
        interruption: &dyn Interruption,
    ) -> Result<SyncOutcome, SyncFailure> {
        let (due, waiting) = self.split_by_back_off(&actions);
        let creates = matches!(actions.sandbox, SandboxPlan::Create { .. });
        let nothing_else = !creates && !actions.removes() && due.is_empty();
        if nothing_else {
            return Ok(waiting.into_outcome());
        }
        self.check_network()?;
        let mark = ActionMark(self);
        self.stop_what_must_go(&actions).await?;
        if interruption.is_requested() {
            return Err(SyncFailure::Interrupted);
        }
        if due.is_empty() && !creates {
            return Ok(waiting.into_outcome());
        }
        let volumes = tokio::select! {
            volumes = self.prepare_host() => volumes?,
            // A pod that must stop does not wait for a volume that hangs.
            () = interruption.requested() => return Err(SyncFailure::Interrupted),
        };

        let ticket = self.runtime.turns.ticket();
        let sandbox = &actions.sandbox;
        let start = Start { sandbox, due: &due, volumes: &volumes, ticket: &ticket, interruption };
        let done = ticket.during(Box::pin(self.start(&start, waiting))).await;
        drop(mark);
        done
    }

    /// Makes the sandbox, if there is none, and the containers that are due.
    async fn start(&self, start: &Start<'_>, mut waiting: Waiting) -> Result<SyncOutcome, SyncFailure> {
        let Start { sandbox, due, volumes, interruption, .. } = *start;
        let spec = self.planned_sandbox(sandbox).await?;
        // Images are fetched while the sandbox is made. A pull may take minutes; a pod that must stop does not
        // wait for it.
        let images = futures::future::join_all(due.iter().map(|start| async {
            tokio::select! {
                image = self.ensure_image(start, &spec) => image,
                () = interruption.requested() => Err(ImageProblem::failed("Interrupted", String::new())),
            }
        }));
        // Written while there is time: the containers wait for it, and tell if it fails.
        let noted = self.runtime.parts.allocations.noted(&self.pod.uid);
        let (sandbox, images, _noted) =
            futures::future::join3(self.sandbox(start, &spec), images, noted).await;
        let sandbox = sandbox?;
        let mut failures = ContainerProblems::new();
        for (start, image) in due.iter().zip(images) {
            if interruption.is_requested() {
                return Err(SyncFailure::Interrupted);
            }
            let prepared = Preparation { sandbox: &sandbox, volumes, image, interruption };
            match self.count_start(start, self.start_container(start, &prepared)).await {
                Ok(()) => {}
                Err(StartFailure::Later { problem, retry_at }) => {
                    waiting.add(start.name.clone(), problem, retry_at);
                }
                Err(StartFailure::Failed(problem)) => {
                    failures.insert(start.name.clone(), problem);
                }
                Err(StartFailure::Pass(failure)) => return Err(failure),
            }
        }
        if failures.is_empty() {
            return Ok(waiting.into_outcome());
        }
        let message =
            failures.iter().map(|(name, p)| format!("container {name}: {}: {}", p.reason, p.message));
        let message = message.collect::<Vec<_>>().join("; ");
        failures.extend(waiting.problems);
        Err(SyncFailure::Failed { message, problems: failures })
    }

    fn check_network(&self) -> Result<(), SyncFailure> {
        let problem = self.runtime.parts.health.now().network_problem;
        match problem {
            Some(problem) if !self.pod.is_host_network() => {
                self.runtime.event(
                    self.pod,
                    None,
                    EventType::Warning,
                    "NetworkNotReady",
                    format!("network is not ready: {problem}"),
                );
                Err(SyncFailure::NetworkNotReady(problem))
            }
            Some(_) | None => Ok(()),
        }
    }

    async fn stop_what_must_go(&self, actions: &PodActions) -> Result<(), SyncFailure> {
        let runtime = &self.runtime.parts.runtime;
        if matches!(actions.sandbox, SandboxPlan::Create { reason, .. } if reason.is_told()) {
            self.runtime.event(
                self.pod,
                None,
                EventType::Normal,
                "SandboxChanged",
                "Pod sandbox changed, it will be killed and re-created.".to_owned(),
            );
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
                .map_err(|error| failed("remove a container that never ran", &error))?;
        }
        for id in &actions.purge {
            self.remove_with_log(id)
                .await
                .map_err(|error| failed("remove an init container of an earlier sandbox", &error))?;
        }
        Ok(())
    }

    /// When the pod's time on the node is over.
    fn deadline(&self) -> Option<Timestamp> {
        let parts = &self.runtime.parts;
        let status = parts.statuses.status(&self.pod.uid);
        let reported = status.and_then(|status| status.start_time.as_ref().map(Timestamp::from_api_time));
        // A pod of which nothing is reported yet starts now.
        let reported = reported.or_else(|| Some(parts.clock.now()));
        deadline(
            self.pod,
            deadline::Start { reported, observed: self.observed, agent_started: parts.started_at },
        )
    }

    /// Folders, cgroup and volumes.
    async fn prepare_host(&self) -> Result<Vec<PlannedVolume>, SyncFailure> {
        let parts = &self.runtime.parts;
        let step = parts.timelines.begin(&self.pod.uid, StartStep::Volumes, None);
        if let Err(error) = parts.folders.make_pod_folders(&self.pod.uid).await {
            let message = format!("error making pod data directories: {error}: {}", error.source);
            self.runtime.event(self.pod, None, EventType::Warning, "Failed", message.clone());
            return Err(plain(message));
        }
        self.ensure_cgroup().await?;
        let volumes = self.set_up_volumes().await;
        step.ended(&volumes);
        volumes
    }

    /// Removes dead containers beyond what is kept.
    async fn remove_surplus(&self) {
        let parts = &self.runtime.parts;
        let surplus = surplus(self.observed, parts.keep_dead);
        if surplus == Surplus::default() {
            return;
        }
        let _mark = ActionMark(self);
        for id in surplus.containers {
            if let Err(error) = self.remove_with_log(&id).await {
                tracing::warn!(pod = %self.pod.full_name, container = %id, %error, "a dead container stays");
            }
        }
        for id in surplus.sandboxes {
            // Perhaps it was only found dead; a runtime removes none that still has a network.
            let stopped = parts.runtime.stop_sandbox(&id).await;
            let removed = match stopped {
                Ok(()) => parts.runtime.remove_sandbox(&id).await,
                Err(error) => Err(error),
            };
            if let Err(error) = removed {
                tracing::warn!(pod = %self.pod.full_name, sandbox = %id, %error, "a dead sandbox stays");
            }
        }
    }
}

impl Pass<'_> {
    /// Removes a dead container and what it wrote.
    async fn remove_with_log(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let parts = &self.runtime.parts;
        parts.runtime.remove_container(id).await?;
        let Some(status) = self.observed.containers.iter().find(|status| status.id == *id) else {
            return Ok(());
        };
        let link = PodPaths::log_link_name(self.pod, &status.name, id);
        let relative = PodPaths::container_log_relative(&status.name, restart_count(status));
        let log = PodPaths::new(&parts.settings).log_dir(self.pod).join(relative);
        if let Err(error) = parts.logs.remove_log(&log, &link).await {
            tracing::warn!(pod = %self.pod.full_name, %error, source = %error.source, "the log of a removed container stays");
        }
        Ok(())
    }
}

/// Containers that are not started now, and when to look again.
#[derive(Default)]
pub(super) struct Waiting {
    problems: ContainerProblems,
    retry_at: Option<Timestamp>,
}

impl Waiting {
    pub(super) fn add(&mut self, name: String, problem: model::ContainerProblem, retry_at: Timestamp) {
        self.problems.insert(name, problem);
        self.retry_at = Some(self.retry_at.map_or(retry_at, |known| known.min(retry_at)));
    }

    fn into_outcome(self) -> SyncOutcome {
        SyncOutcome { problems: self.problems, retry_at: self.retry_at, ..SyncOutcome::default() }
    }
}
