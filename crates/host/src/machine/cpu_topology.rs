//! The CPUs of the machine, from sysfs.
//!
//! Reads the files that upstream reads, in its order, with its rules for files that are missing: the CPU manager's choices
//! depend on the result, and must not change when a node switches between agents.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::Path;

use model::{CpuLocation, CpuTopology};
use values::cpu_set::CpuSet;

/// Caches of this level and below belong to one core.
const LEVEL_2: u32 = 2;

/// CPUs with the same core id on the same socket.
struct Core {
    id: i32,
    socket: i32,
    threads: Vec<u32>,
    uncore_cache: Option<i32>,
}

/// `sys` is usually `/sys`, `proc` is usually `/proc`. Empty if sysfs does not describe the CPUs.
///
/// # Errors
/// When a file exists and cannot be read or has unknown content.
pub fn cpu_topology(sys: &Path, proc: &Path) -> io::Result<CpuTopology> {
    let system = sys.join("devices/system");
    let cpu_folder = system.join("cpu");
    let online = read_online(&cpu_folder)?;
    let nodes = numbered(&system.join("node"), "node")?;
    let mut topology = CpuTopology::default();
    if nodes.is_empty() {
        let cpus = numbered(&cpu_folder, "cpu")?;
        topology.cpu_count = cpus.len();
        let mut packages: BTreeMap<i32, Vec<u32>> = BTreeMap::new();
        for cpu in cpus {
            if let Some(package) = topology_value(&cpu_folder, cpu, "physical_package_id")? {
                packages.entry(package).or_default().push(cpu);
            }
        }
        for (package, cpus) in packages {
            add_node(&mut topology, &cpu_folder, package, cores(&cpu_folder, cpus, online.as_ref())?);
        }
    } else {
        for node in nodes {
            let cpus = numbered(&system.join(format!("node/node{node}")), "cpu")?;
            let id = i32::try_from(node).unwrap_or(i32::MAX);
            add_node(&mut topology, &cpu_folder, id, cores(&cpu_folder, cpus, online.as_ref())?);
        }
        topology.cpu_count = topology.cpus.len();
    }
    topology.socket_count = match sockets_in_cpuinfo(proc) {
        0 => online_sockets(&cpu_folder, online.as_ref())?,
        count => count,
    };
    Ok(topology)
}

fn add_node(topology: &mut CpuTopology, cpu_folder: &Path, node: i32, mut cores: Vec<Core>) {
    find_uncore_caches(cpu_folder, &mut cores);
    topology.core_count += cores.len();
    for core in cores {
        let lowest = core.threads.iter().min().and_then(|cpu| i32::try_from(*cpu).ok()).unwrap_or_default();
        let location = CpuLocation {
            numa_node: node,
            socket: core.socket,
            core: lowest,
            uncore_cache: core.uncore_cache.unwrap_or(core.socket),
        };
        topology.cpus.extend(core.threads.into_iter().map(|cpu| (cpu, location)));
    }
}

/// CPUs without the files of their topology are left out.
fn cores(cpu_folder: &Path, cpus: Vec<u32>, online: Option<&CpuSet>) -> io::Result<Vec<Core>> {
    let mut cores: Vec<Core> = Vec::new();
    for cpu in cpus {
        if online.is_some_and(|online| !online.contains(cpu)) {
            continue;
        }
        let Some(id) = topology_value(cpu_folder, cpu, "core_id")? else { continue };
        let Some(socket) = topology_value(cpu_folder, cpu, "physical_package_id")? else { continue };
        match cores.iter_mut().find(|core| core.id == id && core.socket == socket) {
            Some(core) => core.threads.push(cpu),
            None => cores.push(Core { id, socket, threads: vec![cpu], uncore_cache: None }),
        }
    }
    Ok(cores)
}

/// A cache above level 2 is an uncore cache unless the whole NUMA node shares it. Like upstream, a core without complete
/// cache files ends the search in this node.
fn find_uncore_caches(cpu_folder: &Path, cores: &mut [Core]) {
    let count = cores.len();
    for core in cores {
        let Some(first) = core.threads.first() else { continue };
        let cpus_if_shared_by_node = count * core.threads.len();
        let Some(caches) = caches(&cpu_folder.join(format!("cpu{first}/cache"))) else { return };
        let uncore =
            caches.into_iter().find(|cache| cache.level > LEVEL_2 && cache.cpus != cpus_if_shared_by_node);
        core.uncore_cache = uncore.map(|cache| cache.id);
    }
}

