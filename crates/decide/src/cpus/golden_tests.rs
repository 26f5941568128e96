//! Compares every choice with upstream's. The format is described in `tools/cpusets/main.go`, which wrote the file.

use std::collections::BTreeMap;
use std::io::Read as _;

use flate2::read::GzDecoder;
use model::{
    ContainerKind, CpuLocation, CpuPlacement, CpuPolicyOptions, CpuTopology, NumaMask, Pod,
    PodLevelManagement, PodUid, ResourceHints,
};
use serde_json::json;
use values::cpu_set::CpuSet;

use super::*;
use crate::test_objects;

const CHOICES: &[u8] = include_bytes!("../../testdata/cpu_choices.txt.gz");

#[derive(Default)]
struct Machine {
    topology: CpuTopology,
    groups: BTreeMap<char, Vec<(i32, CpuSet)>>,
    allocator: Option<CpuAllocator>,
    /// CPUs of exclusive containers that can run at the same time.
    owners: BTreeMap<PodUid, CpuSet>,
}

#[test]
fn every_choice_equals_upstreams() {
    let mut text = String::new();
    GzDecoder::new(CHOICES).read_to_string(&mut text).unwrap();
    let mut machine = Machine::default();
    let (mut machines, mut allocations, mut hints, mut impossible) = (0, 0, 0, 0);
    for (number, line) in text.lines().enumerate() {
        let context = format!("line {}: {line}", number + 1);
        let (kind, rest) = line.split_at(1);
        match kind {
            "T" => {
                machine = Machine::default();
                machine.read_counts(rest);
                machines += 1;
            }
            "N" | "S" | "U" => machine.read_groups(kind, rest),
            "C" => machine.read_cores(rest),
            "P" => machine.check_policy(rest, &context),
            "A" if rest.contains(" ? ") => {
                machine.check_conflict(rest, &context);
                impossible += 1;
            }
            "A" => {
                machine.check_allocation(rest, &context);
                allocations += 1;
            }
            "R" => machine.remove(rest.trim()),
            "H" => {
                machine.check_hints(rest, &context);
                hints += 1;
            }
            "D" => {
                let allocator = machine.allocator.as_ref().unwrap();
                assert_eq!(allocator.assignments().shared.to_string(), rest.trim(), "{context}");
            }
            other => panic!("{other}"),
        }
    }
    assert!(machines >= 2000 && allocations >= 10_000, "{machines} machines, {allocations} allocations");
    assert!(hints >= 1000 && impossible >= 20, "{hints} hints, {impossible} impossible choices");
}

fn cpus(text: &str) -> CpuSet {
    text.parse().unwrap()
}

/// The placement of a list of options.
pub(crate) fn placement(has: impl Fn(&'static str) -> bool) -> CpuPlacement {
    if has("distribute-cpus-across-numa") {
        CpuPlacement::AcrossNumaNodes
    } else if has("distribute-cpus-across-cores") {
        CpuPlacement::AcrossCores
    } else if has("prefer-align-cpus-by-uncorecache") {
        CpuPlacement::PackedByUncoreCache
    } else {
        CpuPlacement::Packed
    }
}

fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split_whitespace().filter_map(|word| word.split_once('='))
}

/// A pod from words such as `i:2@0-1` (an init container with two CPUs on the NUMA nodes 0 and 1).
fn pod(uid: &str, words: &[&str]) -> (Pod, Option<NumaMask>) {
    let (mut init, mut regular, mut affinity) = (Vec::new(), Vec::new(), None);
    for (index, word) in words.iter().enumerate() {
        let (kind, request) = word.split_once(':').unwrap();
        let (count, nodes) = request.split_once('@').unwrap_or((request, ""));
        if !nodes.is_empty() {
            affinity = Some(NumaMask::of(cpus(nodes).iter().map(|node| i32::try_from(node).unwrap())));
        }
        let resources = json!({"cpu": count, "memory": "1Mi"});
        let mut container = json!({
            "name": format!("{kind}{index}"),
            "resources": {"requests": resources, "limits": resources},
        });
        match kind {
            "r" => regular.push(container),
            "s" => {
                container["restartPolicy"] = json!("Always");
                init.push(container);
            }
            _ => init.push(container),
        }
    }
    let mut pod = test_objects::pod(json!({"initContainers": init, "containers": regular}));
    pod.uid = uid.into();
    (pod, affinity)
}

impl Machine {
    fn read_counts(&mut self, text: &str) {
        for (name, count) in pairs(text) {
            let count = count.parse().unwrap();
            match name {
                "sockets" => self.topology.socket_count = count,
                "cores" => self.topology.core_count = count,
                _ => self.topology.cpu_count = count,
            }
        }
    }

    fn read_groups(&mut self, kind: &str, text: &str) {
        let groups = pairs(text).map(|(id, list)| (id.parse().unwrap(), cpus(list))).collect();
        self.groups.insert(kind.chars().next().unwrap(), groups);
    }

    fn read_cores(&mut self, text: &str) {
        let id_in = |group: char, cpu: u32| {
            let found = self.groups[&group].iter().find(|(_, cpus)| cpus.contains(cpu));
            found.unwrap().0
        };
        let mut found = BTreeMap::new();
        for core in text.split_whitespace().map(cpus) {
            for cpu in core.iter() {
                let location = CpuLocation {
                    numa_node: id_in('N', cpu),
                    socket: id_in('S', cpu),
                    core: i32::try_from(core.iter().next().unwrap()).unwrap(),
                    uncore_cache: id_in('U', cpu),
                };
                found.insert(cpu, location);
            }
        }
        self.topology.cpus = found;
    }

