//! Keeps the cgroups above those of pods: the one of all pods, held to what the node may hand out, and one for each
//! of the classes Burstable and BestEffort.
//!
//! The weight of the Burstable class follows what its pods request: a change of one pod costs one sum, not a walk
//! over all pods. Each minute everything is set again, whoever may have changed it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use decide::qos_cgroups::{QosCgroups, best_effort_limits, burstable_limits, burstable_share};
use decide::reserved_cgroups::{all_pods_limits, reserved_cgroups};
use model::{
    CgroupLimits, CgroupVersion, EventSubject, EventType, NodeSettings, Pod, PodUid, RecordedEvent,
    WorkerPhase, WorkerView,
};
use ports::clock::Clock;
use ports::event_recorder::EventRecorder;
use ports::pod_cgroups::PodCgroups;
use ports::pod_folders::FileError;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::allocations::Allocations;
use crate::published::Reader;

/// Time after which everything is set again.
const REFRESH: Duration = Duration::from_secs(60);
/// Changes that come together are taken together.
const BREATH: Duration = Duration::from_millis(20);

/// What the stage needs.
pub struct Parts {
    /// UIDs of pods that came, changed, ended or went.
    pub changes: mpsc::UnboundedReceiver<PodUid>,
    /// Pods that sources want.
    pub desired: Reader<Pod>,
    /// How far workers are.
    pub workers: Reader<WorkerView>,
    /// What was granted to pods.
    pub allocations: Allocations,
    /// The cgroups.
    pub cgroups: Arc<dyn PodCgroups>,
    /// Reservations and paths.
    pub settings: Arc<NodeSettings>,
    /// Events.
    pub events: Arc<dyn EventRecorder>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// Why the cgroups cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum NodeCgroupError {
    /// The configured root is not there.
    #[error("invalid configuration: cgroupRoot {0:?} has some missing paths")]
    NoRoot(String),
    /// A cgroup could not be made or limited.
    #[error("{0}")]
    Cgroup(String),
}

/// Makes the cgroups, before any pod runs, and holds the reserved ones to their reservations.
///
/// # Errors
/// When the root does not exist, or a cgroup cannot be made or limited.
pub async fn prepare(cgroups: &dyn PodCgroups, settings: &NodeSettings) -> Result<(), NodeCgroupError> {
    if !settings.cgroups_per_qos {
        return Ok(());
    }
    let made = |what: &'static str| {
        move |error: FileError| NodeCgroupError::Cgroup(format!("{what}: {error}: {}", error.source))
    };
    let root = &settings.cgroup_root;
    if root != "/" && !cgroups.exists(root).await.map_err(made("look for cgroupRoot"))? {
        return Err(NodeCgroupError::NoRoot(root.clone()));
    }
    let paths = QosCgroups::of(settings);
    let unlimited = CgroupLimits::default();
    cgroups.ensure(&paths.all, &unlimited).await.map_err(made("make the cgroup of all pods"))?;
    let burstable = CgroupLimits { cpu_shares: None, ..burstable_limits(0) };
    let failed = made("make the cgroup of Burstable pods");
    cgroups.ensure(&paths.burstable, &burstable).await.map_err(failed)?;
    let failed = made("make the cgroup of BestEffort pods");
    cgroups.ensure(&paths.best_effort, &best_effort_limits()).await.map_err(failed)?;
    for reserved in reserved_cgroups(settings) {
        let (owner, part, path) = (reserved.owner, reserved.part, &reserved.path);
        cgroups.set(path, &reserved.limits).await.map_err(|error| {
            let text = format!("{error}: {}", error.source);
            NodeCgroupError::Cgroup(format!(
                "Failed to enforce {owner} Reserved{part} Cgroup Limits on {path:?}: {text}"
            ))
        })?;
    }
    Ok(())
}

/// As upstream says it.
const CGROUP_V1: &str = "cgroup v1 detected. cgroup v1 support is deprecated and will be removed in a future release. \
                         Please migrate to cgroup v2. More information at \
                         https://git.k8s.io/enhancements/keps/sig-node/5573-remove-cgroup-v1";

/// As upstream says it.
const SWAPPED: &str = "The tmpfs noswap option is not supported. Memory-backed volumes (e.g. secrets, emptyDirs, etc.) \
                       might be swapped to disk and should no longer be considered secure.";

/// What is told of the machine once, with the reason of each event.
fn warnings(settings: &NodeSettings) -> Vec<(&'static str, &'static str)> {
    let swapped = settings.cgroups.memory_may_be_swapped;
    let old = settings.capabilities.cgroup_version == CgroupVersion::V1;
    let each = [(swapped, ("PossibleMemoryBackedVolumesOnDisk", SWAPPED)), (old, ("CgroupV1", CGROUP_V1))];
    each.into_iter().filter_map(|(holds, warning)| holds.then_some(warning)).collect()
}