struct Cache {
    id: i32,
    level: u32,
    cpus: usize,
}

/// `None` if a file is missing or has unknown content.
fn caches(folder: &Path) -> Option<Vec<Cache>> {
    let entries = std::fs::read_dir(folder).ok()?.collect::<io::Result<Vec<_>>>().ok()?;
    let mut names: Vec<_> = entries.into_iter().map(|entry| entry.file_name()).collect();
    names.sort();
    let indexes = names.into_iter().filter(|name| name.to_string_lossy().starts_with("index"));
    let cache = |name: std::ffi::OsString| {
        let text = |file: &str| std::fs::read_to_string(folder.join(&name).join(file)).ok();
        let map = text("shared_cpu_map")?;
        let cpus = map.trim().split(',').map(|word| u64::from_str_radix(word, 16).ok());
        let cpus = cpus.map(|word| word.map(u64::count_ones)).sum::<Option<u32>>()?;
        // Upstream needs these files too.
        text("size")?;
        text("type")?;
        Some(Cache {
            id: text("id")?.trim().parse().ok()?,
            level: text("level")?.trim().parse().ok()?,
            cpus: usize::try_from(cpus).ok()?,
        })
    };
    indexes.map(cache).collect()
}

fn sockets_in_cpuinfo(proc: &Path) -> usize {
    let text = std::fs::read_to_string(proc.join("cpuinfo")).unwrap_or_default();
    let sockets = text.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim_end() == "physical id").then(|| value.trim().to_owned())
    });
    sockets.collect::<BTreeSet<_>>().len()
}

fn online_sockets(cpu_folder: &Path, online: Option<&CpuSet>) -> io::Result<usize> {
    let mut sockets = BTreeSet::new();
    for cpu in numbered(cpu_folder, "cpu")? {
        if online.is_none_or(|online| online.contains(cpu)) {
            sockets.extend(topology_value(cpu_folder, cpu, "physical_package_id")?);
        }
    }
    Ok(sockets.len())
}

/// `None` if the kernel has no hotplug of CPUs: all are online then.
fn read_online(cpu_folder: &Path) -> io::Result<Option<CpuSet>> {
    let text = read_if_exists(&cpu_folder.join("online"))?;
    text.map(|text| text.trim().parse().map_err(|error| io::Error::new(ErrorKind::InvalidData, error)))
        .transpose()
}

pub(super) fn topology_value(cpu_folder: &Path, cpu: u32, file: &str) -> io::Result<Option<i32>> {
    let path = cpu_folder.join(format!("cpu{cpu}/topology/{file}"));
    let text = read_if_exists(&path)?;
    let number = |text: String| {
        let invalid = || io::Error::new(ErrorKind::InvalidData, format!("{}: not a number", path.display()));
        text.trim().parse().map_err(|_| invalid())
    };
    text.map(number).transpose()
}

