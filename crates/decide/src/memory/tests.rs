use std::collections::BTreeMap;
use std::io::Read as _;

use flate2::read::GzDecoder;
use model::{
    NumaMask, NumaNode, Pod, PodLevelManagement, PodUid, ProviderHints, ResourceHints, TopologyHint,
};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use super::state_file::{decode, encode};
use super::*;
use crate::test_objects;

/// Written by upstream's code: `cpusets memory 800 1`.
const SCENARIOS: &[u8] = include_bytes!("../../testdata/memory.txt.gz");

const UNMANAGED: PodLevelManagement = PodLevelManagement::Unmanaged;

const ANYWHERE: TopologyHint = TopologyHint { nodes: None, preferred: false };

#[derive(Deserialize)]
struct Scenario {
    nodes: Vec<Node>,
    reserved: MemoryReservations,
    steps: Vec<Step>,
    file: String,
}

#[derive(Deserialize)]
struct Node {
    id: i32,
    memory: u64,
    huge: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Step {
    remove: String,
    pod: String,
    pod_hints: Option<BTreeMap<String, Vec<Hint>>>,
    containers: Vec<GoldenContainer>,
}

#[derive(Deserialize)]
struct GoldenContainer {
    name: String,
    kind: String,
    requests: BTreeMap<String, u64>,
    hints: Option<BTreeMap<String, Vec<Hint>>>,
    given: Hint,
    #[serde(default)]
    error: String,
}

#[derive(Clone, Copy, Deserialize)]
pub(crate) struct Hint {
    m: Option<u64>,
    p: bool,
}

impl Hint {
    pub(crate) fn hint(self) -> TopologyHint {
        let nodes = |bits: u64| NumaMask::of((0..64).filter(|node| bits & (1 << node) != 0));
        TopologyHint { nodes: self.m.map(nodes), preferred: self.p }
    }
}

impl Step {
    fn pod(&self) -> Pod {
        let of_kinds = |kinds: &str| {
            let chosen = self.containers.iter().filter(|own| kinds.contains(&own.kind));
            chosen.map(GoldenContainer::json).collect::<Vec<_>>()
        };
        let spec = json!({"initContainers": of_kinds("is"), "containers": of_kinds("r")});
        Pod { uid: self.pod.as_str().into(), ..test_objects::pod(spec) }
    }
}

impl GoldenContainer {
    fn json(&self) -> Value {
        let mut resources: BTreeMap<String, String> =
            self.requests.iter().map(|(kind, size)| (kind.clone(), size.to_string())).collect();
        resources.insert("cpu".to_owned(), "1".to_owned());
        let mut container =
            json!({"name": self.name, "resources": {"requests": resources, "limits": resources}});
        if self.kind == "s" {
            container["restartPolicy"] = json!("Always");
        }
        container
    }
}

/// Sorted, because neither order has a meaning.
pub(crate) fn sorted(hints: &ProviderHints) -> BTreeMap<String, Vec<(u64, bool)>> {
    let list = |hints: &ResourceHints| {
        let ResourceHints::OneOf(hints) = hints else { panic!("no preference") };
        let mut list: Vec<_> =
            hints.iter().map(|hint| (hint.nodes.unwrap().bits(), hint.preferred)).collect();
        list.sort_unstable();
        list
    };
    hints.iter().map(|(kind, hints)| (kind.clone(), list(hints))).collect()
}

/// Upstream gives an empty list for a kind, or no kind at all, if nothing is possible or the container has no preference.
pub(crate) fn golden(hints: Option<&BTreeMap<String, Vec<Hint>>>) -> BTreeMap<String, Vec<(u64, bool)>> {
    let list = |hints: &Vec<Hint>| {
        let mut list: Vec<_> = hints.iter().map(|hint| (hint.m.unwrap(), hint.p)).collect();
        list.sort_unstable();
        list
    };
    hints.into_iter().flatten().map(|(kind, hints)| (kind.clone(), list(hints))).collect()
}

fn policy(nodes: &[NumaNode], reserved: &MemoryReservations) -> MemoryPolicy {
    let total: u64 = reserved.values().flat_map(BTreeMap::values).sum();
    let node_reserved = [("memory".to_owned(), i64::try_from(total).unwrap())].into();
    MemoryPolicy::new(nodes, reserved, &node_reserved).unwrap()
}

pub(crate) fn with_sorted_blocks(mut state: MemoryState) -> MemoryState {
    let containers = state.assignments.values_mut().flat_map(BTreeMap::values_mut);
    for blocks in containers.chain(state.pods.values_mut()) {
        blocks.sort_by(|one, other| one.kind.cmp(&other.kind));
    }
    state
}

/// Returns the number of allocations, and whether upstream would accept the state when it starts. It does not always: a hint
/// of the topology manager can put memory on one node of a group.
fn replay(scenario: &Scenario, line: &str) -> (usize, bool) {
    let node = |node: &Node| NumaNode {
        id: node.id,
        memory: node.memory,
        huge_pages: node.huge.clone(),
        distances: None,
    };
    let nodes: Vec<NumaNode> = scenario.nodes.iter().map(node).collect();
    let mut reserved = scenario.reserved.clone();
    for own in reserved.values_mut() {
        own.retain(|_, size| *size > 0);
    }
    let policy = policy(&nodes, &reserved);
    let mut allocator = MemoryAllocator::new(UNMANAGED, policy.validate(MemoryState::default()).unwrap());
    let mut allocations = 0;
    for step in &scenario.steps {
        if !step.remove.is_empty() {
            assert!(allocator.retain(|uid, _| uid.as_str() != step.remove));
            continue;
        }
        let pod = step.pod();
        assert_eq!(
            sorted(&allocator.pod_hints(&pod)),
            golden(step.pod_hints.as_ref()),
            "{} {line}",
            step.pod
        );
        for (entry, expected) in pod.containers().zip(&step.containers) {
            let hints = allocator.container_hints(&pod, entry.container);
            assert_eq!(sorted(&hints), golden(expected.hints.as_ref()), "{} {line}", step.pod);
            let result = allocator.allocate(&pod, entry, expected.given.hint());
            let error = result.map_or_else(|error| error.to_string(), |()| String::new());
            assert_eq!(error, expected.error, "{} {} {line}", step.pod, expected.name);
            allocations += 1;
            if !error.is_empty() {
                allocator.retain(|uid, _| *uid != pod.uid);
                break;
            }
        }
    }
    let stored = decode("Static", UNMANAGED, scenario.file.as_bytes()).unwrap();
    assert_eq!(with_sorted_blocks(allocator.state().clone()), with_sorted_blocks(stored.clone()), "{line}");
    assert_eq!(String::from_utf8(encode("Static", UNMANAGED, &stored)).unwrap(), scenario.file);
    (allocations, policy.validate(stored).is_ok())
}

#[test]
fn every_allocation_of_memory_equals_upstreams() {
    let mut text = String::new();
    GzDecoder::new(SCENARIOS).read_to_string(&mut text).unwrap();
    let results: Vec<(usize, bool)> =
        text.lines().map(|line| replay(&serde_json::from_str(line).unwrap(), line)).collect();
    let allocations: usize = results.iter().map(|(allocations, _)| allocations).sum();
    let valid = results.iter().filter(|(_, is_valid)| *is_valid).count();
    assert!(
        results.len() == 800 && allocations > 4000,
        "{} scenarios, {allocations} allocations",
        results.len()
    );
    assert!(valid > 600, "{valid} states fit the machine");
}

fn machine(count: i32, memory: u64) -> Vec<NumaNode> {
    (0..count).map(|id| NumaNode { id, memory, ..NumaNode::default() }).collect()
}

fn reserved(memory: u64) -> MemoryReservations {
    [(0, [("memory".to_owned(), memory)].into())].into()
}

/// Nodes with 1000 bytes each, of which the first reserves 100.
fn allocator(count: i32) -> MemoryAllocator {
    let policy = policy(&machine(count, 1000), &reserved(100));
    MemoryAllocator::new(UNMANAGED, policy.validate(MemoryState::default()).unwrap())
}

fn pod(uid: &str, memory: u64) -> Pod {
    let resources = json!({"cpu": "1", "memory": memory.to_string()});
    let spec =
        json!({"containers": [{"name": "c", "resources": {"requests": resources, "limits": resources}}]});
    Pod { uid: uid.into(), ..test_objects::pod(spec) }
}

fn allocate(allocator: &mut MemoryAllocator, pod: &Pod) -> Result<(), MemoryError> {
    allocator.allocate(pod, pod.containers().next().unwrap(), ANYWHERE)
}

fn nodes_of(allocator: &MemoryAllocator, uid: &str) -> Vec<i32> {
    allocator.state().of(&uid.into(), "c").unwrap()[0].nodes.nodes().collect()
}

#[test]
fn request_larger_than_one_node_groups_nodes_until_it_is_released() {
    let mut allocator = allocator(2);
    allocate(&mut allocator, &pod("large", 1500)).unwrap();
    assert_eq!(nodes_of(&allocator, "large"), [0, 1]);
    assert_eq!(allocate(&mut allocator, &pod("late", 401)), Err(MemoryError::NotEnough));
    allocate(&mut allocator, &pod("small", 100)).unwrap();
    assert_eq!(nodes_of(&allocator, "small"), [0, 1], "the nodes are used as a group only");
    let single = TopologyHint { nodes: Some(NumaMask::of([0])), preferred: true };
    let late = pod("late", 200);
    let result = allocator.allocate(&late, late.containers().next().unwrap(), single);
    assert_eq!(result, Err(MemoryError::ExtensionNotPreferred));
    assert!(allocator.retain(|_, _| false));
    allocate(&mut allocator, &pod("single", 950)).unwrap();
    assert_eq!(nodes_of(&allocator, "single"), [1]);
}

#[test]
fn memory_and_huge_pages_are_two_blocks_with_one_counter_each() {
    let mut nodes = machine(1, 1000);
    nodes[0].huge_pages = [("hugepages-2Mi".to_owned(), 400)].into();
    let policy = policy(&nodes, &reserved(100));
    let mut allocator = MemoryAllocator::new(UNMANAGED, policy.validate(MemoryState::default()).unwrap());
    let resources = json!({"cpu": "1", "memory": "500", "hugepages-2Mi": "300"});
    let pod = test_objects::pod(
        json!({"containers": [{"name": "c", "resources": {"requests": resources, "limits": resources}}]}),
    );
    allocate(&mut allocator, &pod).unwrap();
    let node = &allocator.state().nodes[&0];
    assert_eq!(allocator.state().of(&pod.uid, "c").unwrap().len(), 2);
    assert_eq!(node.assignments, 2);
    assert_eq!((node.tables["memory"].allocatable, node.tables["memory"].free), (500, 0));
    assert_eq!((node.tables["hugepages-2Mi"].total, node.tables["hugepages-2Mi"].free), (400, 100));
}

#[test]
fn init_containers_give_up_their_memory_when_a_later_container_is_created() {
    let container = |name: &str, memory: &str| {
        let resources = json!({"cpu": "1", "memory": memory});
        json!({"name": name, "resources": {"requests": resources, "limits": resources}})
    };
    let pod = test_objects::pod(
        json!({"initContainers": [container("init", "800")], "containers": [container("app", "500")]}),
    );
    let mut allocator = allocator(1);
    for entry in pod.containers() {
        allocator.allocate(&pod, entry, ANYWHERE).unwrap();
    }
    let free = |allocator: &MemoryAllocator| allocator.state().nodes[&0].tables["memory"].free;
    assert_eq!(free(&allocator), 100, "the application reuses 500 bytes");
    assert_eq!(allocator.state().of(&pod.uid, "init").unwrap()[0].size, 300);
    assert!(!allocator.container_created(&pod, "init"));
    assert!(allocator.container_created(&pod, "app"));
    assert_eq!(free(&allocator), 400);
    assert_eq!(allocator.state().of(&pod.uid, "init"), None);
}

#[test]
fn other_pods_have_memory_anywhere() {
    let mut allocator = allocator(1);
    let burstable = test_objects::pod(
        json!({"containers": [{"name": "c", "resources": {"requests": {"memory": "2000"}}}]}),
    );
    allocate(&mut allocator, &burstable).unwrap();
    assert!(allocator.state().assignments.is_empty());
    assert!(allocator.pod_hints(&burstable).is_empty());
    assert_eq!(allocate(&mut allocator, &pod("u", 2000)), Err(MemoryError::NotEnough));
}

#[test]
fn reservations_must_add_up_to_those_of_the_node() {
    let node_reserved = |memory: i64| [("memory".to_owned(), memory)].into();
    let refused = |reserved: &MemoryReservations, memory| {
        MemoryPolicy::new(&machine(1, 1 << 40), reserved, &node_reserved(memory)).unwrap_err().to_string()
    };
    assert_eq!(
        refused(&reserved(1 << 30), 3 << 29),
        "the total amount \"1Gi\" of type \"memory\" is not equal to the value \"1536Mi\" determined by Node Allocatable feature"
    );
    let unknown = [(7, [("memory".to_owned(), 1)].into())].into();
    assert_eq!(
        refused(&unknown, 1),
        "the reserved memory configuration references a NUMA node 7 that does not exist on this machine"
    );
    let error = MemoryPolicy::new(&machine(1, 1), &MemoryReservations::new(), &BTreeMap::new()).unwrap_err();
    assert_eq!(error.to_string(), "[memorymanager] you should specify the system reserved memory");
}

#[test]
fn stored_memory_must_fit_the_machine() {
    let policy = policy(&machine(2, 1000), &reserved(100));
    let mut allocator = MemoryAllocator::new(UNMANAGED, policy.validate(MemoryState::default()).unwrap());
    allocate(&mut allocator, &pod("u", 500)).unwrap();
    let good = allocator.state().clone();
    assert_eq!(policy.validate(good.clone()), Ok(good.clone()));
    let refused = |change: &dyn Fn(&mut MemoryState)| {
        let mut state = good.clone();
        change(&mut state);
        policy.validate(state).unwrap_err().to_string()
    };
    let block = |state: &mut MemoryState, nodes, kind: &str| {
        let block = MemoryBlock { nodes, kind: kind.to_owned(), size: 1 };
        state.assignments.insert("v".into(), [("c".to_owned(), vec![block])].into());
    };
    for (change, text) in [
        (
            &(|state: &mut MemoryState| state.nodes.clear()) as &dyn Fn(&mut MemoryState),
            "[memorymanager] machine state can not be empty when it has memory assignments",
        ),
        (
            &|state| state.assignments.clear(),
            "[memorymanager] the expected machine state is different from the real one",
        ),
        (
            &|state| {
                state.nodes.remove(&1);
            },
            "[memorymanager] the expected machine state is different from the real one",
        ),
        (
            &|state| block(state, NumaMask::of([5]), "memory"),
            "[memorymanager] (pod: v, container: c) the memory assignment uses the NUMA that does not exist",
        ),
        (
            &|state| block(state, NumaMask::of([0]), "hugepages-2Mi"),
            "[memorymanager] (pod: v, container: c) the memory assignment uses memory resource that does not exist",
        ),
    ] {
        assert_eq!(refused(change), text);
    }
}

#[test]
fn checksums_of_memory_states_equal_known_files() {
    let checksum = |policy: &str, state: &MemoryState| {
        serde_json::from_slice::<Value>(&encode(policy, UNMANAGED, state)).unwrap()["checksum"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(checksum("None", &MemoryState::default()), 4_236_770_233);
    let table =
        MemoryTable { total: 2048, system_reserved: 512, allocatable: 1536, reserved: 512, free: 1024 };
    let node =
        NodeMemory { assignments: 0, tables: [("memory".to_owned(), table)].into(), group: NumaMask::EMPTY };
    let block = MemoryBlock { nodes: NumaMask::of([0]), kind: "memory".to_owned(), size: 512 };
    let own = [("container1".to_owned(), vec![block])].into();
    let state = MemoryState {
        nodes: [(0, node)].into(),
        assignments: [(PodUid::from("pod"), own)].into(),
        pods: BTreeMap::new(),
    };
    assert_eq!(checksum("static", &state), 4_215_593_881);
}

#[test]
fn refuses_memory_files_with_the_texts_of_upstream() {
    let file = String::from_utf8(encode("Static", UNMANAGED, allocator(1).state())).unwrap();
    for (file, policy, text) in [
        (file.replace("1000", "1001"), "Static", "checkpoint is corrupted"),
        (
            file.clone(),
            "None",
            "[memorymanager] configured policy \"None\" differs from state checkpoint policy \"Static\"",
        ),
    ] {
        assert_eq!(decode(policy, UNMANAGED, file.as_bytes()).unwrap_err().to_string(), text);
    }
    for file in ["", "{", "[]", r#"{"machineState":7}"#, r#"{"machineState":{"0":{"cells":[99]}}}"#] {
        assert!(decode("Static", UNMANAGED, file.as_bytes()).is_err(), "{file}");
    }
    for (file, policy) in
        [(r#"{"policyName":"None","machineState":null}"#, "None"), (file.as_str(), "Static")]
    {
        decode(policy, UNMANAGED, file.as_bytes()).unwrap();
    }
}

proptest! {
    #[test]
    fn releasing_memory_restores_the_tables(sizes in proptest::collection::vec(1..1500_u64, 1..8)) {
        let mut allocator = allocator(3);
        let before = allocator.state().clone();
        for (index, size) in sizes.iter().enumerate() {
            let uid = index.to_string();
            let _ = allocate(&mut allocator, &pod(&uid, *size));
            let tables = allocator.state().nodes.values().map(|node| node.tables["memory"]);
            let sums: Vec<u64> = tables.clone().map(|table| table.free + table.reserved).collect();
            prop_assert!(tables.zip(sums).all(|(table, sum)| table.allocatable == sum));
        }
        allocator.retain(|_, _| false);
        prop_assert_eq!(allocator.state(), &before);
    }
}
