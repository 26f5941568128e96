//! Syncs one pod with the runtime: the part of a worker's sync that acts.
//!
//! Each sync observes (with an observation newer than the last action on the pod), decides
//! (`decide::pipeline::pod_actions`) and acts (on the runtime and the host). A sync may be repeated at any time, also
//! after the agent was killed in the middle: it assumes nothing that was not observed.

mod cgroup;
mod cluster_content;
mod container;
mod hooks;
mod projection;
mod reset;
mod resize;
mod resource_claims;
mod sandbox;
mod start_limiter;
mod start_metrics;
mod state_cache;
mod stop;
mod sync;
mod volumes;

use std::sync::Arc;

use decide::pipeline::worker::{Work, WorkResult};
use decide::runtime_spec::pod_paths::pod_cgroup;
use futures::future::BoxFuture;
use model::{
    EventSubject, EventType, NodeSettings, Observation, ObservedPod, Pod, ProbeResults, RecordedEvent,
    Replacement, SyncFailure, Timestamp,
};
use ports::clock::Clock;
use ports::host::env_files::EnvFiles;
use ports::host::host_facts::HostFacts;
use ports::host::pod_cgroups::PodCgroups;
use ports::host::pod_folders::PodFolders;
use ports::host::pod_volumes::PodVolumes;
use ports::outbound::Outbound;
use ports::runtime::{Runtime, RuntimeError, RuntimeErrorKind};
use ports::served::event_recorder::EventRecorder;
use ports::served::objects::Objects;
use ports::served::pod_logs::PodLogs;
use tokio_util::sync::CancellationToken;

use crate::cluster::cluster_content::ClusterContent;
use crate::dynamic_resources::resource_claims::ResourceClaims;
use crate::images::Images;
use crate::metrics::Metrics;
use crate::node::runtime_health::RuntimeHealth;
use crate::pipeline::allocations::Allocations;
use crate::pipeline::cached_status::CachedStatus;
use crate::pipeline::observation::Observer;
use crate::pipeline::tables::{Reader, Writer};
use crate::pipeline::timeline::Timelines;
use crate::pipeline::user_namespaces::UserNamespaces;
use crate::upkeep::sweep_claims::SweepClaims;
use crate::volumes::claims::Claims;
use start_limiter::StartLimiter;
use state_cache::PodStateCache;

pub struct PodRuntimeDeps {
    pub runtime: Arc<dyn Runtime>,
    pub images: Images,
    pub observer: Observer,
    pub health: RuntimeHealth,
    pub folders: Arc<dyn PodFolders>,
    pub objects: Arc<dyn Objects>,
    /// Tokens, certificates, Services and other content of the cluster; `None` on a standalone node.
    pub cluster: Option<ClusterContent>,
    /// Files of `fileKeyRef` environment variables.
    pub env_files: Arc<dyn EnvFiles>,
    pub logs: Arc<dyn PodLogs>,
    pub volumes: Arc<dyn PodVolumes>,
    /// PersistentVolumeClaims and their volumes; `None` without an API server.
    pub claims: Option<Arc<Claims>>,
    /// Claims of dynamic resource allocation; `None` without an API server.
    pub resource_claims: Option<Arc<ResourceClaims>>,
    pub allocations: Allocations,
    pub cgroups: Arc<dyn PodCgroups>,
    pub user_namespaces: UserNamespaces,
    pub host: Arc<dyn HostFacts>,
    pub outbound: Arc<dyn Outbound>,
    pub events: Arc<dyn EventRecorder>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
    pub settings: Arc<NodeSettings>,
    pub crash_backoff: timing::BackoffPolicy,
    /// The number of dead containers to keep per name.
    pub keep_dead: usize,
    /// When this agent started. Crashes before that time are not in the cache.
    pub started_at: Timestamp,
    pub probes: Reader<ProbeResults>,
    pub statuses: Reader<CachedStatus>,
    /// The containers that a running sync replaces.
    pub replacements: Writer<Replacement>,
    pub timelines: Arc<Timelines>,
    pub sweeping: SweepClaims,
}

pub struct PodRuntime {
    deps: PodRuntimeDeps,
    cache: PodStateCache,
    start_limiter: StartLimiter,
}

impl PodRuntime {
    #[must_use]
    pub fn new(deps: PodRuntimeDeps) -> Self {
        let start_limiter = StartLimiter::new(deps.settings.cpu_count);
        Self { deps, cache: PodStateCache::default(), start_limiter }
    }

