use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use decide::grace::{MINIMUM_CONTAINER_GRACE, container_grace};
use decide::hooks::{Hook, restored_container};
use decide::pod_actions::KillContainer;
use decide::termination::ends_after;
use k8s_openapi::api::core::v1::Container;
use model::{ContainerId, ContainerStatus, EventType, ObservedPod, Pod, SyncFailure};
use ports::runtime::{RuntimeError, RuntimeErrorKind};
use tokio::sync::watch;
use tokio::time::Instant;

use super::hooks::HookSubject;
use super::{PodRuntime, complete, failed, plain};

/// A container to be stopped.
pub(super) struct Stopping<'a> {
    /// Its pod; a pod that only the runtime knows has none, and nobody is told of its end.
    pub(super) pod: Option<&'a Pod>,
    pub(super) container: Cow<'a, Container>,
    pub(super) id: &'a ContainerId,
    /// Addresses of the pod.
    pub(super) ips: &'a [String],
    /// What users are told.
    pub(super) message: String,
    /// Seconds; none means that no hook is run.
    pub(super) grace: u64,
}

impl PodRuntime {
    /// Stops a pod for good and makes sure that nothing of it runs any more.
    pub(super) async fn stop_pod(
        &self,
        pod: Option<&Arc<Pod>>,
        observed: &ObservedPod,
        grace_seconds: u64,
    ) -> Result<(), SyncFailure> {
        let was_alive = observed.is_alive();
        // A sandbox that is dead keeps its network until it is stopped.
        if !was_alive && observed.sandboxes.is_empty() {
            return Ok(());
        }
        let stopped = self.stop_everything(pod, observed, Some(grace_seconds)).await;
        let acted = self.parts.observer.moments().next();
        self.memory.acted(&observed.uid, acted);
        if let (Err(failure), Some(pod)) = (&stopped, pod) {
            let message = format!("error killing pod: {failure}");
            self.event(pod, None, EventType::Warning, "FailedKillPod", message);
        }
        stopped?;
        if !was_alive {
            return Ok(());
        }
        // Runtimes have claimed success while a container went on running.
        let seen = complete(self.parts.observer.after(&observed.uid, &observed.full_name, acted).await)?;
        match seen.running().next() {
            Some(container) => Err(plain(format!(
                "container {} ({}) still runs although the runtime said it was stopped",
                container.name, container.id
            ))),
            None => Ok(()),
        }
    }

    /// Stops all containers, each in its turn, then the sandboxes.
    pub(super) async fn stop_everything(
        &self,
        pod: Option<&Arc<Pod>>,
        observed: &ObservedPod,
        grace: Option<u64>,
    ) -> Result<(), SyncFailure> {
        let pod = pod.map(Arc::as_ref);
        let turns = Turns::new(observed);
        let turns = &turns;
        let containers = observed.running().map(|status| async move {
            let container = spec_of(pod, status);
            let own = pod.map_or(0, |pod| container_grace(pod, &container, None));
            let stopping = Stopping {
                pod,
                container,
                id: &status.id,
                ips: observed.ips(),
                message: format!("Stopping container {}", status.name),
                grace: grace.unwrap_or(own),
            };
            let before = pod.map(|pod| ends_after(pod, &status.name)).unwrap_or_default();
            let stopped = self.stop_container(&stopping, turns.wait(&before)).await;
            if stopped.is_ok() {
                turns.ended(&status.name);
            }
            stopped.map_err(|error| {
                (error.clone(), sync_error("KillContainer", &status.name, &error.grpc_text()))
            })
        });
        let mut failures: Vec<(RuntimeError, String)> =
            futures::future::join_all(containers).await.into_iter().filter_map(Result::err).collect();
        let mut stopped = Vec::new();
        for sandbox in &observed.sandboxes {
            match self.parts.runtime.stop_sandbox(&sandbox.id).await {
                Ok(()) => stopped.push(sandbox.id.clone()),
                Err(error) => {
                    let text = sync_error("KillPodSandbox", observed.uid.as_str(), &error.grpc_text());
                    failures.push((error, text));
                }
            }
        }
        self.memory.stopped(&observed.uid, stopped);
        summary(&failures)
    }

