//! In-place resize of a running pod to its allocated resources: which containers are updated or restarted, and in which order
//! the pod's cgroup and its containers are changed.

use std::cmp::Ordering;

use k8s_openapi::api::core::v1::{Container, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use model::{
    CgroupDriver, CgroupLimits, CgroupVersion, ContainerId, ContainerKind, ContainerState, LinuxResources,
    NodeSettings, ObservedPod, Pod, PodGates, PodResources,
};
use values::quantity::{binary_si, decimal_si_from_milli};

use crate::pipeline::pod_actions::{
    KillContainer, KillReason, PodActions, StartContainer, is_sidecar, restart_count,
};
use crate::pod_resources::allocation::{is_resizable, restarts_for};
use crate::pod_resources::resources::cpu_shares;
use crate::quantity::{ResourceList, amount_in, amount_of};

/// CPU in millicores and memory in bytes of a container; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContainerSizes {
    pub cpu_request: i64,
    pub cpu_limit: i64,
    pub memory_request: i64,
    pub memory_limit: i64,
}

/// A resource that can be resized in place. Each has its own order of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizableResource {
    /// Resized before CPU.
    Memory,
    Cpu,
}

impl ResizableResource {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
        }
    }
}

/// A container that is resized in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerResize {
    pub id: ContainerId,
    pub name: String,
    pub current: ContainerSizes,
    pub desired: ContainerSizes,
}

/// The actions of a resize.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResizePlan {
    /// Containers that have to be restarted to be resized.
    pub restart: Vec<KillContainer>,
    /// Memory resizes, shrinking ones first.
    pub memory: Vec<ContainerResize>,
    /// CPU resizes, shrinking ones first.
    pub cpu: Vec<ContainerResize>,
    /// Whether the limits of the pod's cgroup differ from the desired ones.
    pub pod_cgroup: bool,
    /// Whether the actuated pod-level resources differ from the desired ones. The cgroup may already be right: it has no
    /// memory request.
    pub pod_level: bool,
}

impl ResizePlan {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub fn updates(&self, resource: ResizableResource) -> &[ContainerResize] {
        match resource {
            ResizableResource::Memory => &self.memory,
            ResizableResource::Cpu => &self.cpu,
        }
    }
}

/// Requests and limits of a container; pod-level limits replace missing ones.
pub fn container_sizes(
    pod_level: Option<&ResourceRequirements>,
    own: Option<&ResourceRequirements>,
) -> ContainerSizes {
    fn limits(resources: Option<&ResourceRequirements>) -> Option<&ResourceList> {
        resources?.limits.as_ref()
    }
    let requests = own.and_then(|own| own.requests.as_ref());
    let limit = |name| {
        let limit = amount_in(limits(own), name);
        if limit.is_zero() { amount_in(limits(pod_level), name) } else { limit }
    };
    ContainerSizes {
        cpu_request: amount_in(requests, "cpu").milli(),
        cpu_limit: limit("cpu").milli(),
        memory_request: amount_in(requests, "memory").units(),
        memory_limit: limit("memory").units(),
    }
}

/// The resources that are recorded as actuated for a container: its own, with missing limits taken from the pod level.
pub fn effective_resources(pod: &Pod, container: &Container) -> ResourceRequirements {
    let mut own = container.resources.clone().unwrap_or_default();
    let of_pod = pod.spec.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    for name in ["cpu", "memory"] {
        let limit = of_pod.and_then(|list| list.get(name)).filter(|limit| !amount_of(limit).is_zero());
        if amount_in(own.limits.as_ref(), name).is_zero()
            && let Some(limit) = limit
        {
            own.limits.get_or_insert_default().insert(name.to_owned(), limit.clone());
        }
    }
    own
}

