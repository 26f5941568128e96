//! Maintains the cgroups above the pods: the one of all pods, limited to the allocatable resources of the node, and those
//! of the QoS classes Burstable and BestEffort.
//!
//! CPU weight, protected memory and memory limits of the classes depend on the sums of their pods' requests, which are
//! updated incrementally. Every minute all limits are set again, in case another program changed them.

mod qos_classes;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use decide::cgroups::qos_cgroups::{QosCgroups, QosRequests, best_effort_limits, burstable_limits};
use decide::cgroups::reserved_cgroups::{ReservedCgroup, all_pods_limits, reserved_cgroups};
use model::{
    CgroupLimits, CgroupVersion, EventSubject, EventType, NodeSettings, Pod, PodUid, RecordedEvent,
    WorkerPhase, WorkerView,
};
use ports::clock::Clock;
use ports::host::pod_cgroups::PodCgroups;
use ports::host::pod_folders::FileError;
use ports::served::event_recorder::EventRecorder;
use timing::KeyReceiver;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use qos_classes::QosClasses;

use crate::metrics::Metrics;
use crate::pipeline::allocations::Allocations;
use crate::pipeline::tables::Reader;

const REFRESH_PERIOD: Duration = Duration::from_secs(60);
const DEBOUNCE: Duration = Duration::from_millis(20);

pub struct NodeCgroupsDeps {
    /// Pods that were added, changed, terminated or removed.
    pub changes: KeyReceiver<PodUid>,
    pub desired: Reader<Pod>,
    pub workers: Reader<WorkerView>,
    pub allocations: Allocations,
    pub cgroups: Arc<dyn PodCgroups>,
    pub settings: Arc<NodeSettings>,
    pub events: Arc<dyn EventRecorder>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
}

#[derive(Debug, thiserror::Error)]
pub enum NodeCgroupError {
    #[error("invalid configuration: cgroupRoot {0:?} has some missing paths")]
    NoRoot(String),
    #[error("{0}")]
    Cgroup(String),
}

/// Creates the cgroups and limits the reserved ones. Must be called before any pod runs.
///
/// # Errors
/// If the root does not exist, or a cgroup cannot be created or limited.
pub async fn prepare(cgroups: &dyn PodCgroups, settings: &NodeSettings) -> Result<(), NodeCgroupError> {
    if !settings.cgroups_per_qos {
        return Ok(());
    }
    let failed_to = |operation: &'static str| {
        move |error: FileError| NodeCgroupError::Cgroup(format!("{operation}: {}", error.text()))
    };
    let root = &settings.cgroup_root;
    if root != "/" && !cgroups.exists(root).await.map_err(failed_to("look up cgroupRoot"))? {
        return Err(NodeCgroupError::NoRoot(root.clone()));
    }
    let paths = QosCgroups::of(settings);
    let all_cpus = CgroupLimits { cpus: settings.pods_cpus.clone(), ..CgroupLimits::default() };
    cgroups.ensure(&paths.all, &all_cpus).await.map_err(failed_to("create the cgroup of all pods"))?;
    let burstable = CgroupLimits { cpu_shares: None, ..burstable_limits(0) };
    let failed = failed_to("create the cgroup of Burstable pods");
    cgroups.ensure(&paths.burstable, &burstable).await.map_err(failed)?;
    let failed = failed_to("create the cgroup of BestEffort pods");
    cgroups.ensure(&paths.best_effort, &best_effort_limits()).await.map_err(failed)?;
    for reserved in reserved_cgroups(settings) {
        limit_reserved(cgroups, &reserved).await.map_err(|reason| {
            let (owner, part, path) = (reserved.owner, reserved.part, &reserved.path);
            let operation = format!("Failed to enforce {owner} Reserved{part} Cgroup Limits on {path:?}");
            NodeCgroupError::Cgroup(format!("{operation}: {reason}"))
        })?;
    }
    Ok(())
}

/// Limits a cgroup that must exist: systemd would create a missing one, with nothing in it.
async fn limit_reserved(cgroups: &dyn PodCgroups, reserved: &ReservedCgroup) -> Result<(), String> {
    let path = &reserved.path;
    if !cgroups.exists(path).await.map_err(|error| error.text())? {
        let name: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        return Err(format!("cgroup {name:?} has some missing paths; create it before the agent starts"));
    }
    cgroups.set(path, &reserved.limits).await.map_err(|error| error.text())
}

/// Upstream's message.
const CGROUP_V1: &str = "cgroup v1 detected. cgroup v1 support is deprecated and will be removed in a future release. \
                         Please migrate to cgroup v2. More information at \
                         https://git.k8s.io/enhancements/keps/sig-node/5573-remove-cgroup-v1";

/// Upstream's message.
const NO_SWAP_UNSUPPORTED: &str = "The tmpfs noswap option is not supported. Memory-backed volumes (e.g. secrets, emptyDirs, etc.) \
                       might be swapped to disk and should no longer be considered secure.";

/// Reason and message of the events that are recorded once at the start.
fn warnings(settings: &NodeSettings) -> Vec<(&'static str, &'static str)> {
    let may_swap = settings.cgroups.memory_may_be_swapped;
    let is_v1 = settings.capabilities.cgroup_version == CgroupVersion::V1;
    let each = [
        (may_swap, ("PossibleMemoryBackedVolumesOnDisk", NO_SWAP_UNSUPPORTED)),
        (is_v1, ("CgroupV1", CGROUP_V1)),
    ];
    each.into_iter().filter_map(|(applies, warning)| applies.then_some(warning)).collect()
}

