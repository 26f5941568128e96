//! Compares the CPUs and memory of pods with pod-level resources with upstream's choices. `tools/cpusets` wrote the file.

use std::collections::BTreeMap;
use std::io::Read as _;

use flate2::read::GzDecoder;
use model::{
    CpuLocation, CpuPolicyOptions, CpuTopology, NumaMask, NumaNode, Pod, PodLevelManagement, PodUid,
    ResourceHints, TopologyHint,
};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};
use values::cpu_set::CpuSet;

use crate::cpus::golden_tests::placement;
use crate::cpus::{self, AllocationReport, CpuAllocator, CpuAssignments, StaticPolicy};
use crate::memory::tests::{Hint, golden, sorted, with_sorted_blocks};
use crate::memory::{self, MemoryAllocator, MemoryPolicy, MemoryReservations, MemoryState};
use crate::test_objects;

/// Written by upstream's code: `cpusets pods 500 1`.
const SCENARIOS: &[u8] = include_bytes!("../testdata/whole_pods.txt.gz");

const MANAGED: PodLevelManagement = PodLevelManagement::PerPod;
const ANYWHERE: TopologyHint = TopologyHint { nodes: None, preferred: false };

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Scenario {
    sockets: usize,
    cores: usize,
    cpus: Vec<[i32; 5]>,
    options: Vec<String>,
    reserved: i64,
    nodes: Vec<Node>,
    memory: MemoryReservations,
    steps: Vec<Step>,
    cpu_file: String,
    memory_file: String,
}

#[derive(Deserialize)]
struct Node {
    id: i32,
    memory: u64,
    huge: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Step {
    #[serde(default)]
    remove: String,
    #[serde(default)]
    pod: String,
    #[serde(default)]
    requests: BTreeMap<String, u64>,
    #[serde(default)]
    containers: Vec<GoldenContainer>,
    cpu_hints: Option<BTreeMap<String, Vec<Hint>>>,
    memory_hints: Option<BTreeMap<String, Vec<Hint>>>,
    given: Hint,
    #[serde(default)]
    cpu_error: String,
    #[serde(default)]
    memory_error: String,
}

#[derive(Deserialize)]
struct GoldenContainer {
    name: String,
    kind: String,
    requests: BTreeMap<String, u64>,
}

struct Managers {
    cpus: CpuAllocator,
    memory: MemoryAllocator,
    memory_policy: MemoryPolicy,
}

fn resources(requests: &BTreeMap<String, u64>) -> Value {
    let amount = |(name, size): (&String, &u64)| {
        let text = if name == "cpu" { format!("{size}m") } else { size.to_string() };
        (name.clone(), text)
    };
    let list: BTreeMap<String, String> = requests.iter().map(amount).collect();
    if list.is_empty() { json!({}) } else { json!({"requests": list, "limits": list}) }
}

impl Step {
    fn pod(&self) -> Pod {
        let of_kinds = |kinds: &str| {
            let chosen = self.containers.iter().filter(|own| kinds.contains(&own.kind));
            chosen.map(GoldenContainer::json).collect::<Vec<_>>()
        };
        let spec = json!({
            "resources": resources(&self.requests),
            "initContainers": of_kinds("is"),
            "containers": of_kinds("r"),
        });
        Pod { uid: self.pod.as_str().into(), ..test_objects::pod(spec) }
    }
}

impl GoldenContainer {
    fn json(&self) -> Value {
        let mut container = json!({"name": self.name, "resources": resources(&self.requests)});
        if self.kind == "s" {
            container["restartPolicy"] = json!("Always");
        }
        container
    }
}

impl Scenario {
    fn managers(&self) -> Managers {
        let location = |[_, numa_node, socket, core, uncore_cache]: [i32; 5]| CpuLocation {
            numa_node,
            socket,
            core,
            uncore_cache,
        };
        let topology = CpuTopology {
            cpus: self.cpus.iter().map(|cpu| (u32::try_from(cpu[0]).unwrap(), location(*cpu))).collect(),
            cpu_count: self.cpus.len(),
            core_count: self.cores,
            socket_count: self.sockets,
        };
        let has = |name: &str| self.options.iter().any(|option| option == name);
        let options = CpuPolicyOptions {
            placement: placement(has),
            full_cores_only: has("full-pcpus-only"),
            strict_reservation: has("strict-cpu-reservation"),
            align_by_socket: false,
        };
        let policy = StaticPolicy::new(topology, options, self.reserved * 1000, &CpuSet::new()).unwrap();
        let assignments = policy.validate(CpuAssignments::default()).unwrap();
        let node = |node: &Node| NumaNode {
            id: node.id,
            memory: node.memory,
            huge_pages: node.huge.clone(),
            distances: None,
        };
        let nodes: Vec<NumaNode> = self.nodes.iter().map(node).collect();
        let total: u64 = self.memory.values().flat_map(BTreeMap::values).sum();
        let reserved = [("memory".to_owned(), i64::try_from(total).unwrap())].into();
        let memory_policy = MemoryPolicy::new(&nodes, &self.memory, &reserved).unwrap();
        let state = memory_policy.validate(MemoryState::default()).unwrap();
        Managers {
            cpus: CpuAllocator::new(policy, MANAGED, assignments),
            memory: MemoryAllocator::new(MANAGED, state),
            memory_policy,
        }
    }

