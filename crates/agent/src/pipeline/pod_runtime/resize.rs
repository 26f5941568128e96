use std::sync::Arc;

use decide::cgroups::cgroup_limits::pod_cgroup_limits;
use decide::pipeline::pod_actions::{PodActions, SandboxPlan};
use decide::pod_resources::allocation::{
    ConditionUpdate, clear_in_progress, completed_message, error_message, has_resizable_resources,
    resources_of, restarts_for, set_in_progress, set_in_progress_error,
};
use decide::pod_resources::resize::{
    ContainerResize, ContainerSizes, ResizableResource, ResizePlan, add_restarts, container_sizes,
    effective_resources, is_in_progress, matches_reported, plan, pod_cgroup_steps, resized_container,
    sandbox_totals, shrinking_memory_limits, undo_rounding,
};
use decide::pod_resources::resources::{container_resources, overhead_resources};
use decide::runtime_spec::pod_paths::pod_cgroup;
use k8s_openapi::api::core::v1::Container;
use model::{
    CgroupLimits, ContainerState, EventType, HugepageLimits, PodGates, PodResources, SandboxId, SyncFailure,
    Timestamp,
};
use ports::runtime::RuntimeErrorKind;

use super::sync::{ActionMark, PodSync};
use super::sync_failed;

pub(super) struct Resize {
    plan: ResizePlan,
    sandbox: SandboxId,
    path: String,
    cgroup: CgroupLimits,
    desired: CgroupLimits,
}

/// A resize that was started, or the message of its failure.
pub(super) type StartedResize = Option<Result<Resize, String>>;

