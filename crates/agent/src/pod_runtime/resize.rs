use std::sync::Arc;

use decide::allocation::{
    News, clear_in_progress, completed_message, error_message, has_any, resources_of, restarts_for,
    set_in_progress, set_in_progress_error,
};
use decide::cgroup_limits::pod_cgroup_limits;
use decide::pod_actions::{PodActions, SandboxPlan};
use decide::pod_paths::pod_cgroup;
use decide::resize::{
    ContainerUpdate, ResizePlan, Resource, add_restarts, changed_container, in_force, is_in_progress,
    is_reported, plan, pod_steps, rounded_shares, sandbox_sums, shrinking_memory,
};
use decide::resources::{container_resources, overhead_resources};
use k8s_openapi::api::core::v1::Container;
use model::{
    CgroupLimits, ContainerState, EventType, HugepageLimits, PodGates, PodResources, SandboxId, SyncFailure,
    Timestamp,
};
use ports::runtime::RuntimeErrorKind;

use super::plain;
use super::sync::Pass;

/// A resize to be done.
pub(super) struct Resize {
    plan: ResizePlan,
    sandbox: SandboxId,
    path: String,
    cgroup: CgroupLimits,
    wanted: CgroupLimits,
}

/// A resize under way, or why it failed.
pub(super) type Started = Option<Result<Resize, String>>;