pub(super) fn read_if_exists(path: &Path) -> io::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The numbers of entries such as `cpu7`, in the lexical order of their names; empty if the folder is missing.
pub(super) fn numbered(folder: &Path, prefix: &str) -> io::Result<Vec<u32>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry?.file_name().into_string());
    }
    names.sort_unstable();
    Ok(names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_folder::Scratch;

    const CPU: &str = "sys/devices/system/cpu";

    fn add_cpu(scratch: &Scratch, cpu: u32, node: Option<u32>, (core, socket): (i32, i32)) {
        scratch.write(&format!("{CPU}/cpu{cpu}/topology/core_id"), &format!("{core}\n"));
        scratch.write(&format!("{CPU}/cpu{cpu}/topology/physical_package_id"), &format!("{socket}\n"));
        if let Some(node) = node {
            scratch.write(&format!("sys/devices/system/node/node{node}/cpu{cpu}/online"), "1\n");
        }
    }

    fn add_cache(scratch: &Scratch, cpu: u32, index: u32, (id, level, map): (u32, u32, &str)) {
        let folder = format!("{CPU}/cpu{cpu}/cache/index{index}");
        for (file, text) in [
            ("id", id.to_string()),
            ("level", level.to_string()),
            ("shared_cpu_map", map.to_owned()),
            ("size", "32K".to_owned()),
            ("type", "Unified".to_owned()),
        ] {
            scratch.write(&format!("{folder}/{file}"), &format!("{text}\n"));
        }
    }

    fn discover(scratch: &Scratch) -> CpuTopology {
        cpu_topology(&scratch.path().join("sys"), &scratch.path().join("proc")).unwrap()
    }

    fn location(numa_node: i32, socket: i32, core: i32, uncore_cache: i32) -> CpuLocation {
        CpuLocation { numa_node, socket, core, uncore_cache }
    }

    #[test]
    fn reads_two_sockets_with_siblings() {
        let scratch = Scratch::new();
        for cpu in 0..8 {
            let socket = (cpu % 4) / 2;
            add_cpu(&scratch, cpu, Some(socket), ((cpu % 2).try_into().unwrap(), socket.try_into().unwrap()));
        }
        scratch.write(&format!("{CPU}/online"), "0-7\n");
        scratch.write(
            "proc/cpuinfo",
            "processor\t: 0\nphysical id\t: 0\n\nphysical id\t: 1\nphysical id\t: 1\n",
        );
        let found = discover(&scratch);
        assert_eq!((found.cpu_count, found.core_count, found.socket_count), (8, 4, 2));
        assert_eq!(found.cpus[&0], location(0, 0, 0, 0));
        assert_eq!(found.cpus[&4], location(0, 0, 0, 0));
        assert_eq!(found.cpus[&7], location(1, 1, 3, 1));
        assert_eq!(found.cpus_per_core(), 2);
    }

    #[test]
    fn ignores_offline_cpus_and_cpus_without_topology() {
        let scratch = Scratch::new();
        for cpu in 0..4 {
            add_cpu(&scratch, cpu, Some(0), (i32::try_from(cpu % 2).unwrap(), 0));
        }
        scratch.write("sys/devices/system/node/node0/cpu4/online", "1\n");
        scratch.write(&format!("{CPU}/online"), "0-2,4\n");
        let found = discover(&scratch);
        assert_eq!(found.all().to_string(), "0-2");
        assert_eq!((found.cpu_count, found.core_count, found.socket_count), (3, 2, 1));
        assert_eq!(found.cpus_per_core(), 1, "rounded down");
    }

    #[test]
    fn without_numa_nodes_each_package_is_a_node() {
        let scratch = Scratch::new();
        for cpu in 0..4 {
            add_cpu(&scratch, cpu, None, (i32::try_from(cpu).unwrap(), i32::try_from(cpu / 2).unwrap()));
        }
        scratch.write(&format!("{CPU}/online"), "0-2\n");
        let found = discover(&scratch);
        assert_eq!(found.cpus[&2], location(1, 1, 2, 1));
        assert_eq!((found.cpu_count, found.core_count, found.socket_count), (4, 3, 2));
    }

    #[test]
    fn level_3_caches_of_a_part_of_the_node_are_uncore_caches() {
        let scratch = Scratch::new();
        for cpu in 0..4 {
            add_cpu(&scratch, cpu, Some(0), (i32::try_from(cpu).unwrap(), 0));
            add_cache(&scratch, cpu, 2, (cpu, 2, "1"));
            add_cache(&scratch, cpu, 3, (cpu / 2 + 5, 3, if cpu < 2 { "3" } else { "c" }));
        }
        let found = discover(&scratch);
        assert_eq!(found.cpus[&1].uncore_cache, 5);
        assert_eq!(found.cpus[&2].uncore_cache, 6);
        assert_eq!(found.cpus_per_uncore_cache(), 2);
    }

    #[test]
    fn cache_of_the_whole_node_is_no_uncore_cache() {
        let scratch = Scratch::new();
        for cpu in 0..40 {
            add_cpu(&scratch, cpu, Some(0), (i32::try_from(cpu).unwrap(), 3));
            add_cache(&scratch, cpu, 3, (9, 3, "ff,ffffffff"));
        }
        let found = discover(&scratch);
        assert!(found.cpus.values().all(|location| location.uncore_cache == 3));
        assert_eq!(found.cpus.len(), 40);
    }

    #[test]
    fn machine_without_cpu_files_is_empty_and_damaged_files_are_errors() {
        let scratch = Scratch::new();
        assert_eq!(discover(&scratch), CpuTopology::default());
        add_cpu(&scratch, 0, Some(0), (0, 0));
        scratch.write(&format!("{CPU}/cpu0/topology/core_id"), "x\n");
        assert!(cpu_topology(&scratch.path().join("sys"), &scratch.path().join("proc")).is_err());
    }
}