impl PodSync<'_> {
    /// Plans a resize and grows the pod's cgroup for it. Adds containers that must restart to the actions.
    pub(super) async fn start_resize(&self, actions: &mut PodActions) -> StartedResize {
        let mut resize = self.plan_resize(actions).await?;
        Some(self.grow_pod(&mut resize).await.map(|()| resize))
    }

    /// Finishes a resize after all other actions. Returns when the pod must be synced again, to detect the completion.
    pub(super) async fn end_resize(&self, started: StartedResize) -> Result<Option<Timestamp>, SyncFailure> {
        let Some(started) = started else { return Ok(None) };
        let _mark = ActionMark(self);
        let finished = match started {
            Ok(mut resize) => self.finish_resize(&mut resize).await,
            Err(message) => Err(message),
        };
        finished.map_err(|message| self.resize_failed(&message))?;
        Ok(Some(self.deps.clock.now()))
    }

    /// Saves the resources of a container before it is created with them.
    pub(super) async fn save_actuated_resources(&self, name: &str) -> Result<(), SyncFailure> {
        let allocations = &self.deps.allocations;
        if let Some(entry) = self.pod.container(name) {
            let resources = effective_resources(self.pod, entry.container);
            allocations.set_actuated_container(&self.pod.uid, name, resources);
        }
        allocations.flush_actuated(&self.pod.uid).await.map_err(|error| sync_failed(error.text()))
    }

    /// Plans a resize. Adds containers that must restart for it to the actions.
    async fn plan_resize(&self, actions: &mut PodActions) -> Option<Resize> {
        // Also without resources: upstream, which may be the next agent of this node, misses a record of any container.
        let actuated = self.adopt_actuated();
        if !has_resizable_resources(&resources_of(self.pod)) && !has_resizable_resources(&actuated) {
            return None;
        }
        self.update_progress(&actuated);
        let SandboxPlan::Keep(sandbox) = &actions.sandbox else { return None };
        if actions.stop_everything {
            return None;
        }
        let (path, cgroup, desired) = self.pod_limits().await?;
        let plan = plan(self.pod, self.observed, &actuated, (&cgroup, &desired), self.gates());
        if plan.is_empty() {
            return None;
        }
        let sandbox = sandbox.clone();
        add_restarts(&plan, self.observed, actions);
        Some(Resize { plan, sandbox, path, cgroup, desired })
    }

    /// Grows the pod's cgroup for containers that start or grow. Changes nothing if a memory limit would fall below the
    /// current usage; with restarts this is checked later, because a restarted container frees its memory first.
    async fn grow_pod(&self, resize: &mut Resize) -> Result<(), String> {
        if resize.plan.restart.is_empty() {
            self.check_memory(resize).await?;
        }
        for resource in [ResizableResource::Memory, ResizableResource::Cpu] {
            for limits in pod_cgroup_steps(resource, &resize.cgroup, &resize.desired).before {
                self.set_pod_limits(resize, resource, limits).await?;
            }
        }
        Ok(())
    }

    /// Resizes the containers, then shrinks the pod's cgroup.
    async fn finish_resize(&self, resize: &mut Resize) -> Result<(), String> {
        if !resize.plan.restart.is_empty() {
            self.check_memory(resize).await?;
        }
        for resource in [ResizableResource::Memory, ResizableResource::Cpu] {
            let mut done = Vec::new();
            for update in resize.plan.updates(resource) {
                self.update_container(update, resource).await?;
                done.push(update.clone());
            }
            // The CPU updates follow, with the memory values that are now actuated.
            if resource == ResizableResource::Memory {
                for update in done {
                    let later = resize.plan.cpu.iter_mut().filter(|one| one.id == update.id);
                    later.for_each(|one| {
                        one.current.memory_limit = update.desired.memory_limit;
                        one.current.memory_request = update.desired.memory_request;
                    });
                }
            }
            for limits in pod_cgroup_steps(resource, &resize.cgroup, &resize.desired).after {
                self.set_pod_limits(resize, resource, limits).await?;
            }
        }
        let allocations = &self.deps.allocations;
        allocations.set_actuated_pod(&self.pod.uid, self.pod.spec.resources.as_ref());
        allocations.flush_actuated(&self.pod.uid).await.map_err(|error| error.text())
    }

    /// Records a failed resize; the sync is retried.
    fn resize_failed(&self, message: &str) -> SyncFailure {
        let generation = self.pod.metadata.generation.unwrap_or(0);
        let now = self.deps.clock.now();
        let (update, generation) = self.deps.allocations.change(&self.pod.uid, |allocation| {
            let update = set_in_progress_error(allocation, message.to_owned(), generation, now);
            (update, allocation.in_progress.as_ref().map_or(generation, |condition| condition.generation))
        });
        if update == ConditionUpdate::Changed {
            self.warn("ResizeError", &error_message(self.pod, generation, message));
        }
        sync_failed(format!("in-place resize: {message}"))
    }

    fn gates(&self) -> PodGates {
        self.deps.settings.gates
    }

    fn actuated(&self) -> Option<PodResources> {
        self.deps.allocations.actuated(&self.pod.uid)
    }

    /// The actuated resources. For a running container without a record the resources that the runtime reports are
    /// compared; if it reports none, a container that has none or would have to restart is assumed to be up to date.
    fn adopt_actuated(&self) -> PodResources {
        let mut actuated = self.actuated().unwrap_or_default();
        for entry in self.pod.containers() {
            let container = entry.container;
            let running =
                self.observed.container(&container.name).filter(|one| one.state == ContainerState::Running);
            let (Some(status), false) = (running, actuated.containers.get(&container.name).is_some()) else {
                continue;
            };
            let desired = container_resources(self.pod, container, &self.deps.settings);
            let fits = match &status.resources {
                Some(reported) => matches_reported(reported, &desired),
                None => {
                    let sizes =
                        container_sizes(self.pod.spec.resources.as_ref(), container.resources.as_ref());
                    let restarts = restarts_for(container, "cpu") || restarts_for(container, "memory");
                    restarts || sizes == ContainerSizes::default()
                }
            };
            if fits {
                let resources = effective_resources(self.pod, container);
                self.deps.allocations.set_actuated_container(
                    &self.pod.uid,
                    &container.name,
                    resources.clone(),
                );
                actuated.containers.insert(&container.name, Arc::new(resources));
            }
        }
        actuated
    }

    fn update_progress(&self, actuated: &PodResources) {
        let generation = self.pod.metadata.generation.unwrap_or(0);
        if is_in_progress(self.pod, self.observed, actuated, self.gates()) {
            let now = self.deps.clock.now();
            self.deps
                .allocations
                .change(&self.pod.uid, |allocation| set_in_progress(allocation, generation, now));
        } else if let Some(generation) = self.deps.allocations.change(&self.pod.uid, clear_in_progress) {
            let message = completed_message(self.pod, generation);
            self.runtime.event(self.pod, None, EventType::Normal, "ResizeCompleted", &message);
        }
    }

    /// The path of the pod's cgroup, its current limits and the desired ones; `None` when they cannot be read.
    async fn pod_limits(&self) -> Option<(String, CgroupLimits, CgroupLimits)> {
        let path = pod_cgroup(self.pod, &self.deps.settings);
        if path.is_empty() {
            return Some((path, CgroupLimits::default(), CgroupLimits::default()));
        }
        let version = self.deps.settings.capabilities.cgroup_version;
        let limits = pod_cgroup_limits(self.pod, &self.deps.settings);
        let desired = CgroupLimits { hugepages: HugepageLimits::Unchanged, ..limits };
        match self.deps.cgroups.limits(&path).await {
            Ok(cgroup) => {
                let driver = self.deps.settings.cgroup_driver;
                Some((path, undo_rounding(cgroup, &desired, driver, version), desired))
            }
            Err(error) => {
                tracing::warn!(pod = %self.pod.full_name, %error, source = %error.source, "failed to read the pod's cgroup limits, skipping the resize");
                None
            }
        }
    }

    /// Fails if a memory limit would fall below the current usage.
    async fn check_memory(&self, resize: &Resize) -> Result<(), String> {
        let cgroups = &self.deps.cgroups;
        let mut problems = Vec::new();
        for (update, limit) in shrinking_memory_limits(&resize.plan, &resize.cgroup, &resize.desired) {
            let (subject, path) = match update {
                None => ("pod".to_owned(), Some(resize.path.clone())),
                Some(update) => {
                    (format!("container {:?}", update.name), self.container_path(resize, update).await)
                }
            };
            let usage = match &path {
                Some(path) => cgroups.memory_usage(path).await.ok(),
                None => None,
            };
            match usage {
                None => problems.push(format!("missing {subject} memory usage")),
                Some(usage) if usage >= limit.unsigned_abs() => problems.push(format!(
                    "attempting to set {subject} memory limit ({limit}) below current usage ({usage})"
                )),
                Some(_) => {}
            }
        }
        match problems.as_slice() {
            [] => Ok(()),
            [only] => Err(format!("cannot decrease memory limits: {only}")),
            several => Err(format!("cannot decrease memory limits: [{}]", several.join(", "))),
        }
    }

    /// Finds a container's cgroup by its id: runtimes add a prefix or a suffix to the name.
    async fn container_path(&self, resize: &Resize, update: &ContainerResize) -> Option<String> {
        let children = self.deps.cgroups.children(&resize.path).await.ok()?;
        let name = children.into_iter().find(|name| name.contains(update.id.as_str()))?;
        Some(format!("{}/{name}", resize.path))
    }

    async fn update_container(
        &self,
        update: &ContainerResize,
        resource: ResizableResource,
    ) -> Result<(), String> {
        let Some(container) = self.pod.container(&update.name) else { return Ok(()) };
        let changed: Container = resized_container(container.container, update, resource);
        let resources = container_resources(self.pod, &changed, &self.deps.settings);
        self.deps
            .runtime
            .update_resources(&update.id, &resources)
            .await
            .map_err(|error| error.to_string())?;
        let resources = effective_resources(self.pod, &changed);
        self.deps.allocations.set_actuated_container(&self.pod.uid, &update.name, resources);
        self.deps.allocations.flush_actuated(&self.pod.uid).await.map_err(|error| error.text())
    }

    /// Notifies the runtime, which may reject the change, then sets the limits of the pod's cgroup.
    async fn set_pod_limits(
        &self,
        resize: &mut Resize,
        resource: ResizableResource,
        limits: CgroupLimits,
    ) -> Result<(), String> {
        let next = CgroupLimits {
            cpu_shares: limits.cpu_shares.or(resize.cgroup.cpu_shares),
            cpu_quota: limits.cpu_quota.or(resize.cgroup.cpu_quota),
            cpu_period: limits.cpu_period.or(resize.cgroup.cpu_period),
            memory: limits.memory.or(resize.cgroup.memory),
            ..CgroupLimits::default()
        };
        self.notify_runtime(&resize.sandbox, &next).await.map_err(|error| {
            let resource = resource.as_str();
            format!(
                "failed to notify runtime for UpdatePodSandboxResources (resource={resource}); resize rejected: {error}"
            )
        })?;
        if let Err(error) = self.deps.cgroups.set(&resize.path, &limits).await {
            if let Err(error) = self.notify_runtime(&resize.sandbox, &resize.cgroup).await {
                tracing::warn!(pod = %self.pod.full_name, error, "failed to notify the runtime of a reverted resize");
            }
            return Err(error.text());
        }
        resize.cgroup = next;
        Ok(())
    }

    async fn notify_runtime(&self, sandbox: &SandboxId, limits: &CgroupLimits) -> Result<(), String> {
        let overhead = overhead_resources(self.pod, &self.deps.settings);
        let totals = sandbox_totals(limits, self.pod, &self.deps.settings);
        match self.deps.runtime.update_sandbox_resources(sandbox, &overhead, &totals).await {
            Ok(()) => Ok(()),
            // containerd 2.2 returns another error code with this text.
            Err(error)
                if error.kind == RuntimeErrorKind::Unimplemented
                    || error.message.contains("not implemented") =>
            {
                Ok(())
            }
            Err(error) => {
                Err(format!("updatePodSandboxResources failed for sanboxID {:?}: {error}", sandbox.as_str()))
            }
        }
    }
}