    fn check_policy(&mut self, text: &str, context: &str) {
        let mut words = text.split(' ').filter(|word| !word.is_empty());
        let count: i64 = words.next().unwrap().strip_prefix("reserved=").unwrap().parse().unwrap();
        let configured = cpus(words.next().unwrap().strip_prefix("cpus=").unwrap());
        let rest: Vec<&str> = words.collect();
        let (options, result) = match rest.split_first() {
            Some((&("=" | "!"), result)) => ("", result.join(" ")),
            Some((options, result)) => (*options, result[1..].join(" ")),
            None => panic!("{context}"),
        };
        let has = |name: &'static str| options.split(',').any(|option| option == name);
        let options = CpuPolicyOptions {
            placement: placement(has),
            full_cores_only: has("full-pcpus-only"),
            strict_reservation: has("strict-cpu-reservation"),
            align_by_socket: has("align-by-socket"),
        };
        match StaticPolicy::new(self.topology.clone(), options, count * 1000, &configured) {
            Ok(policy) => {
                assert_eq!(policy.reserved().to_string(), result, "{context}");
                let assignments = policy.validate(CpuAssignments::default()).unwrap();
                self.allocator = Some(CpuAllocator::new(policy, PodLevelManagement::Unmanaged, assignments));
            }
            Err(error) => {
                assert_eq!(error.to_string(), format!("new static policy error: {result}"), "{context}");
            }
        }
    }

    fn allocate(&mut self, uid: &str, words: &[&str]) -> Result<Vec<String>, AllocationError> {
        let (pod, affinity) = pod(uid, words);
        let allocator = self.allocator.as_mut().unwrap();
        let before = allocator.clone();
        let mut report = AllocationReport::default();
        for entry in pod.containers() {
            let container = (entry.kind, entry.container);
            if let Err(error) = allocator.allocate(&pod, container, affinity, &mut report) {
                *allocator = before;
                return Err(error);
            }
        }
        let chosen = |name: &str| allocator.assignments().of(&pod.uid, name).unwrap().clone();
        let mut own = CpuSet::new();
        for entry in pod.containers() {
            let is_sidecar = entry.container.restart_policy.is_some();
            if entry.kind == ContainerKind::Regular || is_sidecar {
                let cpus = chosen(&entry.container.name);
                assert!(own.is_disjoint(&cpus), "two containers of one pod share CPUs");
                own.extend(cpus.iter());
            }
        }
        assert!(self.owners.values().all(|other| other.is_disjoint(&own)), "two pods share CPUs");
        self.owners.insert(pod.uid.clone(), own);
        Ok(pod.containers().map(|entry| chosen(&entry.container.name).to_string()).collect())
    }

    fn check_allocation(&mut self, text: &str, context: &str) {
        let split = text.find(['=', '!']).unwrap();
        let (request, result) = text.split_at(split);
        let (uid, words) = request
            .split_whitespace()
            .collect::<Vec<_>>()
            .split_first()
            .map(|(uid, words)| (*uid, words.to_vec()))
            .unwrap();
        let chosen = match self.allocate(uid, &words) {
            Ok(chosen) => format!("= {}", chosen.join(" ")),
            Err(error) => format!("! {error}"),
        };
        assert_eq!(chosen, result, "{context}");
    }

    /// Upstream chose CPUs that had an owner, or too few. Ours must be free.
    fn check_conflict(&mut self, text: &str, context: &str) {
        let (request, _) = text.split_once(" ? ").unwrap();
        let words: Vec<&str> = request.split_whitespace().collect();
        let reserved = self.allocator.as_ref().unwrap().policy().reserved().clone();
        if let Ok(chosen) = self.allocate(words[0], &words[1..]) {
            for (word, chosen) in words[1..].iter().zip(chosen) {
                let count = word.split_once(':').unwrap().1.split('@').next().unwrap();
                assert_eq!(cpus(&chosen).len().to_string(), count, "{context}");
                assert!(cpus(&chosen).is_disjoint(&reserved), "{context}");
            }
        }
    }

    fn remove(&mut self, uid: &str) {
        self.owners.remove(uid);
        self.allocator.as_mut().unwrap().retain(|pod, _| pod.as_str() != uid);
    }

    fn check_hints(&self, text: &str, context: &str) {
        let (request, expected) = text.split_once('=').unwrap();
        let words: Vec<&str> = request.split_whitespace().collect();
        let (pod, _) = pod(words[0], &[&format!("r:{}", words[1])]);
        let allocator = self.allocator.as_ref().unwrap();
        let hints = allocator.container_hints(&pod, &pod.spec.containers[0]);
        assert_eq!(allocator.pod_hints(&pod), hints, "{context}");
        let ResourceHints::OneOf(hints) = &hints["cpu"] else { panic!("{context}") };
        let shown = hints.iter().map(|hint| {
            let nodes: CpuSet =
                hint.nodes.unwrap().nodes().map(|node| u32::try_from(node).unwrap()).collect();
            format!("{nodes}{}", if hint.preferred { "+" } else { "" })
        });
        assert_eq!(shown.collect::<Vec<_>>(), expected.split_whitespace().collect::<Vec<_>>(), "{context}");
    }
}
