//! The pods of the matrix and their resizes.

use scenarios::{container, pod, with};
use serde_json::{Value, json};

/// Each pod is resized twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Up,
    /// Below the sizes at the start.
    Down,
}

/// A pod and its patches.
pub(super) struct Case {
    pub(super) pod: Value,
    up: Value,
    down: Value,
}

impl Case {
    pub(super) fn patch(&self, step: Step) -> &Value {
        match step {
            Step::Up => &self.up,
            Step::Down => &self.down,
        }
    }
}

/// CPU in millicores and memory in MiB.
#[derive(Clone, Copy)]
struct Sizes {
    requests: [u32; 2],
    limits: [u32; 2],
}

const BASE: Sizes = Sizes { requests: [6, 12], limits: [200, 48] };
const UP: Sizes = Sizes { requests: [9, 18], limits: [303, 64] };
const DOWN: Sizes = Sizes { requests: [4, 8], limits: [150, 32] };
/// Containers that are not resized.
const FIXED: Sizes = Sizes { requests: [3, 4], limits: [100, 24] };

#[derive(Clone, Copy, Debug)]
enum Resource {
    Cpu,
    Memory,
    Both,
}

#[derive(Clone, Copy, Debug)]
enum Requirement {
    Requests,
    Limits,
    Both,
}

/// What a resize changes.
type Change = (Resource, Requirement);

/// Resize policies of CPU and memory.
type Policies = [&'static str; 2];

const IN_PLACE: Policies = ["NotRequired", "NotRequired"];
const RESTART: Policies = ["RestartContainer", "RestartContainer"];
const RESTART_FOR_MEMORY: Policies = ["NotRequired", "RestartContainer"];

/// Every combination of level, resource, requirement and policy, where upstream distinguishes them.
pub(super) fn cases() -> Vec<Case> {
    let every = |resources: &'static [Resource]| {
        let requirements = [Requirement::Requests, Requirement::Limits, Requirement::Both];
        resources.iter().flat_map(move |resource| requirements.map(|requirement| (*resource, requirement)))
    };
    let all = || every(&[Resource::Cpu, Resource::Memory, Resource::Both]);
    let mut cases = Vec::new();
    for policies in [IN_PLACE, RESTART] {
        cases.extend(all().map(|change| regular(change, policies)));
        cases.extend(all().map(|change| pod_level(change, policies)));
        cases.extend(every(&[Resource::Both]).map(|change| sidecar(change, policies)));
        cases.extend(every(&[Resource::Both]).map(|change| both_levels(change, policies)));
        cases.extend([Resource::Cpu, Resource::Memory].map(|resource| guaranteed(resource, policies)));
        cases.extend([Resource::Cpu, Resource::Memory].map(|resource| guaranteed_pod(resource, policies)));
        cases.push(added_limits(policies));
        cases.push(added_request(policies));
    }
    cases.extend(every(&[Resource::Cpu, Resource::Memory]).map(|change| regular(change, RESTART_FOR_MEMORY)));
    cases.extend(every(&[Resource::Both]).map(init));
    cases
}

fn regular(change: Change, policies: Policies) -> Case {
    let main = sized("main", BASE, policies);
    let patch = |sizes: Sizes| patch("containers", "main", &resources(changed(change, sizes)));
    case(pod(&name("regular", change, policies), [main, fixed("other")]), patch)
}

fn sidecar(change: Change, policies: Policies) -> Case {
    let side = with(sized("side", BASE, policies), "/restartPolicy", json!("Always"));
    let pod = pod(&name("sidecar", change, policies), [fixed("main")]);
    let patch = |sizes: Sizes| patch("initContainers", "side", &resources(changed(change, sizes)));
    case(with(pod, "/spec/initContainers", json!([side])), patch)
}

/// An init container that runs until the end; its policy cannot be `RestartContainer`.
fn init(change: Change) -> Case {
    let init = with(container("init", "sleep forever"), "/resources", resources(BASE));
    let pod = pod(&name("init", change, IN_PLACE), [fixed("main")]);
    let patch = |sizes: Sizes| patch("initContainers", "init", &resources(changed(change, sizes)));
    case(with(pod, "/spec/initContainers", json!([init])), patch)
}

/// One container without resources, which gets the pod's limits, and one with its own.
fn pod_level(change: Change, policies: Policies) -> Case {
    let open = with(container("open", "sleep forever"), "/resizePolicy", resize_policy(policies));
    let pod = pod(&name("pod", change, policies), [open, sized("own", FIXED, policies)]);
    let patch = |sizes: Sizes| json!({"spec": {"resources": resources(changed(change, sizes))}});
    case(with(pod, "/spec/resources", resources(BASE)), patch)
}

