//! The NUMA nodes of the machine with their memory, from sysfs.
//!
//! Reads what upstream reads: the memory manager's state file must fit both agents.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::Path;

use model::NumaNode;
use values::quantity::binary_si;

use super::cpu_topology::{numbered, read_if_exists, topology_value};
use super::meminfo_bytes;

/// `sys` is usually `/sys`. Without NUMA nodes in sysfs, each CPU package is a node without memory.
///
/// # Errors
/// When a file exists and cannot be read or has unknown content.
pub fn numa_nodes(sys: &Path) -> io::Result<Vec<NumaNode>> {
    let system = sys.join("devices/system");
    let numbers = numbered(&system.join("node"), "node")?;
    if numbers.is_empty() {
        return packages(&system.join("cpu"));
    }
    numbers.into_iter().map(|number| numa_node(&system.join(format!("node/node{number}")), number)).collect()
}

fn numa_node(folder: &Path, number: u32) -> io::Result<NumaNode> {
    let invalid = |file: &str| io::Error::new(ErrorKind::InvalidData, format!("{}/{file}", folder.display()));
    let memory = match read_if_exists(&folder.join("meminfo"))? {
        Some(text) => meminfo_bytes_of_node(&text).ok_or_else(|| invalid("meminfo"))?,
        None => 0,
    };
    let distances = read_if_exists(&folder.join("distance"))?.map(|text| {
        text.split_whitespace().map(|word| word.parse().map_err(|_| invalid("distance"))).collect()
    });
    Ok(NumaNode {
        id: i32::try_from(number).map_err(|_| invalid(""))?,
        memory,
        huge_pages: huge_pages(&folder.join("hugepages"))?,
        distances: distances.transpose()?,
    })
}

/// Lines have a prefix such as `Node 0`.
fn meminfo_bytes_of_node(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| Some(line.split_once("MemTotal:")?.1))?;
    meminfo_bytes(line, "")
}

/// Bytes of the pages of each size by resource name, also of sizes without pages.
fn huge_pages(folder: &Path) -> io::Result<BTreeMap<String, u64>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
        entries => entries?,
    };
    let mut found = BTreeMap::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let size = name.to_str().and_then(|name| name.strip_prefix("hugepages-")?.strip_suffix("kB"));
        let Some(kibibytes) = size.and_then(|size| size.parse::<u64>().ok()) else { continue };
        let Some(text) = read_if_exists(&entry.path().join("nr_hugepages"))? else { continue };
        let pages: u64 =
            text.trim().parse().map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        let size = kibibytes.saturating_mul(1024);
        let suffix = binary_si(i64::try_from(size).unwrap_or(i64::MAX));
        found.insert(format!("hugepages-{suffix}"), size.saturating_mul(pages));
    }
    Ok(found)
}

fn packages(cpu_folder: &Path) -> io::Result<Vec<NumaNode>> {
    let mut found = BTreeMap::new();
    for cpu in numbered(cpu_folder, "cpu")? {
        if let Some(id) = topology_value(cpu_folder, cpu, "physical_package_id")? {
            found.insert(id, NumaNode { id, ..NumaNode::default() });
        }
    }
    Ok(found.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_folder::Scratch;

    const NODES: &str = "sys/devices/system/node";

    #[test]
    fn reads_memory_huge_pages_and_distances() {
        let folder = Scratch::new();
        for node in [0, 1] {
            let own = format!("{NODES}/node{node}");
            folder.write(
                &format!("{own}/meminfo"),
                &format!("Node {node} MemTotal:   1024 kB\nNode {node} MemFree: 1 kB\n"),
            );
            folder.write(&format!("{own}/hugepages/hugepages-2048kB/nr_hugepages"), "3\n");
            folder.write(&format!("{own}/hugepages/hugepages-1048576kB/nr_hugepages"), "0\n");
            folder.write(&format!("{own}/distance"), if node == 0 { "10 20\n" } else { "20 10\n" });
        }
        let nodes = numa_nodes(&folder.path().join("sys")).unwrap();
        assert_eq!(nodes.len(), 2);
        assert_eq!((nodes[1].id, nodes[1].memory), (1, 1 << 20));
        let sizes = [("hugepages-1Gi".to_owned(), 0), ("hugepages-2Mi".to_owned(), 6 << 20)];
        assert_eq!(nodes[0].huge_pages, sizes.into());
        assert_eq!(nodes[1].distances, Some(vec![20, 10]));
    }

    #[test]
    fn packages_are_nodes_without_memory_where_sysfs_has_no_nodes() {
        let folder = Scratch::new();
        for (cpu, package) in [(0, 0), (1, 0), (2, 1)] {
            let file = format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id");
            folder.write(&file, &format!("{package}\n"));
        }
        let nodes = numa_nodes(&folder.path().join("sys")).unwrap();
        let node = |id| NumaNode { id, ..NumaNode::default() };
        assert_eq!(nodes, [node(0), node(1)]);
    }

    #[test]
    fn this_machine_has_a_node_with_memory() {
        let nodes = numa_nodes(Path::new("/sys")).unwrap();
        assert!(!nodes.is_empty(), "{nodes:?}");
    }
}
