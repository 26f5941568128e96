//! Which pods and containers have statistics, and which cgroup is whose.

use model::usage::{CgroupUsage, InterfaceUsage};
use model::{
    ContainerId, ContainerState, ObservedPod, PodFullName, PodUid, SandboxId, SandboxState, Timestamp,
};

/// A pod that runs, or whose sandbox waits for its containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningPod {
    /// UID; of a static pod the hash of its manifest, as everywhere on the node.
    pub uid: PodUid,
    /// Namespace and name.
    pub full_name: PodFullName,
    /// Its sandbox.
    pub sandbox: SandboxId,
    /// When that was made.
    pub started_at: Timestamp,
    /// Its containers that run.
    pub containers: Vec<RunningContainer>,
}

/// A container that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningContainer {
    /// Name.
    pub name: String,
    /// Runtime id.
    pub id: ContainerId,
    /// When it was made.
    pub created_at: Timestamp,
    /// Its image, as the runtime shows it.
    pub image: String,
}

/// A cgroup as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Path, such as `/kubepods`.
    pub path: String,
    /// What it uses.
    pub usage: CgroupUsage,
    /// Billionths of a CPU in use now; `None` before the second reading.
    pub nano_cores: Option<u64>,
}

/// A pod that runs, with what it uses.
#[derive(Clone, Debug, PartialEq)]
pub struct PodReading {
    /// The pod.
    pub pod: RunningPod,
    /// Its cgroup.
    pub cgroup: Option<Reading>,
    /// The cgroup of its sandbox.
    pub sandbox: Option<Reading>,
    /// Those of its containers, in their order.
    pub containers: Vec<Option<Reading>>,
    /// Its network interfaces.
    pub network: Option<Vec<InterfaceUsage>>,
}

impl RunningPod {
    /// Whether a container runs; the summary tells of no other pods.
    #[must_use]
    pub fn has_containers(&self) -> bool {
        !self.containers.is_empty()
    }
}

/// The pods that have statistics: those of which a container runs.
#[must_use]
pub fn running_pods<'a>(observed: impl Iterator<Item = &'a ObservedPod>) -> Vec<RunningPod> {
    let mut pods = present_pods(observed);
    pods.retain(RunningPod::has_containers);
    pods
}

/// The pods that have cgroups: those with a sandbox, also while no container runs.
#[must_use]
pub fn present_pods<'a>(observed: impl Iterator<Item = &'a ObservedPod>) -> Vec<RunningPod> {
    let mut pods: Vec<RunningPod> = observed.filter_map(present_pod).collect();
    pods.sort_by(|a, b| {
        (&a.full_name.namespace, &a.full_name.name, &a.uid).cmp(&(
            &b.full_name.namespace,
            &b.full_name.name,
            &b.uid,
        ))
    });
    pods
}

fn present_pod(observed: &ObservedPod) -> Option<RunningPod> {
    let sandbox = observed.sandboxes.iter().find(|sandbox| sandbox.state == SandboxState::Ready)?;
    let mut containers: Vec<RunningContainer> = Vec::new();
    for status in observed.containers.iter().filter(|status| status.state == ContainerState::Running) {
        // Newest first: an older one of the same name is about to go.
        if containers.iter().all(|known| known.name != status.name) {
            containers.push(RunningContainer {
                name: status.name.clone(),
                id: status.id.clone(),
                created_at: status.created_at,
                image: status.image.clone(),
            });
        }
    }
    containers.sort_by(|a, b| a.created_at.cmp(&b.created_at).then_with(|| a.name.cmp(&b.name)));
    Some(RunningPod {
        uid: observed.uid.clone(),
        full_name: observed.full_name.clone(),
        sandbox: sandbox.id.clone(),
        started_at: sandbox.created_at,
        containers,
    })
}

/// The runtime's id in the name of a cgroup, such as `<id>` or `cri-containerd-<id>.scope`; `None` when it is not a
/// container's.
#[must_use]
pub fn id_in_cgroup_name(name: &str) -> Option<&str> {
    let plain = name.strip_suffix(".scope").unwrap_or(name);
    // CRI-O's monitor of a container has a cgroup of its own.
    let (prefix, id) = plain.rsplit_once('-').unwrap_or(("", plain));
    (!prefix.contains("conmon") && !id.is_empty()).then_some(id)
}

/// Gives each cgroup below a pod's to its container.
#[must_use]
pub fn arrange(pod: RunningPod, cgroup: Option<Reading>, children: Vec<Reading>) -> PodReading {
    let mut sandbox = None;
    let mut containers: Vec<Option<Reading>> = pod.containers.iter().map(|_| None).collect();
    for child in children {
        let name = child.path.rsplit('/').next().unwrap_or_default();
        let Some(id) = id_in_cgroup_name(name) else { continue };
        if id == pod.sandbox.as_str() {
            sandbox = Some(child);
        } else if let Some(at) = pod.containers.iter().position(|container| id == container.id.as_str())
            && let Some(slot) = containers.get_mut(at)
        {
            *slot = Some(child);
        }
    }
    PodReading { pod, cgroup, sandbox, containers, network: None }
}
