//! Processes, boot time and CPU topology of the machine.

use std::collections::BTreeSet;
use std::path::Path;

use model::Timestamp;
use model::usage::{CpuTopology, ProcessCount};

use super::files;

/// Number of threads (the fourth value of `loadavg`, `1/260`) and the maximum PID.
pub(super) fn processes(proc: &Path) -> Option<ProcessCount> {
    let limits = ["sys/kernel/pid_max", "sys/kernel/threads-max"].map(|name| files::number(&proc.join(name)));
    let load = files::text(&proc.join("loadavg"))?;
    let (_, current) = load.split(' ').nth(3)?.split_once('/')?;
    let max = i64::try_from(limits.into_iter().flatten().min()?).ok()?;
    Some(ProcessCount { max, current: current.parse().ok()? })
}

/// Reads `btime` in `stat`.
pub(super) fn booted_at(proc: &Path) -> Option<Timestamp> {
    let seconds = files::Table::read(&proc.join("stat")).find("btime")?;
    Some(Timestamp::from_secs(i64::try_from(seconds).ok()?))
}

/// Without topology information, assumes one core per CPU and one socket.
pub(super) fn topology(sys: &Path) -> CpuTopology {
    let cpus = sys.join("devices/system/cpu");
    let is_cpu = |name: &String| {
        name.strip_prefix("cpu")
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let names: Vec<String> = files::KernelFolder::open(&cpus)
        .map(|cpus| cpus.folders())
        .unwrap_or_default()
        .into_iter()
        .filter(is_cpu)
        .collect();
    let mut cores = BTreeSet::new();
    let mut sockets = BTreeSet::new();
    for name in &names {
        let topology_id = |file: &str| files::text(&cpus.join(name).join("topology").join(file));
        let Some(socket) = topology_id("physical_package_id") else { continue };
        cores.insert((socket.clone(), topology_id("core_id")));
        sockets.insert(socket);
    }
    let logical = names.len() as u64;
    let or = |found: usize, otherwise: u64| if found == 0 { otherwise } else { found as u64 };
    CpuTopology { logical, cores: or(cores.len(), logical), sockets: or(sockets.len(), 1) }
}