/// Plans the resize of a pod with allocated resources. `actuated` are the recorded actuated resources; `cgroup` the current
/// and the desired limits of the pod's cgroup.
pub fn plan(
    pod: &Pod,
    observed: &ObservedPod,
    actuated: &PodResources,
    cgroup: (&CgroupLimits, &CgroupLimits),
    gates: PodGates,
) -> ResizePlan {
    let mut plan = ResizePlan {
        pod_cgroup: cgroup_differs(cgroup.0, cgroup.1),
        pod_level: gates.pod_level_resize && pod_level_differs(pod, actuated),
        ..ResizePlan::default()
    };
    for entry in pod.containers().filter(|entry| is_resizable(entry.kind, entry.container, gates)) {
        let name = &entry.container.name;
        let Some(status) = observed.container(name).filter(|one| one.state == ContainerState::Running) else {
            continue;
        };
        let current = container_sizes(actuated.pod.as_ref(), actuated.containers.get(name).map(|own| &**own));
        let desired = container_sizes(pod.spec.resources.as_ref(), entry.container.resources.as_ref());
        let memory = change(
            (current.memory_limit, desired.memory_limit),
            (current.memory_request, desired.memory_request),
        );
        let cpu = change((current.cpu_limit, desired.cpu_limit), (current.cpu_request, desired.cpu_request));
        let restarts = |resource: ResizableResource, change: Ordering| {
            // Init containers are not restarted for a resize.
            let may_restart = entry.kind == ContainerKind::Regular || is_sidecar(entry.container);
            change.is_ne() && may_restart && restarts_for(entry.container, resource.as_str())
        };
        if restarts(ResizableResource::Memory, memory) || restarts(ResizableResource::Cpu, cpu) {
            plan.restart.push(KillContainer::new(status, entry.kind, KillReason::ResizeRestart, true));
            continue;
        }
        let update = ContainerResize { id: status.id.clone(), name: name.clone(), current, desired };
        for (change, list) in [(memory, &mut plan.memory), (cpu, &mut plan.cpu)] {
            match change {
                Ordering::Equal => {}
                Ordering::Greater => list.push(update.clone()),
                Ordering::Less => list.insert(0, update.clone()),
            }
        }
    }
    plan
}

/// Whether the actuated resources of a running container, or those at pod level, differ from the allocated ones. A pod
/// without a record of its pod-level resources is not being resized.
pub fn is_in_progress(pod: &Pod, observed: &ObservedPod, actuated: &PodResources, gates: PodGates) -> bool {
    let none = CgroupLimits::default();
    let mut plan = plan(pod, observed, actuated, (&none, &none), gates);
    plan.pod_level &= pod.spec.resources.is_some() && actuated.pod.is_some();
    !plan.is_empty()
}

fn pod_level_differs(pod: &Pod, actuated: &PodResources) -> bool {
    let sizes = |own: Option<&ResourceRequirements>| container_sizes(None, own);
    sizes(pod.spec.resources.as_ref()) != sizes(actuated.pod.as_ref())
}

/// Adds the restarts of a resize to the actions of a sync.
pub fn add_restarts(plan: &ResizePlan, observed: &ObservedPod, actions: &mut PodActions) {
    for restart in &plan.restart {
        if actions.kill.iter().any(|kill| kill.id == restart.id) {
            continue;
        }
        let count = observed.container(&restart.name).map(|status| restart_count(status).saturating_add(1));
        actions.kill.push(restart.clone());
        let start = StartContainer { name: restart.name.clone(), kind: restart.kind, restart_count: count };
        // Sidecars start before regular containers.
        let regular = actions.start.iter().position(|other| other.kind == ContainerKind::Regular);
        match regular.filter(|_| restart.kind == ContainerKind::Init) {
            Some(index) => actions.start.insert(index, start),
            None => actions.start.push(start),
        }
    }
}

/// Changes of the limits of the pod's cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodCgroupSteps {
    /// Set before the containers are resized: growing limits, then growing weights.
    pub before: Vec<CgroupLimits>,
    /// Set after the containers were resized: shrinking weights, then shrinking limits.
    pub after: Vec<CgroupLimits>,
}

