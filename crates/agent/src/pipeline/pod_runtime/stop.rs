use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use decide::pipeline::grace::{MIN_CONTAINER_GRACE, container_grace};
use decide::pipeline::hooks::{Hook, container_from_status};
use decide::pipeline::pod_actions::KillContainer;
use decide::pipeline::termination::containers_to_stop_first;
use futures::future::{self, BoxFuture, Either, FutureExt};
use k8s_openapi::api::core::v1::Container;
use model::{ContainerId, ContainerStatus, EventType, ObservedPod, Pod, SyncFailure};
use ports::runtime::RuntimeError;
use tokio::sync::watch;
use tokio::time::Instant;

use super::hooks::HookSubject;
use super::{PodRuntime, complete, runtime_failed, runtime_failure, sync_failed};

/// How long the hook of a stopped container may take to end.
const HOOK_END_TIMEOUT: Duration = Duration::from_secs(1);

/// A container to stop.
pub(super) struct ContainerStop<'a> {
    /// `None` for a container of an orphan, which gets no events.
    pub(super) pod: Option<&'a Pod>,
    pub(super) container: Cow<'a, Container>,
    pub(super) id: &'a ContainerId,
    pub(super) ips: &'a [String],
    pub(super) message: String,
    /// In seconds; 0 means that the `preStop` hook is skipped.
    pub(super) grace: u64,
}

impl PodRuntime {
    /// Stops a pod and verifies that nothing of it runs any more.
    pub(super) async fn stop_pod(
        &self,
        pod: Option<&Arc<Pod>>,
        observed: &ObservedPod,
        grace_seconds: u64,
    ) -> Result<(), SyncFailure> {
        let was_alive = observed.is_alive();
        // A dead sandbox keeps its network until it is stopped.
        if !was_alive && observed.sandboxes.is_empty() {
            return Ok(());
        }
        let stopped = self.stop_everything(pod, observed, Some(grace_seconds)).await;
        let acted = self.deps.observer.moments().next();
        self.cache.with(&observed.uid, |cached| cached.last_action = acted);
        if let (Err(failure), Some(pod)) = (&stopped, pod) {
            self.warn(pod, "FailedKillPod", &format!("error killing pod: {failure}"));
        }
        stopped?;
        if !was_alive {
            return Ok(());
        }
        // Runtimes have reported success while a container was still running.
        let seen = complete(self.deps.observer.after(&observed.uid, &observed.full_name, acted).await)?;
        match seen.running().next() {
            Some(container) => Err(sync_failed(format!(
                "container {} ({}) still runs although the runtime reported it as stopped",
                container.name, container.id
            ))),
            None => Ok(()),
        }
    }

    /// Stops all containers in their termination order, then the sandboxes.
    pub(super) async fn stop_everything(
        &self,
        pod: Option<&Arc<Pod>>,
        observed: &ObservedPod,
        grace: Option<u64>,
    ) -> Result<(), SyncFailure> {
        let pod = pod.map(Arc::as_ref);
        let names: HashSet<String> = observed.running().map(|status| status.name.clone()).collect();
        let running = &watch::Sender::new(names);
        let containers = observed.running().map(|status| async move {
            let container = spec_of(pod, status);
            let default_grace = pod.map_or(0, |pod| container_grace(pod, &container, None));
            let stop = ContainerStop {
                pod,
                container,
                id: &status.id,
                ips: observed.ips(),
                message: format!("Stopping container {}", status.name),
                grace: grace.unwrap_or(default_grace),
            };
            let before = pod.map(|pod| containers_to_stop_first(pod, &status.name)).unwrap_or_default();
            let predecessors = async {
                let stopped = |running: &HashSet<String>| !before.iter().any(|name| running.contains(*name));
                // The sender exists longer than this future, so the wait ends with the predicate.
                let _ = running.subscribe().wait_for(stopped).await;
            };
            let stopped = self.stop_container(&stop, predecessors).await;
            if stopped.is_ok() {
                running.send_if_modified(|running| running.remove(&status.name));
            }
            stopped.map_err(|error| {
                (error.clone(), sync_error("KillContainer", &status.name, &error.grpc_text()))
            })
        });
        let mut failures: Vec<(RuntimeError, String)> =
            futures::future::join_all(containers).await.into_iter().filter_map(Result::err).collect();
        let mut stopped = Vec::new();
        for sandbox in &observed.sandboxes {
            match self.deps.runtime.stop_sandbox(&sandbox.id).await {
                Ok(()) => stopped.push(sandbox.id.clone()),
                Err(error) => {
                    let text = sync_error("KillPodSandbox", observed.uid.as_str(), &error.grpc_text());
                    failures.push((error, text));
                }
            }
        }
        self.cache.with(&observed.uid, |cached| cached.stopped_sandboxes = stopped);
        summary(&failures)
    }

