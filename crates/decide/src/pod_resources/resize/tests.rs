use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::cgroups::cgroup_limits::pod_cgroup_limits;
use crate::pod_resources::allocation::resources_of;
use crate::runtime_spec::pod_paths::tests::settings;
use crate::test_objects::{self, container, observed};

const MI: i64 = 1 << 20;

fn own(name: &str, cpu: &str, memory: &str) -> Value {
    let list = json!({"cpu": cpu, "memory": memory});
    json!({"name": name, "resources": {"requests": list, "limits": list}})
}

fn pod(containers: &[Value]) -> Pod {
    test_objects::pod(json!({"containers": containers}))
}

fn running(names: &[&str]) -> ObservedPod {
    observed(Vec::new(), names.iter().map(|name| container(name, name, 0, ContainerState::Running)).collect())
}

/// The cgroup limits of a pod as read from the kernel.
fn cgroup(pod: &Pod) -> CgroupLimits {
    let limits = pod_cgroup_limits(pod, &settings());
    CgroupLimits { hugepages: Default::default(), pids: None, ..limits }
}

fn between(old: &Pod, new: &Pod) -> ResizePlan {
    let names: Vec<_> = old.containers().map(|entry| entry.container.name.as_str()).collect();
    plan(new, &running(&names), &resources_of(old), (&cgroup(old), &cgroup(new)), PodGates::default())
}

fn names(updates: &[ContainerResize]) -> Vec<&str> {
    updates.iter().map(|update| update.name.as_str()).collect()
}

#[test]
fn actuated_resources_need_no_resize() {
    let pod = pod(&[own("a", "1", "64Mi"), json!({"name": "b"})]);
    assert!(between(&pod, &pod).is_empty());
    assert!(!is_in_progress(&pod, &running(&["a", "b"]), &resources_of(&pod), PodGates::default()));
}

#[test]
fn shrinking_containers_come_before_growing_ones() {
    let old = pod(&[own("grow", "1", "64Mi"), own("shrink", "1", "64Mi"), own("same", "1", "64Mi")]);
    let new = pod(&[own("grow", "2", "128Mi"), own("shrink", "500m", "32Mi"), own("same", "1", "64Mi")]);
    let plan = between(&old, &new);
    assert_eq!((names(&plan.memory), names(&plan.cpu)), (vec!["shrink", "grow"], vec!["shrink", "grow"]));
    assert!(plan.pod_cgroup && plan.restart.is_empty());
    assert!(is_in_progress(
        &new,
        &running(&["grow", "shrink", "same"]),
        &resources_of(&old),
        PodGates::default()
    ));
}

#[test]
fn resize_of_one_resource_does_not_touch_the_other() {
    let plan = between(&pod(&[own("a", "1", "64Mi")]), &pod(&[own("a", "2", "64Mi")]));
    assert!(plan.memory.is_empty());
    let update = &plan.cpu[0];
    assert_eq!((update.current.cpu_limit, update.desired.cpu_limit), (1000, 2000));
    // A changed request alone is a resize too.
    let weight = |cpu: &str| pod(&[json!({"name": "a", "resources": {"requests": {"cpu": cpu}}})]);
    assert_eq!(names(&between(&weight("1"), &weight("2")).cpu), ["a"]);
}

#[test]
fn resize_policy_can_require_restart() {
    let with = |cpu: &str, memory: &str| {
        let mut own = own("a", cpu, memory);
        own["resizePolicy"] = json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
        pod(&[own])
    };
    let plan = between(&with("1", "64Mi"), &with("2", "128Mi"));
    assert_eq!(plan.restart.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["a"]);
    assert!(plan.memory.is_empty() && plan.cpu.is_empty() && plan.pod_cgroup);
    let plan = between(&with("1", "64Mi"), &with("2", "64Mi"));
    assert!(plan.restart.is_empty());
    assert_eq!(names(&plan.cpu), ["a"]);
}

#[test]
fn resizes_sidecars_and_gated_init_containers() {
    let with = |cpu: &str| {
        let mut side = own("side", cpu, "64Mi");
        side["restartPolicy"] = json!("Always");
        test_objects::pod(json!({
            "containers": [own("main", "1", "64Mi")], "initContainers": [own("init", cpu, "64Mi"), side],
        }))
    };
    assert_eq!(names(&between(&with("1"), &with("2")).cpu), ["init", "side"]);
    let (old, new) = (with("1"), with("2"));
    let without = |observed: &ObservedPod| {
        let gates = PodGates { init_container_resize: false, ..PodGates::default() };
        plan(&new, observed, &resources_of(&old), (&cgroup(&old), &cgroup(&new)), gates)
    };
    assert_eq!(names(&without(&running(&["init", "side", "main"])).cpu), ["side"]);
}

