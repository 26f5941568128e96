//! Brings the runtime in line for one pod: the acting half of a worker's pass.
//!
//! Gather (the observation newer than this pod's last action), decide (`decide::pod_actions`), act (through the
//! runtime and the host). Every pass may be repeated, also after the agent was killed in the middle: nothing is
//! assumed that was not observed.

mod cgroup;
mod container;
mod counts;
mod hooks;
mod memory;
mod projection;
mod reset;
mod resize;
mod sandbox;
mod stop;
mod supplies;
mod sync;
mod turns;
mod volumes;

use std::sync::Arc;

use async_trait::async_trait;
use decide::backoff::Limits;
use decide::pod_paths::pod_cgroup;
use model::{
    EventSubject, EventType, NodeSettings, Observation, ObservedPod, Pod, ProbeVerdicts, RecordedEvent,
    SyncFailure, SyncOutcome, Timestamp, UpdateKind,
};
use ports::clock::Clock;
use ports::env_files::EnvFiles;
use ports::event_recorder::EventRecorder;
use ports::host_facts::HostFacts;
use ports::objects::Objects;
use ports::outbound::Outbound;
use ports::pod_cgroups::PodCgroups;
use ports::pod_folders::PodFolders;
use ports::pod_logs::PodLogs;
use ports::pod_syncer::{Interruption, PodSyncer};
use ports::pod_volumes::PodVolumes;
use ports::runtime::{Runtime, RuntimeError, RuntimeErrorKind};

use crate::allocations::Allocations;
use crate::claims::Claims;
use crate::cluster_supplies::ClusterSupplies;
use crate::images::Images;
use crate::kept_status::KeptStatus;
use crate::metrics::Metrics;
use crate::observation::Observer;
use crate::published::Reader;
use crate::runtime_health::RuntimeHealth;
use crate::sweeping::Sweeping;
use crate::timeline::Timelines;
use crate::user_namespaces::UserNamespaces;
use memory::Memory;
use turns::Turns;

/// What the pod runtime needs.
pub struct Parts {
    /// The runtime.
    pub runtime: Arc<dyn Runtime>,
    /// Images.
    pub images: Images,
    /// Observations.
    pub observer: Observer,
    /// Whether the runtime and its network are ready.
    pub health: RuntimeHealth,
    /// Folders of pods.
    pub folders: Arc<dyn PodFolders>,
    /// ConfigMaps and Secrets.
    pub objects: Arc<dyn Objects>,
    /// What else pods take from the cluster; `None` on a node of its own.
    pub supplies: Option<ClusterSupplies>,
    /// Files that variables come from.
    pub env_files: Arc<dyn EnvFiles>,
    /// Logs of containers.
    pub logs: Arc<dyn PodLogs>,
    /// Volumes of pods.
    pub volumes: Arc<dyn PodVolumes>,
    /// What stands behind claims, with an API server.
    pub claims: Option<Arc<Claims>>,
    /// What was granted to pods.
    pub allocations: Allocations,
    /// Cgroups of pods.
    pub cgroups: Arc<dyn PodCgroups>,
    /// Ranges of user ids.
    pub user_namespaces: UserNamespaces,
    /// Facts of the machine.
    pub host: Arc<dyn HostFacts>,
    /// Requests to containers.
    pub outbound: Arc<dyn Outbound>,
    /// Events.
    pub events: Arc<dyn EventRecorder>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Node name, folders, limits.
    pub settings: Arc<NodeSettings>,
    /// Crash back-off.
    pub crash_limits: Limits,
    /// Dead containers kept per name.
    pub keep_dead: usize,
    /// When this agent started; older crashes were watched by another one.
    pub started_at: Timestamp,
    /// What the probes say.
    pub probes: Reader<ProbeVerdicts>,
    /// What is reported of pods.
    pub statuses: Reader<KeptStatus>,
    /// How pods came to run.
    pub timelines: Arc<Timelines>,
    /// Who is being swept.
    pub sweeping: Sweeping,
}

/// The pod runtime.
pub struct PodRuntime {
    parts: Parts,
    memory: Memory,
    turns: Turns,
}

