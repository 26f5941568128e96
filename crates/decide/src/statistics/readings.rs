//! Maps cgroups to the pods and containers that have statistics.

use model::usage::{CgroupUsage, InterfaceUsage};
use model::{
    ContainerId, ContainerState, ObservedPod, PodFullName, PodUid, SandboxId, SandboxState, Timestamp,
};

/// A pod with a running container or a ready sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningPod {
    /// For a static pod the hash of its manifest.
    pub uid: PodUid,
    pub full_name: PodFullName,
    pub sandbox: SandboxId,
    pub started_at: Timestamp,
    pub containers: Vec<RunningContainer>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningContainer {
    pub name: String,
    pub id: ContainerId,
    pub created_at: Timestamp,
    /// As reported by the runtime.
    pub image: String,
}

/// Reading of a cgroup.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Such as `/kubepods`.
    pub path: String,
    pub usage: CgroupUsage,
    /// Current CPU use in nanocores; `None` before the second reading.
    pub nano_cores: Option<u64>,
}

/// Readings of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct PodReading {
    pub pod: RunningPod,
    pub cgroup: Option<Reading>,
    pub sandbox: Option<Reading>,
    /// In the order of the containers.
    pub containers: Vec<Option<Reading>>,
    pub network: Option<Vec<InterfaceUsage>>,
}

impl RunningPod {
    /// Whether a container runs. The summary leaves out other pods.
    pub fn has_containers(&self) -> bool {
        !self.containers.is_empty()
    }
}

/// The pods with a running container.
pub fn running_pods<'a>(observed: impl Iterator<Item = &'a ObservedPod>) -> Vec<RunningPod> {
    let mut pods = present_pods(observed);
    pods.retain(RunningPod::has_containers);
    pods
}

/// The pods with a sandbox, even without a running container.
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
        // Newest first: an older container of the same name is being removed.
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

/// The container ID in the name of a cgroup, such as `<id>` or `cri-containerd-<id>.scope`.
pub fn id_in_cgroup_name(name: &str) -> Option<&str> {
    let plain = name.strip_suffix(".scope").unwrap_or(name);
    // CRI-O's container monitor has a separate cgroup.
    let (prefix, id) = plain.rsplit_once('-').unwrap_or(("", plain));
    (!prefix.contains("conmon") && !id.is_empty()).then_some(id)
}

/// Assigns each child cgroup of a pod to its container.
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