#[test]
fn init_container_is_never_restarted_for_resize() {
    let with = |cpu: &str| {
        let mut init = own("init", cpu, "64Mi");
        init["resizePolicy"] = json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
        test_objects::pod(json!({"containers": [own("main", "1", "64Mi")], "initContainers": [init]}))
    };
    let plan = between(&with("1"), &with("2"));
    assert!(plan.restart.is_empty());
    assert_eq!(names(&plan.cpu), ["init"]);
}

#[test]
fn restarted_sidecars_start_before_regular_containers() {
    let restart = |name: &str, kind| KillContainer {
        id: name.into(),
        name: name.to_owned(),
        kind,
        reason: KillReason::ResizeRestart,
        restart: true,
    };
    let plan = ResizePlan {
        restart: vec![restart("main", ContainerKind::Regular), restart("side", ContainerKind::Init)],
        ..ResizePlan::default()
    };
    let seen = observed(
        vec![test_objects::sandbox("s", 0, model::SandboxState::Ready)],
        vec![
            container("main", "main", 0, ContainerState::Running),
            container("side", "side", 0, ContainerState::Running),
        ],
    );
    let idle = test_objects::pod(json!({"containers": [{"name": "main"}]}));
    let mut actions = crate::pipeline::pod_actions::plan(&idle, &seen, &Default::default());
    add_restarts(&plan, &seen, &mut actions);
    assert_eq!(actions.start.iter().map(|start| start.name.as_str()).collect::<Vec<_>>(), ["side", "main"]);
}

#[test]
fn does_not_resize_stopped_containers() {
    let (old, new) = (pod(&[own("a", "1", "64Mi")]), pod(&[own("a", "2", "64Mi")]));
    let stopped = observed(Vec::new(), vec![container("a", "a", 0, ContainerState::Exited)]);
    let plan = plan(&new, &stopped, &resources_of(&old), (&cgroup(&old), &cgroup(&new)), PodGates::default());
    assert!(plan.cpu.is_empty() && plan.pod_cgroup);
    assert!(!is_in_progress(&new, &stopped, &resources_of(&old), PodGates::default()));
}

#[test]
fn corrects_stale_pod_cgroup_after_agent_was_killed() {
    let (old, new) = (pod(&[own("a", "1", "64Mi")]), pod(&[own("a", "2", "64Mi")]));
    let plan = plan(
        &new,
        &running(&["a"]),
        &resources_of(&new),
        (&cgroup(&old), &cgroup(&new)),
        PodGates::default(),
    );
    assert_eq!(plan, ResizePlan { pod_cgroup: true, ..ResizePlan::default() });
    // Missing and rounded values of the kernel are not a difference.
    let unknown = CgroupLimits::default();
    assert!(
        super::plan(
            &new,
            &running(&["a"]),
            &resources_of(&new),
            (&unknown, &cgroup(&new)),
            PodGates::default()
        )
        .is_empty()
    );
    let rounded = CgroupLimits { memory: Some(64 * MI + 4095), ..cgroup(&new) };
    assert!(
        super::plan(
            &new,
            &running(&["a"]),
            &resources_of(&new),
            (&cgroup(&new), &rounded),
            PodGates::default()
        )
        .is_empty()
    );
}