    /// Runs one piece of a worker's work. Each kind of work is boxed separately, so that small futures stay small.
    pub fn run(self: Arc<Self>, work: Work, interrupt: CancellationToken) -> BoxFuture<'static, WorkResult> {
        match work {
            Work::Sync { pod, .. } => {
                Box::pin(async move { WorkResult::Sync(self.sync(&pod, &interrupt).await) })
            }
            Work::Terminate { pod, grace_seconds } => {
                Box::pin(async move { WorkResult::Terminate(self.terminate(&pod, grace_seconds).await) })
            }
            Work::TerminateOrphan { observed, grace_seconds } => Box::pin(async move {
                WorkResult::Terminate(self.terminate_orphan(&observed, grace_seconds).await)
            }),
            Work::CleanUp { pod } => Box::pin(async move { WorkResult::CleanUp(self.clean_up(&pod).await) }),
        }
    }

    /// Stops the pod within `grace_seconds`. Success means that nothing runs any more, and that drivers have undone what they
    /// prepared: the final status, after which another pod may get the devices, is written later.
    async fn terminate(&self, pod: &Arc<Pod>, grace_seconds: u64) -> Result<(), SyncFailure> {
        let observed = self.observe(pod).await?;
        self.stop_pod(Some(pod), &observed, grace_seconds).await?;
        self.unprepare_claims(pod).await
    }

    /// Stops an orphan: a pod that only the runtime reports.
    async fn terminate_orphan(&self, pod: &ObservedPod, grace_seconds: u64) -> Result<(), SyncFailure> {
        let after = self.cache.with(&pod.uid, |cached| cached.last_action);
        let observed = complete(self.deps.observer.after(&pod.uid, &pod.full_name, after).await)?;
        self.stop_pod(None, &observed, grace_seconds).await?;
        self.cache.remove(&pod.uid);
        Ok(())
    }

    /// Cleans up after a stopped pod: volumes, cgroup, user namespace, allocations and caches.
    async fn clean_up(&self, pod: &Arc<Pod>) -> Result<(), SyncFailure> {
        self.deps.volumes.tear_down(&pod.uid).await.map_err(|error| sync_failed(error.text()))?;
        let cgroup = pod_cgroup(&self.deps.allocations.allocated(pod), &self.deps.settings);
        if self.deps.settings.cgroups_per_qos {
            // Processes that escaped the runtime end with the pod.
            let killed = self.deps.cgroups.kill_processes(&cgroup).await;
            if let Err(error) = killed.and(self.deps.cgroups.remove(&cgroup).await) {
                return Err(sync_failed(error.text()));
            }
        }
        if pod.spec.host_users == Some(false) {
            self.deps.user_namespaces.release(&pod.uid).await;
        }
        self.deps.allocations.remove(&pod.uid);
        self.deps.images.forget(&pod.uid);
        if let Some(cluster) = &self.deps.cluster {
            cluster.tokens.forget(&pod.uid);
            cluster.certificates.iter().for_each(|certificates| certificates.forget(&pod.uid));
        }
        self.cache.remove(&pod.uid);
        self.deps.replacements.remove(&pod.uid);
        Ok(())
    }

    /// An observation of the pod that is newer than this agent's last action on it.
    async fn observe(&self, pod: &Pod) -> Result<Arc<ObservedPod>, SyncFailure> {
        let after = self.cache.with(&pod.uid, |cached| cached.last_action);
        let observed = complete(self.deps.observer.after(&pod.uid, &pod.full_name, after).await);
        if let Err(SyncFailure::Unobservable(reason)) = &observed {
            self.warn(pod, "FailedSync", &format!("error determining status: {reason}"));
        }
        observed
    }

    fn event(&self, pod: &Pod, container: Option<&str>, kind: EventType, reason: &str, message: &str) {
        let entry = container.and_then(|name| pod.container(name));
        let field_path = entry.map(|entry| entry.field_path()).unwrap_or_default();
        self.record(EventSubject::pod(pod, field_path), kind, reason, message);
    }

    /// Records a warning of the whole pod.
    fn warn(&self, pod: &Pod, reason: &str, message: &str) {
        self.event(pod, None, EventType::Warning, reason, message);
    }

    fn record(&self, subject: EventSubject, kind: EventType, reason: &str, message: &str) {
        let now = self.deps.clock.now();
        self.deps.events.record(RecordedEvent::new(subject, kind, reason, message, now));
    }
}

fn complete(observed: Arc<ObservedPod>) -> Result<Arc<ObservedPod>, SyncFailure> {
    match &observed.observation {
        Observation::Complete => Ok(observed),
        Observation::Failed(reason) => Err(SyncFailure::Unobservable(reason.clone())),
        Observation::Listed { .. } => Err(SyncFailure::Unobservable("not observed yet".to_owned())),
    }
}

/// The failure of a sync because of a failed runtime operation.
fn runtime_failed(operation: &str, error: &RuntimeError) -> SyncFailure {
    runtime_failure(&[error.kind], format!("{operation}: {error}"))
}

/// A transient failure determines the retry delay, whatever else failed.
fn runtime_failure(kinds: &[RuntimeErrorKind], text: String) -> SyncFailure {
    if kinds.contains(&RuntimeErrorKind::Unavailable) {
        SyncFailure::RuntimeUnavailable(text)
    } else if kinds.contains(&RuntimeErrorKind::Busy) {
        SyncFailure::Busy(text)
    } else {
        sync_failed(text)
    }
}

fn sync_failed(message: String) -> SyncFailure {
    SyncFailure::Failed { message, problems: Default::default() }
}