impl PodRuntime {
    /// A pod runtime over these parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let turns = Turns::new(parts.settings.cpu_count);
        Self { parts, memory: Memory::default(), turns }
    }

    /// The pod as seen after everything this agent did to it.
    async fn observe(&self, pod: &Pod) -> Result<Arc<ObservedPod>, SyncFailure> {
        let after = self.memory.last_action(&pod.uid);
        let observed = complete(self.parts.observer.after(&pod.uid, &pod.full_name, after).await);
        if let Err(SyncFailure::Unobservable(reason)) = &observed {
            let message = format!("error determining status: {reason}");
            self.event(pod, None, EventType::Warning, "FailedSync", message);
        }
        observed
    }

    fn event(&self, pod: &Pod, container: Option<&str>, kind: EventType, reason: &str, message: String) {
        let field_path = container
            .and_then(|name| pod.container(name))
            .map(|entry| entry.field_path())
            .unwrap_or_default();
        self.parts.events.record(RecordedEvent {
            annotations: Default::default(),
            subject: EventSubject::pod(pod, field_path),
            kind,
            reason: reason.to_owned(),
            message,
            at: self.parts.clock.now(),
        });
    }
}

fn complete(observed: Arc<ObservedPod>) -> Result<Arc<ObservedPod>, SyncFailure> {
    match &observed.observation {
        Observation::Complete => Ok(observed),
        Observation::Failed(reason) => Err(SyncFailure::Unobservable(reason.clone())),
        Observation::Listed { .. } => Err(SyncFailure::Unobservable("not looked at yet".to_owned())),
    }
}

/// A failure of the whole pass.
fn failed(what: &str, error: &RuntimeError) -> SyncFailure {
    match error.kind {
        RuntimeErrorKind::Unavailable => SyncFailure::RuntimeUnavailable(format!("{what}: {error}")),
        RuntimeErrorKind::Busy => SyncFailure::Busy(format!("{what}: {error}")),
        RuntimeErrorKind::NotFound
        | RuntimeErrorKind::DeadlineExceeded
        | RuntimeErrorKind::Unimplemented
        | RuntimeErrorKind::AlreadyExists
        | RuntimeErrorKind::Exhausted
        | RuntimeErrorKind::Failed => plain(format!("{what}: {error}")),
    }
}

fn plain(message: String) -> SyncFailure {
    SyncFailure::Failed { message, problems: Default::default() }
}

#[async_trait]
impl PodSyncer for PodRuntime {
    async fn sync_pod(
        &self,
        pod: &Arc<Pod>,
        _kind: UpdateKind,
        interruption: &dyn Interruption,
    ) -> Result<SyncOutcome, SyncFailure> {
        self.sync(pod, interruption).await
    }

    async fn sync_terminating_pod(&self, pod: &Arc<Pod>, grace_seconds: u64) -> Result<(), SyncFailure> {
        let observed = self.observe(pod).await?;
        self.stop_pod(Some(pod), &observed, grace_seconds).await
    }

    async fn sync_terminating_orphan(
        &self,
        pod: &ObservedPod,
        grace_seconds: u64,
    ) -> Result<(), SyncFailure> {
        let after = self.memory.last_action(&pod.uid);
        let observed = complete(self.parts.observer.after(&pod.uid, &pod.full_name, after).await)?;
        self.stop_pod(None, &observed, grace_seconds).await?;
        self.memory.forget(&pod.uid);
        Ok(())
    }

    async fn sync_terminated_pod(&self, pod: &Arc<Pod>) -> Result<(), SyncFailure> {
        if let Err(error) = self.parts.volumes.tear_down(&pod.uid).await {
            return Err(plain(error.text()));
        }
        let cgroup = pod_cgroup(&self.parts.allocations.granted(pod), &self.parts.settings);
        if self.parts.settings.cgroups_per_qos {
            // Whatever got away from the runtime ends with the pod.
            let killed = self.parts.cgroups.kill_processes(&cgroup).await;
            if let Err(error) = killed.and(self.parts.cgroups.remove(&cgroup).await) {
                return Err(plain(format!("{error}: {}", error.source)));
            }
        }
        if pod.spec.host_users == Some(false) {
            self.parts.user_namespaces.release(&pod.uid).await;
        }
        self.parts.allocations.forget(&pod.uid);
        self.parts.images.forget(&pod.uid);
        if let Some(supplies) = &self.parts.supplies {
            supplies.tokens.forget(&pod.uid);
            supplies.certificates.iter().for_each(|certificates| certificates.forget(&pod.uid));
        }
        self.memory.forget(&pod.uid);
        Ok(())
    }
}
