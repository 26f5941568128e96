//! How a running pod gets to what was granted to it: which containers are changed in place or restarted, and in which
//! order the pod's cgroup and its containers follow each other.

use k8s_openapi::api::core::v1::{Container, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use model::{
    CgroupLimits, CgroupVersion, ContainerId, ContainerKind, ContainerState, LinuxResources, NodeSettings,
    ObservedPod, Pod, PodGates, PodResources,
};

use crate::allocation::{is_resizable, restarts_for};
use crate::pod_actions::{KillContainer, KillReason, PodActions, StartContainer, is_sidecar, restart_count};
use crate::quantity::{Amount, ResourceList};
use crate::resources::cpu_shares;

/// CPU (in thousandths) and memory (in bytes) of a container; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// CPU request.
    pub cpu_request: i64,
    /// CPU limit.
    pub cpu_limit: i64,
    /// Memory request.
    pub memory_request: i64,
    /// Memory limit.
    pub memory_limit: i64,
}

/// One of the two resources that are changed in place; each has its own order of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Memory, which comes first.
    Memory,
    /// CPU.
    Cpu,
}

impl Resource {
    /// The API's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
        }
    }
}

/// A container that is changed in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerUpdate {
    /// Which.
    pub id: ContainerId,
    /// Its name.
    pub name: String,
    /// What it has.
    pub current: Sizes,
    /// What it gets.
    pub wanted: Sizes,
}

/// A container that has to be restarted to be resized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerRestart {
    /// Which.
    pub id: ContainerId,
    /// Its name.
    pub name: String,
    /// The list it stands in.
    pub kind: ContainerKind,
}

/// What a resize takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResizePlan {
    /// Containers to restart.
    pub restart: Vec<ContainerRestart>,
    /// Containers to change in memory, those that shrink first.
    pub memory: Vec<ContainerUpdate>,
    /// Containers to change in CPU, those that shrink first.
    pub cpu: Vec<ContainerUpdate>,
    /// Whether the pod's cgroup is not what it should be.
    pub pod: bool,
}

impl ResizePlan {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Containers to change in one resource.
    #[must_use]
    pub fn updates(&self, resource: Resource) -> &[ContainerUpdate] {
        match resource {
            Resource::Memory => &self.memory,
            Resource::Cpu => &self.cpu,
        }
    }
}

/// What a container is limited to: where it says nothing, the pod's own limits hold.
#[must_use]
pub fn sizes(pod_level: Option<&ResourceRequirements>, own: Option<&ResourceRequirements>) -> Sizes {
    fn limits(resources: Option<&ResourceRequirements>) -> Option<&ResourceList> {
        resources?.limits.as_ref()
    }
    let requests = own.and_then(|own| own.requests.as_ref());
    let limit = |name| {
        let limit = Amount::in_list(limits(own), name);
        if limit.is_zero() { Amount::in_list(limits(pod_level), name) } else { limit }
    };
    Sizes {
        cpu_request: Amount::in_list(requests, "cpu").milli(),
        cpu_limit: limit("cpu").milli(),
        memory_request: Amount::in_list(requests, "memory").units(),
        memory_limit: limit("memory").units(),
    }
}

/// What is noted of a container once it is in force: its own resources, filled up by the pod's limits.
#[must_use]
pub fn in_force(pod: &Pod, container: &Container) -> ResourceRequirements {
    let mut own = container.resources.clone().unwrap_or_default();
    let of_pod = pod.spec.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    for name in ["cpu", "memory"] {
        let limit = of_pod.and_then(|list| list.get(name)).filter(|limit| !Amount::of(limit).is_zero());
        if Amount::in_list(own.limits.as_ref(), name).is_zero()
            && let Some(limit) = limit
        {
            own.limits.get_or_insert_default().insert(name.to_owned(), limit.clone());
        }
    }
    own
}

/// Plans the resize of a pod as granted. `actuated` is what is in force as far as it was noted; `cgroup` what the pod's
/// cgroup is limited to now, and what it should be.
#[must_use]
pub fn plan(
    pod: &Pod,
    observed: &ObservedPod,
    actuated: &PodResources,
    cgroup: (&CgroupLimits, &CgroupLimits),
    gates: PodGates,
) -> ResizePlan {
    let mut plan = ResizePlan { pod: is_off(cgroup.0, cgroup.1), ..ResizePlan::default() };
    for entry in pod.containers().filter(|entry| is_resizable(entry.kind, entry.container, gates)) {
        let name = &entry.container.name;
        let Some(status) = observed.container(name).filter(|one| one.state == ContainerState::Running) else {
            continue;
        };
        let current = sizes(actuated.pod.as_ref(), actuated.containers.get(name).map(|own| &**own));
        let wanted = sizes(pod.spec.resources.as_ref(), entry.container.resources.as_ref());
        let memory = change(
            (current.memory_limit, wanted.memory_limit),
            (current.memory_request, wanted.memory_request),
        );
        let cpu = change((current.cpu_limit, wanted.cpu_limit), (current.cpu_request, wanted.cpu_request));
        let restarts = |resource: Resource, change: Change| {
            // What initialises a pod is not begun anew for a resize.
            let may_restart = entry.kind == ContainerKind::Regular || is_sidecar(entry.container);
            change != Change::None && may_restart && restarts_for(entry.container, resource.as_str())
        };
        if restarts(Resource::Memory, memory) || restarts(Resource::Cpu, cpu) {
            plan.restart.push(ContainerRestart {
                id: status.id.clone(),
                name: name.clone(),
                kind: entry.kind,
            });
            continue;
        }
        let update = ContainerUpdate { id: status.id.clone(), name: name.clone(), current, wanted };
        for (change, list) in [(memory, &mut plan.memory), (cpu, &mut plan.cpu)] {
            match change {
                Change::None => {}
                Change::More => list.push(update.clone()),
                Change::Less => list.insert(0, update.clone()),
            }
        }
    }
    plan
}