#[test]
fn pod_level_limits_apply_to_containers_without_limits() {
    let with = |cpu: &str| {
        test_objects::pod(json!({
            "containers": [own("own", "1", "64Mi"), {"name": "open"}],
            "resources": {"limits": {"cpu": cpu, "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}},
        }))
    };
    let plan = between(&with("2"), &with("3"));
    assert_eq!(names(&plan.cpu), ["open"]);
    assert!(plan.pod_cgroup);
    let effective = effective_resources(&with("2"), &with("2").spec.containers[1]);
    assert_eq!(container_sizes(None, Some(&effective)).cpu_limit, 2000);
    assert!(is_in_progress(&with("3"), &running(&[]), &resources_of(&with("2")), PodGates::default()));
}

#[test]
fn memory_request_at_pod_level_is_a_resize_without_a_cgroup_change() {
    let with = |request: &str| {
        test_objects::pod(json!({
            "containers": [own("a", "1", "32Mi")],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": request}},
        }))
    };
    let (old, new) = (with("64Mi"), with("96Mi"));
    assert_eq!(between(&old, &new), ResizePlan { pod_level: true, ..ResizePlan::default() });
    let in_progress =
        |actuated: &PodResources, gates| is_in_progress(&new, &running(&["a"]), actuated, gates);
    assert!(in_progress(&resources_of(&old), PodGates::default()));
    assert!(!in_progress(&resources_of(&new), PodGates::default()));
    let disabled = PodGates { pod_level_resize: false, ..PodGates::default() };
    assert!(!in_progress(&resources_of(&old), disabled));
    // Without a record the resources are recorded, but no resize is reported.
    let unrecorded = PodResources { pod: None, ..resources_of(&new) };
    let limits = cgroup(&new);
    let plan = plan(&new, &running(&["a"]), &unrecorded, (&limits, &limits), PodGates::default());
    assert_eq!(plan, ResizePlan { pod_level: true, ..ResizePlan::default() });
    assert!(!in_progress(&unrecorded, PodGates::default()));
}

fn memory(bytes: i64) -> CgroupLimits {
    CgroupLimits { memory: Some(bytes), ..CgroupLimits::default() }
}

fn cpu(shares: u64, quota: i64) -> CgroupLimits {
    CgroupLimits {
        cpu_shares: Some(shares),
        cpu_quota: Some(quota),
        cpu_period: Some(100_000),
        ..CgroupLimits::default()
    }
}

#[test]
fn pod_cgroup_grows_before_containers_and_shrinks_after() {
    let steps = pod_cgroup_steps(ResizableResource::Memory, &memory(64 * MI), &memory(128 * MI));
    assert_eq!((steps.before, steps.after), (vec![memory(128 * MI)], vec![]));
    let steps = pod_cgroup_steps(ResizableResource::Memory, &memory(128 * MI), &memory(64 * MI));
    assert_eq!((steps.before, steps.after), (vec![], vec![memory(64 * MI)]));
    let quota = |quota| CgroupLimits { cpu_shares: None, ..cpu(0, quota) };
    let weight = |shares| CgroupLimits { cpu_shares: Some(shares), ..CgroupLimits::default() };
    let steps = pod_cgroup_steps(ResizableResource::Cpu, &cpu(1024, 100_000), &cpu(2048, 200_000));
    assert_eq!((steps.before, steps.after), (vec![quota(200_000), weight(2048)], vec![]));
    let steps = pod_cgroup_steps(ResizableResource::Cpu, &cpu(2048, 200_000), &cpu(1024, 100_000));
    assert_eq!((steps.before, steps.after), (vec![], vec![weight(1024), quota(100_000)]));
}

#[test]
fn no_limit_is_larger_than_any_and_undesired_limit_stays() {
    let steps = pod_cgroup_steps(ResizableResource::Memory, &CgroupLimits::default(), &memory(64 * MI));
    assert_eq!((steps.before, steps.after), (vec![], vec![memory(64 * MI)]));
    let steps = pod_cgroup_steps(ResizableResource::Memory, &memory(64 * MI), &CgroupLimits::default());
    assert_eq!((steps.before, steps.after), (vec![], vec![]));
    let steps = pod_cgroup_steps(ResizableResource::Cpu, &cpu(1024, -1), &cpu(1024, 100_000));
    assert_eq!(steps.before, []);
    assert_eq!(steps.after.len(), 1);
}

#[test]
fn resizes_one_resource_with_the_other_at_current_size() {
    let (old, new) = (pod(&[own("a", "1", "64Mi")]), pod(&[own("a", "2", "128Mi")]));
    let plan = between(&old, &new);
    let target = &new.spec.containers[0];
    let first = resized_container(target, &plan.memory[0], ResizableResource::Memory);
    let both = |container: &Container| container_sizes(None, container.resources.as_ref());
    assert_eq!((both(&first).memory_limit, both(&first).cpu_limit), (128 * MI, 1000));
    let second = resized_container(target, &plan.cpu[0], ResizableResource::Cpu);
    assert_eq!((both(&second).memory_limit, both(&second).cpu_limit), (64 * MI, 2000));
    let requests = first.resources.unwrap().requests.unwrap();
    assert_eq!((requests["memory"].0.as_str(), requests["cpu"].0.as_str()), ("128Mi", "1"));
}

#[test]
fn resized_container_without_cpu_request_has_the_smallest_weight() {
    let with = |cpu: &str| {
        test_objects::pod(json!({
            "containers": [{"name": "a"}],
            "resources": {"limits": {"cpu": cpu, "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}},
        }))
    };
    let (old, new) = (with("2"), with("3"));
    let resized =
        resized_container(&new.spec.containers[0], &between(&old, &new).cpu[0], ResizableResource::Cpu);
    let resources = crate::pod_resources::resources::container_resources(&new, &resized, &settings());
    assert_eq!((resources.cpu_shares, resources.cpu_quota), (2, 300_000));
}

#[test]
fn lists_shrinking_memory_limits() {
    let (old, new) = (
        pod(&[own("a", "1", "64Mi"), own("b", "1", "64Mi")]),
        pod(&[own("a", "1", "32Mi"), own("b", "1", "80Mi")]),
    );
    let plan = between(&old, &new);
    let found = shrinking_memory_limits(&plan, &cgroup(&old), &cgroup(&new));
    let found: Vec<_> =
        found.into_iter().map(|(update, limit)| (update.map(|one| one.name.as_str()), limit)).collect();
    assert_eq!(found, [(None, 112 * MI), (Some("a"), 32 * MI)]);
    assert!(shrinking_memory_limits(&between(&new, &new), &cgroup(&old), &cgroup(&new)).is_empty());
}

#[test]
fn rounded_limits_of_a_cgroup_equal_the_desired_ones() {
    for (driver, version, read, expected) in [
        (CgroupDriver::Cgroupfs, CgroupVersion::V1, cpu(1024, 60_500), cpu(1024, 60_500)),
        (CgroupDriver::Cgroupfs, CgroupVersion::V1, cpu(998, 61_000), cpu(998, 61_000)),
        (CgroupDriver::Cgroupfs, CgroupVersion::V2, cpu(998, 61_000), cpu(1024, 61_000)),
        (CgroupDriver::Systemd, CgroupVersion::V1, cpu(998, 61_000), cpu(998, 60_500)),
        (CgroupDriver::Systemd, CgroupVersion::V2, cpu(2, 50_000), cpu(2, 50_000)),
        (CgroupDriver::Systemd, CgroupVersion::V2, cpu(2, -1), cpu(2, -1)),
    ] {
        let text = format!("{driver:?} {version:?} {read:?}");
        assert_eq!(undo_rounding(read, &cpu(1024, 60_500), driver, version), expected, "{text}");
    }
    assert_eq!(rounded_shares(2, CgroupVersion::V2), 2);
}

proptest! {
    /// The limits of containers never exceed that of their pod, which some kernels would reject.
    #[test]
    fn containers_never_exceed_pod_limit_during_resize(
        old in proptest::collection::vec((1..64_i64, 1..64_i64), 1..4),
        new in proptest::collection::vec((1..64_i64, 1..64_i64), 4),
    ) {
        let make = |sizes: &[(i64, i64)]| {
            let all: Vec<_> = sizes.iter().enumerate()
                .map(|(index, (cpu, memory))| own(&index.to_string(), &format!("{}m", cpu * 100), &format!("{memory}Mi")))
                .collect();
            pod(&all)
        };
        let (old, new) = (make(&old), make(&new[..old.len()]));
        let plan = between(&old, &new);
        let steps = pod_cgroup_steps(ResizableResource::Memory, &cgroup(&old), &cgroup(&new));
        let limit = |pod: &Pod, name: &str| container_sizes(None, pod.container(name).unwrap().container.resources.as_ref()).memory_limit;
        let names: Vec<_> = old.containers().map(|entry| entry.container.name.clone()).collect();
        let mut limits: Vec<_> = names.iter().map(|name| (name, limit(&old, name))).collect();
        let mut of_pod = cgroup(&old).memory.unwrap();
        for step in &steps.before {
            of_pod = step.memory.unwrap();
        }
        for update in &plan.memory {
            limits.iter_mut().find(|(name, _)| **name == update.name).unwrap().1 = update.desired.memory_limit;
            prop_assert!(limits.iter().all(|(_, limit)| *limit <= of_pod));
        }
        for step in &steps.after {
            of_pod = step.memory.unwrap();
            prop_assert!(limits.iter().map(|(_, limit)| limit).sum::<i64>() <= of_pod);
        }
        prop_assert_eq!(of_pod, cgroup(&new).memory.unwrap());
        for (name, found) in limits {
            prop_assert_eq!(found, limit(&new, name));
        }
    }
}