/// A resize at both levels at once.
fn both_levels(change: Change, policies: Policies) -> Case {
    let double = |sizes: Sizes| Sizes {
        requests: sizes.requests.map(|size| size * 2),
        limits: sizes.limits.map(|size| size * 2),
    };
    let pod = pod(&name("levels", change, policies), [sized("main", BASE, policies)]);
    let patch = |sizes: Sizes| {
        let sizes = changed(change, sizes);
        let main = json!({"name": "main", "resources": resources(sizes)});
        json!({"spec": {"resources": resources(double(sizes)), "containers": [main]}})
    };
    case(with(pod, "/spec/resources", resources(double(BASE))), patch)
}

/// Requests equal limits.
fn guaranteed_sizes(resource: Resource, sizes: Sizes) -> Sizes {
    let base = [50, 48];
    let step = [sizes.requests[0] + 44, sizes.limits[1]];
    let all = match resource {
        Resource::Cpu => [step[0], base[1]],
        Resource::Memory => [base[0], step[1]],
        Resource::Both => step,
    };
    Sizes { requests: all, limits: all }
}

fn guaranteed(resource: Resource, policies: Policies) -> Case {
    let main = sized("main", guaranteed_sizes(resource, BASE), policies);
    let patch = |sizes: Sizes| patch("containers", "main", &resources(guaranteed_sizes(resource, sizes)));
    case(pod(&name("guaranteed", (resource, Requirement::Both), policies), [main]), patch)
}

fn guaranteed_pod(resource: Resource, policies: Policies) -> Case {
    let open = with(container("open", "sleep forever"), "/resizePolicy", resize_policy(policies));
    let pod = pod(&name("guaranteed-pod", (resource, Requirement::Both), policies), [open]);
    let patch = |sizes: Sizes| json!({"spec": {"resources": resources(guaranteed_sizes(resource, sizes))}});
    case(with(pod, "/spec/resources", resources(guaranteed_sizes(resource, BASE))), patch)
}

/// The first resize adds limits to a container that has none.
fn added_limits(policies: Policies) -> Case {
    let main = sized("main", BASE, policies);
    let main = with(main, "/resources", json!({"requests": resources(BASE)["requests"]}));
    let name = format!("added-limits-{}", policy_name(policies));
    let sizes_of = |sizes: Sizes| Sizes { requests: BASE.requests, limits: sizes.limits };
    case(pod(&name, [main]), |sizes| patch("containers", "main", &resources(sizes_of(sizes))))
}

/// The first resize adds a CPU request to a container that has only a memory request.
fn added_request(policies: Policies) -> Case {
    let main = sized("main", BASE, policies);
    let main = with(main, "/resources", json!({"requests": {"memory": "12Mi"}}));
    let name = format!("added-request-{}", policy_name(policies));
    let requests =
        |sizes: Sizes| json!({"requests": {"cpu": format!("{}m", sizes.requests[0]), "memory": "12Mi"}});
    case(pod(&name, [main]), |sizes| patch("containers", "main", &requests(sizes)))
}

fn case(pod: Value, patch: impl Fn(Sizes) -> Value) -> Case {
    let pod = with(pod, "/spec/terminationGracePeriodSeconds", json!(1));
    Case { pod, up: patch(UP), down: patch(DOWN) }
}

fn patch(list: &str, name: &str, resources: &Value) -> Value {
    json!({"spec": {list: [{"name": name, "resources": resources}]}})
}

/// The sizes at the start with the changed ones of a step.
fn changed((resource, requirement): Change, step: Sizes) -> Sizes {
    let of = |old: [u32; 2], new: [u32; 2]| match resource {
        Resource::Cpu => [new[0], old[1]],
        Resource::Memory => [old[0], new[1]],
        Resource::Both => new,
    };
    let (requests, limits) = (of(BASE.requests, step.requests), of(BASE.limits, step.limits));
    match requirement {
        Requirement::Requests => Sizes { requests, limits: BASE.limits },
        Requirement::Limits => Sizes { requests: BASE.requests, limits },
        Requirement::Both => Sizes { requests, limits },
    }
}

fn sized(name: &str, sizes: Sizes, policies: Policies) -> Value {
    let container = with(container(name, "sleep forever"), "/resources", resources(sizes));
    with(container, "/resizePolicy", resize_policy(policies))
}

fn fixed(name: &str) -> Value {
    sized(name, FIXED, IN_PLACE)
}

fn resources(sizes: Sizes) -> Value {
    let list = |[cpu, memory]: [u32; 2]| json!({"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")});
    json!({"requests": list(sizes.requests), "limits": list(sizes.limits)})
}

fn resize_policy([cpu, memory]: Policies) -> Value {
    json!([
        {"resourceName": "cpu", "restartPolicy": cpu},
        {"resourceName": "memory", "restartPolicy": memory},
    ])
}

fn policy_name(policies: Policies) -> &'static str {
    match policies {
        IN_PLACE => "in-place",
        RESTART => "restart",
        _ => "mixed",
    }
}

fn name(kind: &str, (resource, requirement): Change, policies: Policies) -> String {
    format!("{kind}-{resource:?}-{requirement:?}-{}", policy_name(policies)).to_lowercase()
}
