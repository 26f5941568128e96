//! The file `memory_manager_state`, in upstream's format, so that a node can switch between this agent and the kubelet.

use std::collections::BTreeMap;

use model::{NumaMask, PodLevelManagement, PodUid};
use serde::Deserialize;
use values::fnv::Fnv32a;

use super::tables::{MemoryBlock, MemoryState, MemoryTable, NodeMemory};
use crate::go_text::{JsonObject, json_array, json_string, quoted};

/// Why a state file cannot be used. The texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryFileError {
    #[error("checkpoint is corrupted")]
    Checksum,
    #[error("{0}")]
    Unreadable(String),
    #[error("[memorymanager] configured policy {} differs from state checkpoint policy {}", quoted(.configured), quoted(.stored))]
    OtherPolicy { configured: String, stored: String },
}

/// Blocks by container.
type FileContainers = BTreeMap<String, Option<Vec<FileBlock>>>;

/// The file as it is written. `None` stands for `null`, which has a separate dump.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    #[serde(default)]
    policy_name: String,
    #[serde(default = "empty")]
    machine_state: Option<BTreeMap<i64, Option<FileNode>>>,
    #[serde(default = "empty")]
    entries: Option<BTreeMap<String, Option<FileContainers>>>,
    /// In version 2 of the layout.
    #[serde(default = "empty")]
    pod_entries: Option<BTreeMap<String, FilePod>>,
    #[serde(default)]
    checksum: u32,
}

/// Memory of a whole pod.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FilePod {
    memory_blocks: Option<Vec<FileBlock>>,
}