    /// Stops one container of a pod that keeps running.
    pub(super) async fn kill_container(
        &self,
        pod: &Pod,
        observed: &ObservedPod,
        kill: &KillContainer,
    ) -> Result<(), SyncFailure> {
        let Some(entry) = pod.container(&kill.name) else {
            return Err(sync_failed(format!("pod has no container {}", kill.name)));
        };
        let stop = ContainerStop {
            pod: Some(pod),
            container: Cow::Borrowed(entry.container),
            id: &kill.id,
            ips: observed.ips(),
            message: kill.message(),
            grace: container_grace(pod, entry.container, Some(kill.reason)),
        };
        let stopped = self.stop_container(&stop, async {}).await;
        stopped.map_err(|error| runtime_failed(&format!("stop container {}", kill.name), &error))
    }

    /// Stops one container within its grace period, which includes the `preStop` hook and the wait for `predecessors`. The
    /// process always gets at least two seconds. As upstream, a hook that exceeds the grace period is not cancelled: it ends
    /// with its container.
    pub(super) async fn stop_container(
        &self,
        stop: &ContainerStop<'_>,
        predecessors: impl Future<Output = ()>,
    ) -> Result<(), RuntimeError> {
        if let Some(pod) = stop.pod {
            let name = Some(stop.container.name.as_str());
            self.event(pod, name, EventType::Normal, "Killing", &stop.message);
        }
        let mut left = stop.grace;
        let mut unfinished_hook = None;
        if left > 0 {
            let started = Instant::now();
            unfinished_hook = self.run_pre_stop(stop).await;
            left = left.saturating_sub(started.elapsed().as_secs());
        }
        if left > 0 {
            let started = Instant::now();
            // After its grace period a container does not wait for others.
            let _ = tokio::time::timeout(Duration::from_secs(left), predecessors).await;
            left = left.saturating_sub(started.elapsed().as_secs());
        }
        let grace = Duration::from_secs(left).max(MIN_CONTAINER_GRACE);
        let stopping = self.deps.runtime.stop_container(stop.id, grace);
        let Some(hook) = unfinished_hook else { return stopping.await };
        match future::select(stopping, hook).await {
            Either::Left((stopped, hook)) => {
                let _ = tokio::time::timeout(HOOK_END_TIMEOUT, hook).await;
                stopped
            }
            Either::Right(((), stopping)) => stopping.await,
        }
    }

    /// Runs the `preStop` hook. Returns a hook that has not ended within the grace period.
    async fn run_pre_stop<'a>(&'a self, stop: &'a ContainerStop<'_>) -> Option<BoxFuture<'a, ()>> {
        let handler = stop.container.lifecycle.as_ref()?.pre_stop.as_ref()?;
        let subject = HookSubject { pod: stop.pod, container: &stop.container, id: stop.id, ips: stop.ips };
        let mut hook = async move {
            if let Err(cause) = self.run_hook(subject, handler).await {
                self.report_failed_pre_stop(stop, &cause);
            }
        }
        .boxed();
        let limit = Duration::from_secs(stop.grace);
        match tokio::time::timeout(limit, &mut hook).await {
            Ok(()) => None,
            // A sleep that exceeds the grace period is cut short without a failure.
            Err(_) if matches!(Hook::of(handler), Hook::Sleep(_)) => {
                self.deps.metrics.pods.sleeps_cut_short.inc();
                None
            }
            Err(_) => {
                let name = &stop.container.name;
                tracing::info!(container = name, id = %stop.id, "preStop hook exceeds the grace period, stopping its container");
                Some(hook)
            }
        }
    }

    fn report_failed_pre_stop(&self, stop: &ContainerStop<'_>, cause: &str) {
        let name = stop.container.name.as_str();
        tracing::info!(container = name, id = %stop.id, %cause, "preStop hook failed");
        if let Some(pod) = stop.pod {
            // The cause may contain secrets from the server's response.
            self.event(pod, Some(name), EventType::Warning, "FailedPreStopHook", "PreStopHook failed");
        }
    }
}

/// A container's spec from the pod, or as far as it can be restored from the runtime's annotations.
fn spec_of<'a>(pod: Option<&'a Pod>, status: &ContainerStatus) -> Cow<'a, Container> {
    match pod.and_then(|pod| pod.container(&status.name)) {
        Some(entry) => Cow::Borrowed(entry.container),
        None => Cow::Owned(container_from_status(status)),
    }
}

/// The message of a failed step, in upstream's form.
fn sync_error(action: &str, target: &str, message: &str) -> String {
    format!("failed to {action:?} for {target:?} with {action}Error: {message:?}")
}

fn summary(failures: &[(RuntimeError, String)]) -> Result<(), SyncFailure> {
    let texts: Vec<&str> = failures.iter().map(|(_, text)| text.as_str()).collect();
    let text = match texts.as_slice() {
        [] => return Ok(()),
        [only] => (*only).to_owned(),
        several => format!("[{}]", several.join(", ")),
    };
    let kinds: Vec<_> = failures.iter().map(|(error, _)| error.kind).collect();
    Err(runtime_failure(&kinds, text))
}
