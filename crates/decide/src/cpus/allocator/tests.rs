use model::{CpuLocation, CpuPlacement, CpuPolicyOptions, CpuTopology};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::test_objects;

/// Cores with two CPUs each (`c` and `c + cores`), spread over NUMA nodes that are sockets.
fn machine(nodes: usize, cores_per_node: usize) -> CpuTopology {
    let cores = nodes * cores_per_node;
    let location = |cpu: usize| {
        let core = cpu % cores;
        let id = |number: usize| i32::try_from(number).unwrap();
        let node = id(core / cores_per_node);
        CpuLocation { numa_node: node, socket: node, core: id(core), uncore_cache: node }
    };
    CpuTopology {
        cpus: (0..2 * cores).map(|cpu| (u32::try_from(cpu).unwrap(), location(cpu))).collect(),
        cpu_count: 2 * cores,
        core_count: cores,
        socket_count: nodes,
    }
}

fn allocator(topology: CpuTopology, options: CpuPolicyOptions, reserved_milli: i64) -> CpuAllocator {
    let policy = StaticPolicy::new(topology, options, reserved_milli, &CpuSet::new()).unwrap();
    let assignments = policy.validate(CpuAssignments::default()).unwrap();
    CpuAllocator::new(policy, PodLevelManagement::Unmanaged, assignments)
}

fn container(name: &str, cpu: &str) -> Value {
    let resources = json!({"cpu": cpu, "memory": "1Mi"});
    json!({"name": name, "resources": {"requests": resources, "limits": resources}})
}

fn pod(uid: &str, cpu: &str) -> Pod {
    let pod = test_objects::pod(json!({"containers": [container("c", cpu)]}));
    Pod { uid: uid.into(), ..pod }
}

fn cpus_of(allocator: &CpuAllocator, uid: &str, name: &str) -> Option<String> {
    allocator.assignments().of(&uid.into(), name).map(ToString::to_string)
}

#[test]
fn only_whole_cpus_of_guaranteed_pods_are_exclusive() {
    let mut allocator = allocator(machine(1, 4), CpuPolicyOptions::default(), 500);
    let burstable = test_objects::pod(json!({"containers": [
        {"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Mi"}}},
    ]}));
    let pod_level = test_objects::pod(json!({
        "resources": {"requests": {"cpu": "2", "memory": "1Mi"}, "limits": {"cpu": "2", "memory": "1Mi"}},
        "containers": [container("c", "1")],
    }));
    for shared in [pod("fraction", "1500m"), burstable, pod_level] {
        let (report, result) = allocator.allocate_pod(&shared);
        assert_eq!((report.requests, result), (0, Ok(())));
    }
    assert_eq!(allocator.assignments().shared.to_string(), "0-7");
    assert_eq!(allocator.policy().reserved().to_string(), "0");
    let (report, _) = allocator.allocate_pod(&pod("u", "3"));
    let expected =
        AllocationReport { requests: 1, uncore_aligned: 1, from_node: 1, ..AllocationReport::default() };
    assert_eq!(report, expected);
    assert_eq!(cpus_of(&allocator, "u", "c").unwrap(), "1,4-5");
    assert_eq!(allocator.assignments().shared.to_string(), "0,2-3,6-7");
    assert_eq!(allocator.assignments().effective(&"other".into(), "c").to_string(), "0,2-3,6-7");
}

#[test]
fn regular_containers_reuse_cpus_of_init_containers_but_not_of_sidecars() {
    let mut allocator = allocator(machine(1, 4), CpuPolicyOptions::default(), 1000);
    let mut sidecar = container("sidecar", "1");
    sidecar["restartPolicy"] = json!("Always");
    let pod = test_objects::pod(json!({
        "initContainers": [container("init", "2"), sidecar],
        "containers": [container("app", "2")],
    }));
    allocator.allocate_pod(&pod).1.unwrap();
    let cpus = |name| allocator.assignments().of(&pod.uid, name).unwrap().clone();
    assert!(!cpus("app").is_disjoint(&cpus("init")));
    assert!(cpus("app").is_disjoint(&cpus("sidecar")));
    let again = allocator.clone().allocate_pod(&pod);
    assert_eq!(again.0.requests, 3, "containers with CPUs keep them");
    allocator.retain(|_, name| name != "init");
    let released = allocator.assignments().shared.clone();
    assert!(released.is_disjoint(allocator.assignments().of(&pod.uid, "app").unwrap()));
}

#[test]
fn rejections_have_the_texts_of_upstream() {
    let mut plain = allocator(machine(1, 2), CpuPolicyOptions::default(), 1000);
    let rejection = plain.allocate_pod(&pod("u", "4")).1.unwrap_err().rejection();
    assert_eq!(rejection.reason, "UnexpectedAdmissionError");
    assert_eq!(
        rejection.message,
        "Allocate failed due to not enough cpus available to satisfy request: requested=4, available=3, which is unexpected"
    );
    let options = CpuPolicyOptions { full_cores_only: true, ..CpuPolicyOptions::default() };
    let mut aligned = allocator(machine(1, 2), options, 1000);
    let rejection = aligned.allocate_pod(&pod("u", "3")).1.unwrap_err().rejection();
    assert_eq!(rejection.reason, "SMTAlignmentError");
    assert_eq!(rejection.message, "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2");
    let rejection = aligned.allocate_pod(&pod("u", "4")).1.unwrap_err().rejection();
    assert_eq!(
        rejection.message,
        "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = 2, requested CPUs = 4, CPUs per core = 2"
    );
}