/// Version 2 of the layout has the memory of whole pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    fn of(management: PodLevelManagement) -> Self {
        if management.is_managed() { Self::Two } else { Self::One }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FileNode {
    number_of_assignments: i64,
    memory_map: Option<BTreeMap<String, Option<FileTable>>>,
    cells: Option<Vec<i64>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FileTable {
    total: u64,
    system_reserved: u64,
    allocatable: u64,
    reserved: u64,
    free: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FileBlock {
    numa_affinity: Option<Vec<i64>>,
    #[serde(rename = "type")]
    kind: String,
    size: u64,
}

#[expect(clippy::unnecessary_wraps, reason = "an absent field is empty, `null` is not")]
fn empty<T: Default>() -> Option<T> {
    Some(T::default())
}

/// In version 2 of the layout if the gate `PodLevelResourceManagers` is on, else in version 1.
pub fn encode(policy: &str, management: PodLevelManagement, state: &MemoryState) -> Vec<u8> {
    let version = Version::of(management);
    let file = File::of(policy, state);
    let table = |table: &FileTable| {
        JsonObject::of(
            [
                ("total", table.total),
                ("systemReserved", table.system_reserved),
                ("allocatable", table.allocatable),
                ("reserved", table.reserved),
                ("free", table.free),
            ]
            .into_iter()
            .map(|(name, bytes)| (name, bytes.to_string())),
        )
    };
    let node = |node: &FileNode| {
        let tables = node.memory_map.iter().flatten();
        let tables = tables.filter_map(|(kind, own)| Some((kind.as_str(), table(own.as_ref()?))));
        let mut object = JsonObject::default();
        object.value("numberOfAssignments", &node.number_of_assignments.to_string());
        object.value("memoryMap", &JsonObject::of(tables));
        object.value("cells", &numbers(node.cells.as_deref().unwrap_or_default())).finish()
    };
    let block = |block: &FileBlock| {
        let mut object = JsonObject::default();
        object.value("numaAffinity", &numbers(block.numa_affinity.as_deref().unwrap_or_default()));
        object.value("type", &json_string(&block.kind)).value("size", &block.size.to_string()).finish()
    };
    // Go orders the keys of maps as strings.
    let nodes: BTreeMap<String, String> = file
        .machine_state
        .iter()
        .flatten()
        .filter_map(|(id, own)| Some((id.to_string(), node(own.as_ref()?))))
        .collect();
    let mut object = JsonObject::default();
    object.value("policyName", &json_string(policy));
    object.value("machineState", &JsonObject::of(nodes.iter().map(|(id, json)| (id.as_str(), json.clone()))));
    if !state.assignments.is_empty() {
        let blocks = |own: &Vec<FileBlock>| json_array(own.iter().map(block));
        let pod = |containers: &FileContainers| {
            let known =
                containers.iter().filter_map(|(name, own)| Some((name.as_str(), blocks(own.as_ref()?))));
            JsonObject::of(known)
        };
        let pods = file.entries.iter().flatten();
        let pods = pods.filter_map(|(uid, containers)| Some((uid.as_str(), pod(containers.as_ref()?))));
        object.value("entries", &JsonObject::of(pods));
    }
    if version == Version::Two && !state.pods.is_empty() {
        let own = |own: &FilePod| {
            let blocks = json_array(own.memory_blocks.iter().flatten().map(block));
            JsonObject::of([("memoryBlocks", blocks)].into_iter())
        };
        let pods = file.pod_entries.iter().flatten();
        object.value("podEntries", &JsonObject::of(pods.map(|(uid, blocks)| (uid.as_str(), own(blocks)))));
    }
    object.value("checksum", &file.hash(version).to_string()).finish().into_bytes()
}

/// # Errors
/// When the file is damaged or belongs to another policy.
pub fn decode(
    policy: &str,
    management: PodLevelManagement,
    content: &[u8],
) -> Result<MemoryState, MemoryFileError> {
    let mut file: File =
        serde_json::from_slice(content).map_err(|error| MemoryFileError::Unreadable(error.to_string()))?;
    let is_version_2 = management.is_managed() && file.hash(Version::Two) == file.checksum;
    if !is_version_2 {
        let has_pods = management.is_managed() && file.pod_entries.iter().flatten().next().is_some();
        // Upstream accepts a file of version 1 without a checksum.
        let is_version_1 = file.checksum == 0 || file.hash(Version::One) == file.checksum;
        if has_pods || !is_version_1 {
            return Err(MemoryFileError::Checksum);
        }
        file.pod_entries = None;
    }
    if file.policy_name != policy {
        return Err(MemoryFileError::OtherPolicy { configured: policy.to_owned(), stored: file.policy_name });
    }
    file.state()
}

fn numbers(numbers: &[i64]) -> String {
    json_array(numbers.iter().map(i64::to_string))
}

fn ids(mask: NumaMask) -> Vec<i64> {
    mask.nodes().map(i64::from).collect()
}

fn mask(ids: Option<&Vec<i64>>) -> Result<NumaMask, MemoryFileError> {
    let node = |id: &i64| {
        let node = i32::try_from(*id).ok().filter(|node| (0..64).contains(node));
        node.ok_or_else(|| MemoryFileError::Unreadable(format!("{id} is not a NUMA node")))
    };
    let nodes: Vec<i32> = ids.into_iter().flatten().map(node).collect::<Result<_, _>>()?;
    Ok(NumaMask::of(nodes))
}

impl File {
    fn of(policy: &str, state: &MemoryState) -> Self {
        let table = |table: &MemoryTable| FileTable {
            total: table.total,
            system_reserved: table.system_reserved,
            allocatable: table.allocatable,
            reserved: table.reserved,
            free: table.free,
        };
        let node = |memory: &NodeMemory| FileNode {
            number_of_assignments: memory.assignments,
            memory_map: Some(
                memory.tables.iter().map(|(kind, own)| (kind.clone(), Some(table(own)))).collect(),
            ),
            cells: Some(ids(memory.group)),
        };
        let block = |block: &MemoryBlock| FileBlock {
            numa_affinity: Some(ids(block.nodes)),
            kind: block.kind.clone(),
            size: block.size,
        };
        let pod = |containers: &BTreeMap<String, Vec<MemoryBlock>>| {
            let blocks = |own: &Vec<MemoryBlock>| Some(own.iter().map(block).collect());
            Some(containers.iter().map(|(name, own)| (name.clone(), blocks(own))).collect())
        };
        let whole_pod =
            |own: &Vec<MemoryBlock>| FilePod { memory_blocks: Some(own.iter().map(block).collect()) };
        let assignments = state.assignments.iter();
        Self {
            policy_name: policy.to_owned(),
            machine_state: Some(
                state.nodes.iter().map(|(id, own)| (i64::from(*id), Some(node(own)))).collect(),
            ),
            entries: Some(assignments.map(|(uid, own)| (uid.as_str().to_owned(), pod(own))).collect()),
            pod_entries: Some(
                state.pods.iter().map(|(uid, own)| (uid.as_str().to_owned(), whole_pod(own))).collect(),
            ),
            checksum: 0,
        }
    }

    fn state(self) -> Result<MemoryState, MemoryFileError> {
        let mut state = MemoryState::default();
        for (id, node) in self.machine_state.unwrap_or_default() {
            let node = node.unwrap_or_default();
            let id = i32::try_from(id).map_err(|error| MemoryFileError::Unreadable(error.to_string()))?;
            let tables = node.memory_map.unwrap_or_default().into_iter();
            let tables = tables.map(|(kind, table)| {
                let FileTable { total, system_reserved, allocatable, reserved, free } =
                    table.unwrap_or_default();
                (kind, MemoryTable { total, system_reserved, allocatable, reserved, free })
            });
            let assignments = node.number_of_assignments;
            let group = mask(node.cells.as_ref())?;
            state.nodes.insert(id, NodeMemory { assignments, tables: tables.collect(), group });
        }
        for (uid, containers) in self.entries.unwrap_or_default() {
            let own = state.assignments.entry(PodUid::from(uid.as_str())).or_default();
            for (name, blocks) in containers.unwrap_or_default() {
                own.insert(name, memory_blocks(blocks)?);
            }
        }
        for (uid, own) in self.pod_entries.unwrap_or_default() {
            state.pods.insert(PodUid::from(uid.as_str()), memory_blocks(own.memory_blocks)?);
        }
        Ok(state)
    }

    fn hash(&self, version: Version) -> u32 {
        Fnv32a::hash(self.dump(version).as_bytes())
    }

    /// The text that upstream hashes: the structure as Go's `spew` prints it.
    fn dump(&self, version: Version) -> String {
        let nodes =
            or_nil(self.machine_state.as_ref(), |nodes| map(nodes, |node| pointer(node, FileNode::dump)));
        let blocks = |own: &Vec<FileBlock>| list(own, FileBlock::dump);
        let pod = |containers: &FileContainers| map(containers, |own| or_nil(own.as_ref(), blocks));
        let entries = or_nil(self.entries.as_ref(), |pods| map(pods, |own| or_nil(own.as_ref(), pod)));
        let pods = or_nil(self.pod_entries.as_ref(), |pods| map(pods, FilePod::dump));
        let pods = match version {
            Version::One => String::new(),
            Version::Two => format!("PodEntries:(state.PodMemoryAssignments){pods} "),
        };
        format!(
            "(*state.MemoryManagerCheckpoint){{PolicyName:(string){} MachineState:(state.NUMANodeMap){nodes} \
             Entries:(state.ContainerMemoryAssignments){entries} {pods}Checksum:(checksum.Checksum)0}}",
            self.policy_name
        )
    }
}

fn memory_blocks(blocks: Option<Vec<FileBlock>>) -> Result<Vec<MemoryBlock>, MemoryFileError> {
    let block = |block: FileBlock| {
        let nodes = mask(block.numa_affinity.as_ref())?;
        Ok(MemoryBlock { nodes, kind: block.kind, size: block.size })
    };
    blocks.unwrap_or_default().into_iter().map(block).collect()
}

impl FilePod {
    fn dump(&self) -> String {
        let blocks = or_nil(self.memory_blocks.as_ref(), |blocks| list(blocks, FileBlock::dump));
        format!("{{MemoryBlocks:([]state.Block){blocks}}}")
    }
}

impl FileNode {
    fn dump(&self) -> String {
        let tables =
            or_nil(self.memory_map.as_ref(), |tables| map(tables, |own| pointer(own, FileTable::dump)));
        let cells = or_nil(self.cells.as_ref(), |cells| list(cells, i64::to_string));
        format!(
            "{{NumberOfAssignments:(int){} MemoryMap:(map[v1.ResourceName]*state.MemoryTable){tables} \
             Cells:([]int){cells}}}",
            self.number_of_assignments
        )
    }
}

impl FileTable {
    fn dump(&self) -> String {
        format!(
            "{{TotalMemSize:(uint64){} SystemReserved:(uint64){} Allocatable:(uint64){} Reserved:(uint64){} \
             Free:(uint64){}}}",
            self.total, self.system_reserved, self.allocatable, self.reserved, self.free
        )
    }
}

impl FileBlock {
    fn dump(&self) -> String {
        let nodes = or_nil(self.numa_affinity.as_ref(), |nodes| list(nodes, i64::to_string));
        format!(
            "{{NUMAAffinity:([]int){nodes} Type:(v1.ResourceName){} Size:(uint64){}}}",
            self.kind, self.size
        )
    }
}

fn or_nil<T>(value: Option<&T>, dump: impl FnOnce(&T) -> String) -> String {
    value.map_or_else(|| "<nil>".to_owned(), dump)
}

fn pointer<T>(value: &Option<T>, dump: impl FnOnce(&T) -> String) -> String {
    value.as_ref().map_or_else(|| "<nil>".to_owned(), |value| format!("<*>{}", dump(value)))
}

fn map<K: ToString, V>(values: &BTreeMap<K, V>, dump: impl Fn(&V) -> String) -> String {
    let pairs: Vec<String> =
        values.iter().map(|(key, value)| format!("{}:{}", key.to_string(), dump(value))).collect();
    format!("map[{}]", pairs.join(" "))
}

fn list<T>(values: &[T], dump: impl Fn(&T) -> String) -> String {
    format!("[{}]", values.iter().map(dump).collect::<Vec<_>>().join(" "))
}