/// Runs until cancelled.
pub async fn run(mut parts: Parts, cancel: CancellationToken) {
    for (reason, message) in warnings(&parts.settings) {
        parts.record(EventType::Warning, reason, message.to_owned());
    }
    if !parts.settings.cgroups_per_qos {
        cancel.cancelled().await;
        return;
    }
    let paths = QosCgroups::of(&parts.settings);
    for reserved in reserved_cgroups(&parts.settings) {
        let owner = reserved.owner.to_lowercase();
        parts.tell(EventType::Normal, format!("Updated limits on {owner} reserved cgroup {}", reserved.path));
    }
    let mut shares = Shares::default();
    let mut enforced = Enforced::NotYet;
    let mut refresh = tokio::time::interval_at(Instant::now(), REFRESH);
    refresh.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            _ = refresh.tick() => {
                enforced = parts.enforce(&paths, enforced).await;
                parts.set(&paths.best_effort, &best_effort_limits()).await;
            }
            changed = parts.changes.recv() => {
                let Some(uid) = changed else { return };
                let before = shares.total;
                shares.set(&uid, parts.share(&uid));
                tokio::time::sleep(BREATH).await;
                while let Ok(uid) = parts.changes.try_recv() {
                    shares.set(&uid, parts.share(&uid));
                }
                if shares.total == before {
                    continue;
                }
            }
        }
        parts.set(&paths.burstable, &burstable_limits(shares.total)).await;
    }
}

/// Whether the limits of all pods took effect.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Enforced {
    NotYet,
    Yes,
}

/// What each pod adds to the weight of the Burstable class.
#[derive(Default)]
struct Shares {
    of_pods: HashMap<PodUid, i64>,
    total: i64,
}

impl Shares {
    fn set(&mut self, uid: &PodUid, share: i64) {
        let old = if share == 0 { self.of_pods.remove(uid) } else { self.of_pods.insert(uid.clone(), share) };
        self.total += share - old.unwrap_or_default();
    }
}

impl Parts {
    /// A pod counts until nothing of it runs any more.
    fn share(&self, uid: &PodUid) -> i64 {
        let is_over = || self.workers.get(uid).is_some_and(|worker| worker.phase >= WorkerPhase::Terminated);
        self.desired
            .get(uid)
            .filter(|_| !is_over())
            .map_or(0, |pod| burstable_share(&self.allocations.granted(&pod)))
    }

    /// Pods may use more than they should when the limits come: evictions make room, so it is tried again.
    async fn enforce(&self, paths: &QosCgroups, before: Enforced) -> Enforced {
        let limits = all_pods_limits(&self.settings);
        match (self.cgroups.ensure(&paths.all, &limits).await, before) {
            (Ok(()), Enforced::Yes) => Enforced::Yes,
            (Ok(()), Enforced::NotYet) => {
                let message = "Updated Node Allocatable limit across pods".to_owned();
                self.tell(EventType::Normal, message);
                Enforced::Yes
            }
            (Err(error), _) => {
                let text = format!("{error}: {}", error.source);
                let message = format!("Failed to update Node Allocatable Limits {:?}: {text}", paths.all);
                self.tell(EventType::Warning, message);
                Enforced::NotYet
            }
        }
    }

    async fn set(&self, path: &str, limits: &CgroupLimits) {
        if let Err(error) = self.cgroups.ensure(path, limits).await {
            tracing::warn!(cgroup = path, %error, source = %error.source, "a class of pods keeps its old weight");
        }
    }

    fn tell(&self, kind: EventType, message: String) {
        let reason = match kind {
            EventType::Normal => "NodeAllocatableEnforced",
            EventType::Warning => "FailedNodeAllocatableEnforcement",
        };
        self.record(kind, reason, message);
    }

    fn record(&self, kind: EventType, reason: &str, message: String) {
        self.events.record(RecordedEvent {
            annotations: Default::default(),
            subject: EventSubject::Node(self.settings.name.clone()),
            kind,
            reason: reason.to_owned(),
            message,
            at: self.clock.now(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_hierarchy_and_swapped_memory_are_told() {
        let mut settings = testkit::fakes::node_settings();
        let reasons = |settings: &NodeSettings| {
            warnings(settings).into_iter().map(|(reason, _)| reason).collect::<Vec<_>>()
        };
        settings.capabilities.cgroup_version = CgroupVersion::V2;
        assert!(reasons(&settings).is_empty());
        settings.cgroups.memory_may_be_swapped = true;
        assert_eq!(reasons(&settings), ["PossibleMemoryBackedVolumesOnDisk"]);
        settings.capabilities.cgroup_version = CgroupVersion::V1;
        assert_eq!(reasons(&settings), ["PossibleMemoryBackedVolumesOnDisk", "CgroupV1"]);
    }

    #[test]
    fn sums_follow_their_pods() {
        let mut shares = Shares::default();
        let (a, b) = (PodUid::from("a"), PodUid::from("b"));
        for (uid, share, total) in [
            (&a, 100, 100),
            (&b, 50, 150),
            (&a, 200, 250),
            (&a, 200, 250),
            (&b, 0, 200),
            (&b, 0, 200),
            (&a, 0, 0),
        ] {
            shares.set(uid, share);
            assert_eq!(shares.total, total);
        }
        assert!(shares.of_pods.is_empty());
    }
}