    /// Returns the number of pods with CPUs or memory.
    fn replay(&self, line: &str) -> usize {
        let mut managers = self.managers();
        let mut admitted = 0;
        for step in &self.steps {
            if !step.remove.is_empty() {
                managers.remove(&step.remove);
                continue;
            }
            let pod = step.pod();
            let context = format!("{} {line}", step.pod);
            let found = [managers.cpus.pod_hints(&pod), managers.memory.pod_hints(&pod)];
            let expected = [&step.cpu_hints, &step.memory_hints].map(|hints| golden(hints.as_ref()));
            assert_eq!(found.map(|hints| sorted(&hints)), expected, "{context}");
            let mut report = AllocationReport::default();
            let given = step.given.hint();
            let result = managers.cpus.allocate_whole_pod(&pod, given.nodes, &mut report);
            assert_eq!(
                result.map_err(|error| error.to_string()).err().unwrap_or_default(),
                step.cpu_error,
                "{context}"
            );
            if !step.cpu_error.is_empty() {
                continue;
            }
            let result = managers.memory.allocate_whole_pod(&pod, given);
            let error = result.map_err(|error| error.to_string()).err().unwrap_or_default();
            assert_eq!(without_kind(&error), without_kind(&step.memory_error), "{context}");
            if error.is_empty() {
                admitted += 1;
            } else {
                managers.remove(&step.pod);
            }
        }
        managers.check_files(self, line);
        admitted
    }
}

impl Managers {
    fn remove(&mut self, uid: &str) {
        self.cpus.retain(|pod, _| pod.as_str() != uid);
        self.memory.retain(|pod, _| pod.as_str() != uid);
    }