/// Whether a running container of the pod, or the pod itself, is not yet what was granted.
#[must_use]
pub fn is_in_progress(pod: &Pod, observed: &ObservedPod, actuated: &PodResources, gates: PodGates) -> bool {
    let none = CgroupLimits::default();
    let plan = plan(pod, observed, actuated, (&none, &none), gates);
    let pod_level = |own: Option<&ResourceRequirements>| sizes(None, own);
    let pod_differs = pod.spec.resources.is_some()
        && actuated.pod.is_some()
        && pod_level(pod.spec.resources.as_ref()) != pod_level(actuated.pod.as_ref());
    !plan.is_empty() || pod_differs
}

/// Adds the containers that have to be restarted to what a pass does.
pub fn add_restarts(plan: &ResizePlan, observed: &ObservedPod, actions: &mut PodActions) {
    for restart in &plan.restart {
        if actions.kill.iter().any(|kill| kill.id == restart.id) {
            continue;
        }
        let count = observed.container(&restart.name).map(|status| restart_count(status).saturating_add(1));
        actions.kill.push(KillContainer {
            id: restart.id.clone(),
            name: restart.name.clone(),
            kind: restart.kind,
            reason: KillReason::ResizeRestart,
            restart: true,
        });
        let start = StartContainer { name: restart.name.clone(), kind: restart.kind, restart_count: count };
        // Sidecars start ahead of the regular ones.
        let regular = actions.start.iter().position(|other| other.kind == ContainerKind::Regular);
        match regular.filter(|_| restart.kind == ContainerKind::Init) {
            Some(at) => actions.start.insert(at, start),
            None => actions.start.push(start),
        }
    }
}

/// A step on the pod's cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSteps {
    /// Limits set before the containers: those that grow, limits ahead of weights.
    pub before: Vec<CgroupLimits>,
    /// Limits set after the containers: those that shrink, weights ahead of limits.
    pub after: Vec<CgroupLimits>,
}

/// The steps on the pod's cgroup for one resource. A limit that is not wanted stays as it is.
#[must_use]
pub fn pod_steps(resource: Resource, cgroup: &CgroupLimits, wanted: &CgroupLimits) -> PodSteps {
    let mut steps = PodSteps { before: Vec::new(), after: Vec::new() };
    let limit = match resource {
        Resource::Memory => CgroupLimits { memory: wanted.memory, ..CgroupLimits::default() },
        Resource::Cpu => CgroupLimits {
            cpu_quota: wanted.cpu_quota,
            cpu_period: wanted.cpu_period,
            ..CgroupLimits::default()
        },
    };
    // No limit is more than any limit.
    let bound = |limits: &CgroupLimits| match resource {
        Resource::Memory => limits.memory.unwrap_or(i64::MAX),
        Resource::Cpu => limits.cpu_quota.filter(|quota| *quota >= 0).unwrap_or(i64::MAX),
    };
    if limit != CgroupLimits::default() {
        match bound(wanted).cmp(&bound(cgroup)) {
            std::cmp::Ordering::Greater => steps.before.push(limit),
            std::cmp::Ordering::Less => steps.after.push(limit),
            std::cmp::Ordering::Equal => {}
        }
    }
    if resource == Resource::Cpu
        && let (Some(now), Some(shares)) = (cgroup.cpu_shares, wanted.cpu_shares)
    {
        let weight = CgroupLimits { cpu_shares: Some(shares), ..CgroupLimits::default() };
        match shares.cmp(&now) {
            std::cmp::Ordering::Greater => steps.before.push(weight),
            std::cmp::Ordering::Less => steps.after.insert(0, weight),
            std::cmp::Ordering::Equal => {}
        }
    }
    steps
}