/// The changes of the pod's cgroup for one resource. A limit that is not desired stays unchanged.
pub fn pod_cgroup_steps(
    resource: ResizableResource,
    cgroup: &CgroupLimits,
    desired: &CgroupLimits,
) -> PodCgroupSteps {
    let mut steps = PodCgroupSteps { before: Vec::new(), after: Vec::new() };
    let limit = match resource {
        ResizableResource::Memory => CgroupLimits { memory: desired.memory, ..CgroupLimits::default() },
        ResizableResource::Cpu => CgroupLimits {
            cpu_quota: desired.cpu_quota,
            cpu_period: desired.cpu_period,
            ..CgroupLimits::default()
        },
    };
    // No limit is larger than any limit.
    let bound = |limits: &CgroupLimits| match resource {
        ResizableResource::Memory => limits.memory.unwrap_or(i64::MAX),
        ResizableResource::Cpu => limits.cpu_quota.filter(|quota| *quota >= 0).unwrap_or(i64::MAX),
    };
    if limit != CgroupLimits::default() {
        match bound(desired).cmp(&bound(cgroup)) {
            Ordering::Greater => steps.before.push(limit),
            Ordering::Less => steps.after.push(limit),
            Ordering::Equal => {}
        }
    }
    if resource == ResizableResource::Cpu
        && let (Some(now), Some(shares)) = (cgroup.cpu_shares, desired.cpu_shares)
    {
        let weight = CgroupLimits { cpu_shares: Some(shares), ..CgroupLimits::default() };
        match shares.cmp(&now) {
            Ordering::Greater => steps.before.push(weight),
            Ordering::Less => steps.after.insert(0, weight),
            Ordering::Equal => {}
        }
    }
    steps
}

/// The container with one resource at its desired size and the other at its current size.
pub fn resized_container(
    container: &Container,
    update: &ContainerResize,
    resource: ResizableResource,
) -> Container {
    let (memory, cpu) = match resource {
        ResizableResource::Memory => (update.desired, update.current),
        ResizableResource::Cpu => (update.current, update.desired),
    };
    let mut copy = container.clone();
    let own = copy.resources.get_or_insert_default();
    // A missing amount becomes 0, as upstream's: a container without a CPU request gets the smallest weight, not that of its
    // limit. The status shows these quantities, so they are in upstream's notation.
    let put = |list: &mut ResourceList, name: &str, amount: i64, text: fn(i64) -> String| {
        list.insert(name.to_owned(), Quantity(text(amount)));
    };
    let limits = own.limits.get_or_insert_default();
    put(limits, "cpu", cpu.cpu_limit, decimal_si_from_milli);
    put(limits, "memory", memory.memory_limit, binary_si);
    let requests = own.requests.get_or_insert_default();
    put(requests, "cpu", cpu.cpu_request, decimal_si_from_milli);
    put(requests, "memory", memory.memory_request, binary_si);
    copy
}

/// Shrinking memory limits with their new values; `None` stands for the pod.
pub fn shrinking_memory_limits<'a>(
    plan: &'a ResizePlan,
    cgroup: &CgroupLimits,
    desired: &CgroupLimits,
) -> Vec<(Option<&'a ContainerResize>, i64)> {
    if plan.memory.is_empty() && !plan.pod_cgroup && plan.restart.is_empty() {
        return Vec::new();
    }
    let pod = desired
        .memory
        .filter(|limit| cgroup.memory.is_none_or(|now| *limit < now && !same_bytes(*limit, now)));
    let shrinks = |update: &&ContainerResize| {
        let (now, limit) = (update.current.memory_limit, update.desired.memory_limit);
        limit != 0 && (now == 0 || limit < now)
    };
    let containers =
        plan.memory.iter().filter(shrinks).map(|update| (Some(update), update.desired.memory_limit));
    pod.map(|limit| (None, limit)).into_iter().chain(containers).collect()
}