impl Pass<'_> {
    /// Plans a resize and makes room for it; containers that have to be restarted are added to the actions.
    pub(super) async fn start_resize(&self, actions: &mut PodActions) -> Started {
        let mut resize = self.plan_resize(actions).await?;
        Some(match self.grow_pod(&mut resize).await {
            Ok(()) => Ok(resize),
            Err(message) => Err(message),
        })
    }

    /// Finishes a resize after everything else was done. Returns when to look again: the next pass sees that it is
    /// over.
    pub(super) async fn end_resize(&self, started: Started) -> Result<Option<Timestamp>, SyncFailure> {
        let Some(started) = started else { return Ok(None) };
        let finished = match started {
            Ok(mut resize) => self.finish_resize(&mut resize).await,
            Err(message) => Err(message),
        };
        let parts = &self.runtime.parts;
        self.runtime.memory.acted(&self.pod.uid, parts.observer.moments().next());
        parts.observer.hint(&self.pod.uid);
        match finished {
            Ok(()) => Ok(Some(parts.clock.now())),
            Err(message) => Err(self.resize_failed(&message)),
        }
    }

    /// Notes what a container is made with, before it is.
    pub(super) async fn note_sizes(&self, name: &str) -> Result<(), SyncFailure> {
        let allocations = &self.runtime.parts.allocations;
        if let Some(entry) = self.pod.container(name) {
            allocations.note_container(&self.pod.uid, name, in_force(self.pod, entry.container));
        }
        allocations.noted(&self.pod.uid).await.map_err(|error| plain(format!("{error}: {}", error.source)))
    }

    /// What is to be resized; containers that have to be restarted for it are added to the actions.
    async fn plan_resize(&self, actions: &mut PodActions) -> Option<Resize> {
        if !has_any(&resources_of(self.pod)) && self.actuated().is_none_or(|own| !has_any(&own)) {
            return None;
        }
        let actuated = self.adopted();
        self.note_progress(&actuated);
        let SandboxPlan::Keep(sandbox) = &actions.sandbox else { return None };
        if actions.stop_everything {
            return None;
        }
        let (path, cgroup, wanted) = self.pod_limits().await?;
        let plan = plan(self.pod, self.observed, &actuated, (&cgroup, &wanted), self.gates());
        if plan.is_empty() {
            return None;
        }
        let sandbox = sandbox.clone();
        add_restarts(&plan, self.observed, actions);
        Some(Resize { plan, sandbox, path, cgroup, wanted })
    }

    /// Makes room for containers that are started or grow. Nothing is touched if memory would have to shrink below
    /// what is used; a container that is restarted frees its own first.
    async fn grow_pod(&self, resize: &mut Resize) -> Result<(), String> {
        if resize.plan.restart.is_empty() {
            self.check_memory(resize).await?;
        }
        for resource in [Resource::Memory, Resource::Cpu] {
            for limits in pod_steps(resource, &resize.cgroup, &resize.wanted).before {
                self.set_pod(resize, resource, limits).await?;
            }
        }
        Ok(())
    }

    /// Changes the containers, then lets the pod shrink.
    async fn finish_resize(&self, resize: &mut Resize) -> Result<(), String> {
        if !resize.plan.restart.is_empty() {
            self.check_memory(resize).await?;
        }
        for resource in [Resource::Memory, Resource::Cpu] {
            let mut done = Vec::new();
            for update in resize.plan.updates(resource) {
                self.update_container(update, resource).await?;
                done.push(update.clone());
            }
            // CPU comes second, with memory as it is by now.
            if resource == Resource::Memory {
                for update in done {
                    let later = resize.plan.cpu.iter_mut().filter(|one| one.id == update.id);
                    later.for_each(|one| {
                        one.current.memory_limit = update.wanted.memory_limit;
                        one.current.memory_request = update.wanted.memory_request;
                    });
                }
            }
            for limits in pod_steps(resource, &resize.cgroup, &resize.wanted).after {
                self.set_pod(resize, resource, limits).await?;
            }
        }
        let allocations = &self.runtime.parts.allocations;
        allocations.note_pod(&self.pod.uid, self.pod.spec.resources.as_ref());
        allocations.noted(&self.pod.uid).await.map_err(|error| format!("{error}: {}", error.source))
    }

    /// Reports a resize that failed; the pass is tried again.
    fn resize_failed(&self, message: &str) -> SyncFailure {
        let parts = &self.runtime.parts;
        let generation = self.pod.metadata.generation.unwrap_or(0);
        let now = parts.clock.now();
        let (news, generation) = parts.allocations.change(&self.pod.uid, |own| {
            let news = set_in_progress_error(own, message.to_owned(), generation, now);
            (news, own.in_progress.as_ref().map_or(generation, |condition| condition.generation))
        });
        if news == News::Yes {
            let text = error_message(self.pod, generation, message);
            self.runtime.event(self.pod, None, EventType::Warning, "ResizeError", text);
        }
        plain(format!("resize in place: {message}"))
    }

    fn gates(&self) -> PodGates {
        self.runtime.parts.settings.gates
    }

    fn actuated(&self) -> Option<PodResources> {
        self.runtime.parts.allocations.actuated(&self.pod.uid)
    }

    /// What is in force. A running container without a note is taken for what the runtime says of it; where the
    /// runtime says nothing, a container that would have to be restarted is left alone.
    fn adopted(&self) -> PodResources {
        let parts = &self.runtime.parts;
        let mut actuated = self.actuated().unwrap_or_default();
        for entry in self.pod.containers() {
            let container = entry.container;
            let running =
                self.observed.container(&container.name).filter(|one| one.state == ContainerState::Running);
            let (Some(status), false) = (running, actuated.containers.get(&container.name).is_some()) else {
                continue;
            };
            let wanted = container_resources(self.pod, container, &parts.settings);
            let fits = match &status.resources {
                Some(reported) => is_reported(reported, &wanted),
                None => restarts_for(container, "cpu") || restarts_for(container, "memory"),
            };
            if fits {
                let own = in_force(self.pod, container);
                parts.allocations.note_container(&self.pod.uid, &container.name, own.clone());
                actuated.containers.insert(&container.name, Arc::new(own));
            }
        }
        actuated
    }

    fn note_progress(&self, actuated: &PodResources) {
        let parts = &self.runtime.parts;
        let generation = self.pod.metadata.generation.unwrap_or(0);
        if is_in_progress(self.pod, self.observed, actuated, self.gates()) {
            let now = parts.clock.now();
            parts.allocations.change(&self.pod.uid, |own| set_in_progress(own, generation, now));
        } else if let Some(generation) = parts.allocations.change(&self.pod.uid, clear_in_progress) {
            let message = completed_message(self.pod, generation);
            self.runtime.event(self.pod, None, EventType::Normal, "ResizeCompleted", message);
        }
    }

    /// The pod's cgroup, its limits now and as they should be; `None` when they cannot be read.
    async fn pod_limits(&self) -> Option<(String, CgroupLimits, CgroupLimits)> {
        let parts = &self.runtime.parts;
        let path = pod_cgroup(self.pod, &parts.settings);
        if path.is_empty() {
            return Some((path, CgroupLimits::default(), CgroupLimits::default()));
        }
        let version = parts.settings.capabilities.cgroup_version;
        let limits = pod_cgroup_limits(self.pod, &parts.settings);
        let wanted = CgroupLimits { hugepages: HugepageLimits::Unchanged, ..limits };
        match parts.cgroups.limits(&path).await {
            Ok(mut cgroup) => {
                // A weight that was only rounded is the wanted one.
                let rounded = wanted.cpu_shares.map(|shares| rounded_shares(shares, version));
                if cgroup.cpu_shares == rounded {
                    cgroup.cpu_shares = wanted.cpu_shares;
                }
                Some((path, cgroup, wanted))
            }
            Err(error) => {
                tracing::warn!(pod = %self.pod.full_name, %error, source = %error.source, "the pod's cgroup cannot be read; it is not resized");
                None
            }
        }
    }

    /// Memory in use cannot be taken away.
    async fn check_memory(&self, resize: &Resize) -> Result<(), String> {
        let cgroups = &self.runtime.parts.cgroups;
        let mut problems = Vec::new();
        for (update, limit) in shrinking_memory(&resize.plan, &resize.cgroup, &resize.wanted) {
            let (what, path) = match update {
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
                None => problems.push(format!("missing {what} memory usage")),
                Some(usage) if usage >= limit.unsigned_abs() => problems.push(format!(
                    "attempting to set {what} memory limit ({limit}) below current usage ({usage})"
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

    /// Runtimes name a container's cgroup after its id, with something before or behind it.
    async fn container_path(&self, resize: &Resize, update: &ContainerUpdate) -> Option<String> {
        let children = self.runtime.parts.cgroups.children(&resize.path).await.ok()?;
        let name = children.into_iter().find(|name| name.contains(update.id.as_str()))?;
        Some(format!("{}/{name}", resize.path))
    }

    async fn update_container(&self, update: &ContainerUpdate, resource: Resource) -> Result<(), String> {
        let parts = &self.runtime.parts;
        let Some(container) = self.pod.container(&update.name) else { return Ok(()) };
        let changed: Container = changed_container(container.container, update, resource);
        let resources = container_resources(self.pod, &changed, &parts.settings);
        parts.runtime.update_resources(&update.id, &resources).await.map_err(|error| error.to_string())?;
        parts.allocations.note_container(&self.pod.uid, &update.name, in_force(self.pod, &changed));
        parts.allocations.noted(&self.pod.uid).await.map_err(|error| format!("{error}: {}", error.source))
    }

    /// Tells the runtime, which may object, then sets the pod's cgroup.
    async fn set_pod(
        &self,
        resize: &mut Resize,
        resource: Resource,
        limits: CgroupLimits,
    ) -> Result<(), String> {
        let next = CgroupLimits {
            cpu_shares: limits.cpu_shares.or(resize.cgroup.cpu_shares),
            cpu_quota: limits.cpu_quota.or(resize.cgroup.cpu_quota),
            cpu_period: limits.cpu_period.or(resize.cgroup.cpu_period),
            memory: limits.memory.or(resize.cgroup.memory),
            ..CgroupLimits::default()
        };
        self.tell_runtime(&resize.sandbox, &next).await.map_err(|error| {
            let resource = resource.as_str();
            format!(
                "failed to notify runtime for UpdatePodSandboxResources (resource={resource}); resize rejected: {error}"
            )
        })?;
        if let Err(error) = self.runtime.parts.cgroups.set(&resize.path, &limits).await {
            if let Err(error) = self.tell_runtime(&resize.sandbox, &resize.cgroup).await {
                tracing::warn!(pod = %self.pod.full_name, error, "the runtime was told of a resize that failed");
            }
            return Err(format!("{error}: {}", error.source));
        }
        resize.cgroup = next;
        Ok(())
    }

    async fn tell_runtime(&self, sandbox: &SandboxId, limits: &CgroupLimits) -> Result<(), String> {
        let parts = &self.runtime.parts;
        let overhead = overhead_resources(self.pod, &parts.settings);
        let sums = sandbox_sums(limits, self.pod, &parts.settings);
        match parts.runtime.update_sandbox_resources(sandbox, &overhead, &sums).await {
            Ok(()) => Ok(()),
            // containerd 2.2 says so in words.
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