/// Runs until cancelled.
pub async fn run(mut deps: NodeCgroupsDeps, cancel: CancellationToken) {
    for (reason, message) in warnings(&deps.settings) {
        deps.record(EventType::Warning, reason, message);
    }
    if !deps.settings.cgroups_per_qos {
        cancel.cancelled().await;
        return;
    }
    let paths = QosCgroups::of(&deps.settings);
    for reserved in reserved_cgroups(&deps.settings) {
        let owner = reserved.owner.to_lowercase();
        let message = format!("Updated limits on {owner} reserved cgroup {}", reserved.path);
        deps.record_enforcement(EventType::Normal, &message);
    }
    let mut requests = PodRequests::default();
    let mut enforced = Enforced::NotYet;
    let mut refresh = tokio::time::interval_at(Instant::now(), REFRESH_PERIOD);
    refresh.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            _ = refresh.tick() => {
                enforced = deps.enforce(&paths, enforced).await;
                deps.classes(&paths).set(&paths.best_effort, &best_effort_limits()).await;
            }
            changed = deps.changes.recv() => {
                let Some(uid) = changed else { return };
                let before = requests.total;
                requests.set(&uid, deps.requests(&uid));
                tokio::time::sleep(DEBOUNCE).await;
                while let Some(uid) = deps.changes.try_recv() {
                    requests.set(&uid, deps.requests(&uid));
                }
                if requests.total == before {
                    continue;
                }
            }
        }
        deps.classes(&paths).follow(requests.total).await;
    }
}

/// Whether the limits of all pods are in force.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Enforced {
    NotYet,
    Yes,
}

/// The share of each pod in the cgroups of the QoS classes.
#[derive(Default)]
struct PodRequests {
    by_pod: HashMap<PodUid, QosRequests>,
    total: QosRequests,
}

impl PodRequests {
    fn set(&mut self, uid: &PodUid, requests: QosRequests) {
        let old = if requests == QosRequests::default() {
            self.by_pod.remove(uid)
        } else {
            self.by_pod.insert(uid.clone(), requests)
        };
        self.total.replace(old.unwrap_or_default(), requests);
    }
}

impl NodeCgroupsDeps {
    /// A pod counts until all its containers have stopped.
    fn requests(&self, uid: &PodUid) -> QosRequests {
        let is_terminated =
            || self.workers.get(uid).is_some_and(|worker| worker.phase >= WorkerPhase::Terminated);
        self.desired
            .get(uid)
            .filter(|_| !is_terminated())
            .map_or_else(QosRequests::default, |pod| QosRequests::of(&self.allocations.allocated(&pod)))
    }

    fn classes<'a>(&'a self, paths: &'a QosCgroups) -> QosClasses<'a> {
        QosClasses {
            cgroups: self.cgroups.as_ref(),
            settings: &self.settings,
            paths,
            metrics: &self.metrics.memory_qos,
        }
    }

    /// Fails while pods use more than the limit. Evictions reclaim the difference, so the next refresh retries.
    async fn enforce(&self, paths: &QosCgroups, before: Enforced) -> Enforced {
        let limits = all_pods_limits(&self.settings);
        match (self.cgroups.ensure(&paths.all, &limits).await, before) {
            (Ok(()), Enforced::Yes) => Enforced::Yes,
            (Ok(()), Enforced::NotYet) => {
                self.record_enforcement(EventType::Normal, "Updated Node Allocatable limit across pods");
                Enforced::Yes
            }
            (Err(error), _) => {
                let (path, text) = (&paths.all, error.text());
                let message = format!("Failed to update Node Allocatable Limits {path:?}: {text}");
                self.record_enforcement(EventType::Warning, &message);
                Enforced::NotYet
            }
        }
    }

    fn record_enforcement(&self, kind: EventType, message: &str) {
        let reason = match kind {
            EventType::Normal => "NodeAllocatableEnforced",
            EventType::Warning => "FailedNodeAllocatableEnforcement",
        };
        self.record(kind, reason, message);
    }

    fn record(&self, kind: EventType, reason: &str, message: &str) {
        let subject = EventSubject::Node(self.settings.name.clone());
        self.events.record(RecordedEvent::new(subject, kind, reason, message, self.clock.now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warns_about_cgroup_v1_and_swappable_tmpfs() {
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
    fn total_follows_changes_of_pod_requests() {
        let mut requests = PodRequests::default();
        let of = |burstable_cpu| QosRequests { burstable_cpu, ..QosRequests::default() };
        let (a, b) = (PodUid::from("a"), PodUid::from("b"));
        for (uid, request, total) in [
            (&a, 100, 100),
            (&b, 50, 150),
            (&a, 200, 250),
            (&a, 200, 250),
            (&b, 0, 200),
            (&b, 0, 200),
            (&a, 0, 0),
        ] {
            requests.set(uid, of(request));
            assert_eq!(requests.total, of(total));
        }
        assert!(requests.by_pod.is_empty());
    }
}