    fn check_files(&self, scenario: &Scenario, line: &str) {
        let file = scenario.cpu_file.as_bytes();
        let stored = cpus::state_file::decode("static", MANAGED, file).unwrap();
        assert_eq!(self.cpus.assignments(), &stored, "{line}");
        let written = cpus::state_file::encode("static", MANAGED, &stored);
        assert_eq!(String::from_utf8(written).unwrap(), scenario.cpu_file);
        let file = scenario.memory_file.as_bytes();
        let stored = memory::state_file::decode("Static", MANAGED, file).unwrap();
        assert_eq!(
            with_sorted_blocks(self.memory.state().clone()),
            with_sorted_blocks(stored.clone()),
            "{line}"
        );
        let written = memory::state_file::encode("Static", MANAGED, &stored);
        assert_eq!(String::from_utf8(written).unwrap(), scenario.memory_file);
        if self.cpus.assignments().shared.is_empty() {
            return;
        }
        assert_eq!(
            self.cpus.policy().validate(self.cpus.assignments().clone()).as_ref(),
            Ok(self.cpus.assignments())
        );
    }
}

/// The texts name one kind of memory of which nothing is left; upstream picks any.
fn without_kind(text: &str) -> String {
    text.replace("hugepages-2Mi", "memory")
}

#[test]
fn every_division_of_a_pod_equals_upstreams() {
    let mut text = String::new();
    GzDecoder::new(SCENARIOS).read_to_string(&mut text).unwrap();
    let admitted: Vec<usize> =
        text.lines().map(|line| serde_json::from_str::<Scenario>(line).unwrap().replay(line)).collect();
    let pods: usize = admitted.iter().sum();
    assert!(admitted.len() == 500 && pods > 1000, "{} scenarios, {pods} pods", admitted.len());
}

/// Two NUMA nodes with four CPUs and 1000 bytes each, of which one CPU and 100 bytes are reserved.
fn managers() -> Managers {
    let cpu = |cpu: i32| [cpu, cpu / 4, cpu / 4, cpu, cpu / 4];
    let scenario = Scenario {
        sockets: 2,
        cores: 8,
        cpus: (0..8).map(cpu).collect(),
        options: Vec::new(),
        reserved: 1,
        nodes: [0, 1].map(|id| Node { id, memory: 1000, huge: BTreeMap::new() }).into(),
        memory: [(0, [("memory".to_owned(), 100)].into())].into(),
        steps: Vec::new(),
        cpu_file: String::new(),
        memory_file: String::new(),
    };
    scenario.managers()
}

fn amounts(cpu: u64, memory: u64) -> Value {
    resources(&[("cpu".to_owned(), cpu * 1000), ("memory".to_owned(), memory)].into())
}

/// Containers with 0 CPUs have no container-level resources.
fn pod(uid: &str, cpu: u64, memory: u64, containers: &[(&str, u64, u64)]) -> Pod {
    let (mut init, mut regular) = (Vec::new(), Vec::new());
    for (name, cpu, memory) in containers {
        let resources = if *cpu == 0 { json!({}) } else { amounts(*cpu, *memory) };
        let mut container = json!({"name": name, "resources": resources});
        match name.chars().next() {
            Some('i') => init.push(container),
            Some('s') => {
                container["restartPolicy"] = json!("Always");
                init.push(container);
            }
            _ => regular.push(container),
        }
    }
    let spec = json!({"resources": amounts(cpu, memory), "initContainers": init, "containers": regular});
    Pod { uid: uid.into(), ..test_objects::pod(spec) }
}

fn allocate(managers: &mut Managers, pod: &Pod) -> bool {
    let mut report = AllocationReport::default();
    let has_cpus = managers.cpus.allocate_whole_pod(pod, None, &mut report).is_ok();
    let has_memory = has_cpus && managers.memory.allocate_whole_pod(pod, ANYWHERE).is_ok();
    if !has_memory {
        managers.remove(pod.uid.as_str());
    }
    has_memory
}

#[test]
fn containers_without_requests_share_what_others_of_the_pod_leave() {
    let mut managers = managers();
    let pod = pod("u", 4, 400, &[("s", 1, 100), ("i", 0, 0), ("app", 2, 200), ("helper", 0, 0)]);
    assert!(allocate(&mut managers, &pod));
    let own = managers.cpus.assignments().pods["u"].clone();
    let cpus = |name: &str| managers.cpus.assignments().of(&pod.uid, name).unwrap().clone();
    assert_eq!(own.len(), 4);
    assert_eq!((cpus("s").len(), cpus("app").len()), (1, 2));
    assert_eq!(cpus("i"), own.difference(&cpus("s")), "init containers use what no sidecar has");
    assert_eq!(cpus("helper"), cpus("i").difference(&cpus("app")));
    let size = |name: &str| managers.memory.state().of(&pod.uid, name).unwrap()[0].size;
    assert_eq!(["s", "i", "app", "helper"].map(size), [100, 300, 200, 100]);
}

#[test]
fn pod_keeps_its_cpus_and_memory_after_a_restart() {
    let mut managers = managers();
    let own = pod("u", 3, 300, &[("app", 2, 200), ("helper", 0, 0)]);
    assert!(allocate(&mut managers, &own));
    let (cpus, memory) = (managers.cpus.assignments().clone(), managers.memory.state().clone());
    let stored = cpus::state_file::encode("static", MANAGED, &cpus);
    let restored = cpus::state_file::decode("static", MANAGED, &stored).unwrap();
    managers.cpus = CpuAllocator::new(managers.cpus.policy().clone(), MANAGED, restored);
    let stored = memory::state_file::encode("Static", MANAGED, &memory);
    let restored = memory::state_file::decode("Static", MANAGED, &stored).unwrap();
    let restored = managers.memory_policy.validate(restored).unwrap();
    managers.memory = MemoryAllocator::new(MANAGED, restored);
    assert_eq!(managers.cpus.pod_hints(&own)["cpu"], ResourceHints::OneOf(hints_of(&managers.cpus, &own)));
    assert!(allocate(&mut managers, &own));
    assert_eq!((managers.cpus.assignments(), managers.memory.state()), (&cpus, &memory));
    managers.cpus.retain(|_, container| container != "app");
    assert_eq!(managers.cpus.assignments().shared, cpus.shared, "the pod still runs");
    assert!(allocate(&mut managers, &own));
    assert_eq!(managers.cpus.assignments(), &cpus, "the missing part is the same again");
}

fn hints_of(cpus: &CpuAllocator, pod: &Pod) -> Vec<TopologyHint> {
    let location = |cpu| cpus.policy().topology().cpus[&cpu].numa_node;
    let nodes = NumaMask::of(cpus.assignments().pods[&pod.uid].iter().map(location));
    let all = NumaMask::of([0, 1]);
    let mut hints = vec![TopologyHint { nodes: Some(nodes), preferred: true }];
    if nodes != all {
        hints.push(TopologyHint { nodes: Some(all), preferred: false });
    }
    hints
}

#[test]
fn pods_that_leave_containers_without_resources_are_rejected() {
    let mut managers = managers();
    for (containers, text) in [
        (
            &[("app", 2, 200), ("helper", 0, 0)][..],
            "pod rejected, sum of exclusive container cpu requests equals pod budget, leaving no cpus for shared containers",
        ),
        (
            &[("s", 2, 200), ("i", 0, 0), ("app", 0, 0)][..],
            "pod rejected, pod has shared init containers but no cpus available for them",
        ),
    ] {
        let pod = pod("u", 2, 200, containers);
        let error =
            managers.cpus.allocate_whole_pod(&pod, None, &mut AllocationReport::default()).unwrap_err();
        let rejection = error.rejection();
        assert_eq!(
            (rejection.reason.as_ref(), rejection.message.as_ref()),
            ("EmptyPodSharedPoolError", text)
        );
        let error = managers.memory.allocate_whole_pod(&pod, ANYWHERE).unwrap_err();
        let text = text
            .replace("no cpus available", "no memory available")
            .replace("container cpu", "container memory");
        let text = text.replace("no cpus for", "no memory for");
        assert_eq!(error.rejection().message, text);
        assert_eq!(error.rejection().reason, "EmptyPodSharedPoolError");
    }
}

proptest! {
    /// Pods come and go: no CPU and no byte has two owners, parts lie inside their pod, and at the end all is free again.
    #[test]
    fn whole_pods_are_disjoint_and_releasing_them_is_the_identity(
        steps in prop::collection::vec((0_usize..4, 1_u64..6, 1_u64..8, 0_u64..4, 0_u64..4, any::<bool>()), 1..16),
    ) {
        let mut managers = managers();
        let initial = (managers.cpus.assignments().clone(), managers.memory.state().clone());
        for (uid, cpus, memory, sidecar, app, is_removal) in steps {
            let uid = format!("u{uid}");
            managers.remove(&uid);
            if is_removal {
                continue;
            }
            let (sidecar, app) = (sidecar.min(cpus), app.min(cpus - sidecar.min(cpus)));
            let containers = [("s", sidecar, 10), ("i", 0, 0), ("app", app, 10), ("helper", 0, 0)];
            allocate(&mut managers, &pod(&uid, cpus, memory * 100, &containers));
            let assignments = managers.cpus.assignments();
            let owned: usize = assignments.pods.values().map(CpuSet::len).sum();
            prop_assert_eq!(owned, assignments.assigned().len());
            prop_assert!(assignments.assigned().is_disjoint(managers.cpus.policy().reserved()));
            prop_assert_eq!(assignments.shared.union(&assignments.assigned()), initial.0.shared.clone());
            prop_assert!(assignments.shared.is_disjoint(&assignments.assigned()));
            for (pod, containers) in &assignments.exclusive {
                prop_assert!(containers.values().all(|part| part.is_subset(&assignments.pods[pod])));
                prop_assert!(containers.values().all(|part| !part.is_empty()));
            }
            if let Some(containers) = assignments.exclusive.get(&PodUid::from(uid.as_str())) {
                let exclusive = [("s", sidecar), ("app", app)];
                let own = exclusive.iter().filter(|(_, count)| *count > 0);
                let parts: Vec<&CpuSet> = own.map(|(name, _)| &containers[*name]).collect();
                let count: usize = parts.iter().map(|part| part.len()).sum();
                prop_assert_eq!(count, usize::try_from(sidecar + app).unwrap());
                let together: CpuSet = parts.iter().flat_map(|part| part.iter()).collect();
                prop_assert_eq!(together.len(), count, "two containers share exclusive CPUs");
                prop_assert!(together.is_disjoint(&containers["helper"]));
            }
            let restarted = managers.cpus.policy().validate(assignments.clone());
            prop_assert_eq!(restarted.as_ref(), Ok(assignments));
            let state = managers.memory.state();
            let restarted = managers.memory_policy.validate(state.clone());
            prop_assert_eq!(restarted.as_ref(), Ok(state));
        }
        managers.cpus.retain(|_, _| false);
        managers.memory.retain(|_, _| false);
        prop_assert_eq!((managers.cpus.assignments(), managers.memory.state()), (&initial.0, &initial.1));
    }
}