    /// Stops one container while its pod lives on.
    pub(super) async fn kill_container(
        &self,
        pod: &Pod,
        observed: &ObservedPod,
        kill: &KillContainer,
    ) -> Result<(), SyncFailure> {
        let Some(entry) = pod.container(&kill.name) else {
            return Err(plain(format!("the pod has no container {}", kill.name)));
        };
        let stopping = Stopping {
            pod: Some(pod),
            container: Cow::Borrowed(entry.container),
            id: &kill.id,
            ips: observed.ips(),
            message: kill.message(),
            grace: container_grace(pod, entry.container, Some(kill.reason)),
        };
        let stopped = self.stop_container(&stopping, async {}).await;
        stopped.map_err(|error| failed(&format!("stop container {}", kill.name), &error))
    }

    /// Stops one container within its grace: the hook and the wait for its turn are part of it. At the end the
    /// process gets at least two seconds.
    pub(super) async fn stop_container(
        &self,
        stopping: &Stopping<'_>,
        turn: impl Future<Output = ()>,
    ) -> Result<(), RuntimeError> {
        if let Some(pod) = stopping.pod {
            let name = Some(stopping.container.name.as_str());
            self.event(pod, name, EventType::Normal, "Killing", stopping.message.clone());
        }
        let mut left = stopping.grace;
        if left > 0 {
            let begun = Instant::now();
            self.run_pre_stop(stopping).await;
            left = left.saturating_sub(begun.elapsed().as_secs());
        }
        if left > 0 {
            let begun = Instant::now();
            // Past its grace a container does not wait for others.
            let _ = tokio::time::timeout(Duration::from_secs(left), turn).await;
            left = left.saturating_sub(begun.elapsed().as_secs());
        }
        let grace = Duration::from_secs(left).max(MINIMUM_CONTAINER_GRACE);
        self.parts.runtime.stop_container(stopping.id, grace).await
    }

    async fn run_pre_stop(&self, stopping: &Stopping<'_>) {
        let lifecycle = stopping.container.lifecycle.as_ref();
        let Some(handler) = lifecycle.and_then(|lifecycle| lifecycle.pre_stop.as_ref()) else { return };
        let subject = HookSubject {
            pod: stopping.pod,
            container: &stopping.container,
            id: stopping.id,
            ips: stopping.ips,
        };
        let limit = Duration::from_secs(stopping.grace);
        let cause = match tokio::time::timeout(limit, self.run_hook(subject, handler)).await {
            Ok(Ok(())) => return,
            Ok(Err(cause)) => cause,
            // A wait that is too long has not failed; it is merely cut off.
            Err(_) if matches!(Hook::of(handler), Hook::Sleep(_)) => {
                self.parts.metrics.pods.sleeps_cut_short.inc();
                return;
            }
            Err(_) => format!("not done within the grace period of {} s", stopping.grace),
        };
        let name = stopping.container.name.as_str();
        tracing::info!(container = name, id = %stopping.id, %cause, "a preStop hook failed");
        if let Some(pod) = stopping.pod {
            // The cause may hold secrets of the server that answered.
            let message = "PreStopHook failed".to_owned();
            self.event(pod, Some(name), EventType::Warning, "FailedPreStopHook", message);
        }
    }
}

/// What is known of a container's spec: from the pod, or from the runtime's annotations.
fn spec_of<'a>(pod: Option<&'a Pod>, status: &ContainerStatus) -> Cow<'a, Container> {
    match pod.and_then(|pod| pod.container(&status.name)) {
        Some(entry) => Cow::Borrowed(entry.container),
        None => Cow::Owned(restored_container(status)),
    }
}

/// A failed step in the words of the event.
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
    // What is away or busy comes back soon, whatever else failed.
    let any = |kind| failures.iter().any(|(error, _)| error.kind == kind);
    Err(if any(RuntimeErrorKind::Unavailable) {
        SyncFailure::RuntimeUnavailable(text)
    } else if any(RuntimeErrorKind::Busy) {
        SyncFailure::Busy(text)
    } else {
        plain(text)
    })
}

/// Who of the running containers has ended.
struct Turns {
    ended: HashMap<String, watch::Sender<bool>>,
}

impl Turns {
    fn new(observed: &ObservedPod) -> Self {
        let running = observed.running().map(|status| (status.name.clone(), watch::Sender::new(false)));
        Self { ended: running.collect() }
    }

    /// Waits until all of them have ended; what does not run has.
    async fn wait(&self, names: &[&str]) {
        for name in names {
            if let Some(ended) = self.ended.get(*name) {
                // Fails only when the sender is gone, which lives as long as this wait.
                let _ = ended.subscribe().wait_for(|ended| *ended).await;
            }
        }
    }

    fn ended(&self, name: &str) {
        if let Some(ended) = self.ended.get(name) {
            ended.send_replace(true);
        }
    }
}