/// A container with its CPU or its memory as wanted, and the other resource as it is now.
#[must_use]
pub fn changed_container(container: &Container, update: &ContainerUpdate, resource: Resource) -> Container {
    let (memory, cpu) = match resource {
        Resource::Memory => (update.wanted, update.current),
        Resource::Cpu => (update.current, update.wanted),
    };
    let mut copy = container.clone();
    let own = copy.resources.get_or_insert_default();
    let put = |list: &mut ResourceList, name: &str, amount: i64, suffix: &str| {
        if amount == 0 {
            list.remove(name);
        } else {
            list.insert(name.to_owned(), Quantity(format!("{amount}{suffix}")));
        }
    };
    let limits = own.limits.get_or_insert_default();
    put(limits, "cpu", cpu.cpu_limit, "m");
    put(limits, "memory", memory.memory_limit, "");
    let requests = own.requests.get_or_insert_default();
    put(requests, "cpu", cpu.cpu_request, "m");
    put(requests, "memory", memory.memory_request, "");
    copy
}

/// Memory limits that shrink, with the new limit: `None` stands for the pod.
#[must_use]
pub fn shrinking_memory<'a>(
    plan: &'a ResizePlan,
    cgroup: &CgroupLimits,
    wanted: &CgroupLimits,
) -> Vec<(Option<&'a ContainerUpdate>, i64)> {
    if plan.memory.is_empty() && !plan.pod && plan.restart.is_empty() {
        return Vec::new();
    }
    let pod = wanted
        .memory
        .filter(|limit| cgroup.memory.is_none_or(|now| *limit < now && !same_bytes(*limit, now)));
    let shrinks = |update: &&ContainerUpdate| {
        let (now, limit) = (update.current.memory_limit, update.wanted.memory_limit);
        limit != 0 && (now == 0 || limit < now)
    };
    let containers =
        plan.memory.iter().filter(shrinks).map(|update| (Some(update), update.wanted.memory_limit));
    pod.map(|limit| (None, limit)).into_iter().chain(containers).collect()
}

/// Whether what a runtime reports of a container is what the pod's spec means, so that an agent without a note of it
/// need not touch it.
#[must_use]
pub fn is_reported(reported: &LinuxResources, wanted: &LinuxResources) -> bool {
    reported.memory_limit_bytes == wanted.memory_limit_bytes
        && reported.cpu_shares == wanted.cpu_shares
        && reported.cpu_quota.max(0) == wanted.cpu_quota.max(0)
}

/// Whether the cgroup of a pod is not what it should be. What the kernel rounds is no difference, nor is what it does
/// not tell.
fn is_off(cgroup: &CgroupLimits, wanted: &CgroupLimits) -> bool {
    let memory =
        matches!((cgroup.memory, wanted.memory), (Some(now), Some(limit)) if !same_bytes(now, limit));
    let quota = matches!((cgroup.cpu_quota, wanted.cpu_quota), (Some(now), Some(limit)) if now.max(-1) != limit.max(-1));
    let shares = matches!((cgroup.cpu_shares, wanted.cpu_shares), (Some(now), Some(shares)) if now != shares);
    memory || quota || shares
}

/// The weight as a cgroup of that version gives it back.
#[must_use]
pub fn rounded_shares(shares: u64, version: CgroupVersion) -> u64 {
    match version {
        CgroupVersion::V1 => shares,
        CgroupVersion::V2 => {
            let weight = 1 + (shares.clamp(2, 262_144) - 2) * 9_999 / 262_142;
            (weight - 1) * 262_142 / 9_999 + 2
        }
    }
}

/// The kernel counts in pages, which may be as large as 64 KiB.
fn same_bytes(one: i64, other: i64) -> bool {
    one / 65_536 == other / 65_536
}

/// The sums of the pod without its overhead, for the runtime's information.
#[must_use]
pub fn sandbox_sums(cgroup: &CgroupLimits, pod: &Pod, settings: &NodeSettings) -> LinuxResources {
    let overhead = |name| Amount::in_list(pod.spec.overhead.as_ref(), name);
    let period = cgroup.cpu_period.and_then(|period| i64::try_from(period).ok()).unwrap_or(0);
    let shares = i64::try_from(cgroup.cpu_shares.unwrap_or(0)).unwrap_or(i64::MAX);
    let cpu = overhead("cpu").milli();
    let quota = cgroup.cpu_quota.unwrap_or(0);
    let own_quota = if quota > 0 { quota - crate::resources::cfs_quota(cpu, period) } else { quota };
    LinuxResources {
        cpu_period: if settings.cpu_cfs_quota { period } else { 0 },
        cpu_quota: own_quota,
        cpu_shares: if cpu > 0 { cpu_shares(shares * 1000 / 1024 - cpu) } else { shares },
        memory_limit_bytes: cgroup.memory.map_or(0, |memory| memory - overhead("memory").units()),
        ..LinuxResources::default()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    None,
    More,
    Less,
}

/// By the limit, if that changes, else by the request.
fn change(limit: (i64, i64), request: (i64, i64)) -> Change {
    let (now, wanted) = if limit.0 == limit.1 { request } else { limit };
    match wanted.cmp(&now) {
        std::cmp::Ordering::Greater => Change::More,
        std::cmp::Ordering::Less => Change::Less,
        std::cmp::Ordering::Equal => Change::None,
    }
}

#[cfg(test)]
mod tests;