/// Whether the resources that the runtime reports equal the desired ones, so that an agent without a record of them need not
/// update the container.
pub fn matches_reported(reported: &LinuxResources, desired: &LinuxResources) -> bool {
    reported.memory_limit_bytes == desired.memory_limit_bytes
        && reported.cpu_shares == desired.cpu_shares
        && reported.cpu_quota.max(0) == desired.cpu_quota.max(0)
}

/// Whether the limits of a pod's cgroup differ from the desired ones. Rounding by the kernel and missing values do not count.
fn cgroup_differs(cgroup: &CgroupLimits, desired: &CgroupLimits) -> bool {
    let memory =
        matches!((cgroup.memory, desired.memory), (Some(now), Some(limit)) if !same_bytes(now, limit));
    let quota = matches!((cgroup.cpu_quota, desired.cpu_quota), (Some(now), Some(limit)) if now.max(-1) != limit.max(-1));
    let shares =
        matches!((cgroup.cpu_shares, desired.cpu_shares), (Some(now), Some(shares)) if now != shares);
    memory || quota || shares
}

/// The limits read from a cgroup, with the desired value in place of one that is the desired value as rounded by the kernel
/// or the cgroup driver.
pub fn undo_rounding(
    cgroup: CgroupLimits,
    desired: &CgroupLimits,
    driver: CgroupDriver,
    version: CgroupVersion,
) -> CgroupLimits {
    let shares =
        desired.cpu_shares.filter(|shares| cgroup.cpu_shares == Some(rounded_shares(*shares, version)));
    let quota = desired.cpu_quota.filter(|_| cgroup.cpu_quota == desired.as_set_by(driver).cpu_quota);
    CgroupLimits { cpu_shares: shares.or(cgroup.cpu_shares), cpu_quota: quota.or(cgroup.cpu_quota), ..cgroup }
}

/// The CPU shares that are read back from a cgroup of this version after writing `shares`.
fn rounded_shares(shares: u64, version: CgroupVersion) -> u64 {
    match version {
        CgroupVersion::V1 => shares,
        CgroupVersion::V2 => {
            let weight = 1 + (shares.clamp(2, 262_144) - 2) * 9_999 / 262_142;
            (weight - 1) * 262_142 / 9_999 + 2
        }
    }
}

/// The kernel rounds limits to pages, which may be as large as 64 KiB.
fn same_bytes(one: i64, other: i64) -> bool {
    one / 65_536 == other / 65_536
}

/// Limits of the pod's cgroup without overhead, which the runtime receives for information.
pub fn sandbox_totals(cgroup: &CgroupLimits, pod: &Pod, settings: &NodeSettings) -> LinuxResources {
    let overhead = |name| amount_in(pod.spec.overhead.as_ref(), name);
    let period = cgroup.cpu_period.and_then(|period| i64::try_from(period).ok()).unwrap_or(0);
    let shares = i64::try_from(cgroup.cpu_shares.unwrap_or(0)).unwrap_or(i64::MAX);
    let cpu = overhead("cpu").milli();
    let quota = cgroup.cpu_quota.unwrap_or(0);
    let own_quota =
        if quota > 0 { quota - crate::pod_resources::resources::cfs_quota(cpu, period) } else { quota };
    LinuxResources {
        cpu_period: if settings.cpu_cfs_quota { period } else { 0 },
        cpu_quota: own_quota,
        cpu_shares: if cpu > 0 { cpu_shares(shares * 1000 / 1024 - cpu) } else { shares },
        memory_limit_bytes: cgroup.memory.map_or(0, |memory| memory - overhead("memory").units()),
        ..LinuxResources::default()
    }
}

/// Compares the desired limit with the current one, or the requests if the limits are equal.
fn change(limit: (i64, i64), request: (i64, i64)) -> Ordering {
    let (now, desired) = if limit.0 == limit.1 { request } else { limit };
    desired.cmp(&now)
}

#[cfg(test)]
mod tests;