#[test]
fn pod_that_has_its_cpus_passes_the_alignment_check_on_a_full_node() {
    let options = CpuPolicyOptions { full_cores_only: true, ..CpuPolicyOptions::default() };
    let mut allocator = allocator(machine(1, 2), options, 1000);
    allocator.allocate_pod(&pod("u", "2")).1.unwrap();
    assert_eq!(allocator.allocate_pod(&pod("u", "2")).1, Ok(()));
    assert!(allocator.allocate_pod(&pod("v", "2")).1.is_err());
}

#[test]
fn failed_pod_keeps_nothing() {
    let mut allocator = allocator(machine(1, 2), CpuPolicyOptions::default(), 1000);
    let before = allocator.assignments().clone();
    let pod = test_objects::pod(json!({"containers": [container("a", "2"), container("b", "2")]}));
    let (report, result) = allocator.allocate_pod(&pod);
    assert!(result.is_err());
    assert_eq!(report.requests, 2);
    assert_eq!(allocator.assignments(), &before);
}

#[test]
fn strict_reservation_keeps_reserved_cpus_out_of_the_shared_pool() {
    let options = CpuPolicyOptions { strict_reservation: true, ..CpuPolicyOptions::default() };
    let strict = allocator(machine(1, 4), options, 1000);
    assert_eq!(strict.assignments().shared.to_string(), "1-7");
    let stored = CpuAssignments { shared: "0-7".parse().unwrap(), ..CpuAssignments::default() };
    assert_eq!(
        strict.policy().validate(stored).unwrap_err().to_string(),
        "some of strictly reserved cpus: \"0\" are present in defaultCpuSet: \"0-7\""
    );
}

#[test]
fn stored_state_must_fit_the_machine() {
    let policy = allocator(machine(1, 4), CpuPolicyOptions::default(), 1000).policy().clone();
    let entry = |cpus: &str| [("u".into(), [("c".to_owned(), cpus.parse().unwrap())].into())].into();
    for (shared, exclusive, text) in [
        ("", entry("1"), "default cpuset cannot be empty"),
        ("1-7", BTreeMap::new(), "not all reserved cpus: \"0\" are present in defaultCpuSet: \"1-7\""),
        ("0-7", entry("1"), "pod: u, container: c cpuset: \"1\" overlaps with default cpuset \"0-7\""),
        (
            "0,2-8",
            entry("1"),
            "current set of available CPUs \"0-7\" doesn't match with CPUs in state \"0-8\"",
        ),
    ] {
        let stored =
            CpuAssignments { shared: shared.parse().unwrap(), exclusive, ..CpuAssignments::default() };
        assert_eq!(policy.validate(stored).unwrap_err().to_string(), text);
    }
    let shared = "0,2-7".parse().unwrap();
    let stored = CpuAssignments { shared, exclusive: entry("1"), ..CpuAssignments::default() };
    assert_eq!(policy.validate(stored.clone()).unwrap(), stored);
}

#[test]
fn policy_needs_a_reservation_that_the_machine_has() {
    let new = |milli, configured: &str, options| {
        StaticPolicy::new(machine(1, 2), options, milli, &configured.parse().unwrap())
            .unwrap_err()
            .to_string()
    };
    let none = CpuPolicyOptions::default();
    assert_eq!(
        new(0, "", none),
        "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero"
    );
    assert_eq!(
        new(9000, "", none),
        "new static policy error: [cpumanager] unable to reserve the required amount of CPUs (size of  did not equal 9)"
    );
    assert_eq!(
        new(1000, "9", none),
        "new static policy error: [cpumanager] unable to build the reserved physical CPUs from the reserved set: unknown CPU ID: 9"
    );
}

fn options() -> impl Strategy<Value = CpuPolicyOptions> {
    let placements = [
        CpuPlacement::Packed,
        CpuPlacement::PackedByUncoreCache,
        CpuPlacement::AcrossNumaNodes,
        CpuPlacement::AcrossCores,
    ];
    (prop::sample::select(placements.to_vec()), any::<bool>(), any::<bool>()).prop_map(
        |(placement, full_cores_only, strict_reservation)| CpuPolicyOptions {
            placement,
            full_cores_only: full_cores_only && placement != CpuPlacement::AcrossCores,
            strict_reservation,
            align_by_socket: false,
        },
    )
}

proptest! {
    /// Pods come and go: no CPU has two owners, reserved CPUs are never exclusive, nothing is lost, and at the end all
    /// CPUs are shared again.
    #[test]
    fn allocations_are_disjoint_and_releasing_them_is_the_identity(
        nodes in 1_usize..5,
        cores in 1_usize..5,
        options in options(),
        steps in prop::collection::vec((1_u32..6, 0_usize..8, any::<bool>()), 1..20),
    ) {
        let mut allocator = allocator(machine(nodes, cores), options, 1000);
        let initial = allocator.assignments().clone();
        for (count, uid, is_removal) in steps {
            let uid = format!("u{uid}");
            if is_removal {
                allocator.retain(|pod, _| pod.as_str() != uid);
            } else {
                let _ = allocator.allocate_pod(&pod(&uid, &count.to_string()));
            }
            let assignments = allocator.assignments();
            let sets = assignments.exclusive.values().flat_map(|own| own.values());
            let sum: usize = sets.map(CpuSet::len).sum();
            prop_assert_eq!(sum, assignments.assigned().len());
            prop_assert!(assignments.assigned().is_disjoint(allocator.policy().reserved()));
            prop_assert_eq!(assignments.shared.union(&assignments.assigned()), initial.shared.clone());
            prop_assert!(assignments.shared.is_disjoint(&assignments.assigned()));
            // A restart with this state changes nothing, unless strict reservation left no shared CPU.
            if !assignments.shared.is_empty() {
                prop_assert_eq!(&allocator.policy().validate(assignments.clone()).unwrap(), assignments);
            }
        }
        allocator.retain(|_, _| false);
        prop_assert_eq!(allocator.assignments(), &initial);
    }
}
