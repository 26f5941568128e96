//! One private node on this machine: a short temporary folder and all objects named after it.
//!
//! The names of socket, bridge, cgroup root and network derive from the folder's name, so everything that belongs to a
//! leftover folder can be found and removed. [`Instance::remove`] runs on drop, and [`sweep`] does the same for folders
//! whose owner was killed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal};

use crate::poll::block;
use crate::process;

const PARENT: &str = "/tmp";
const PREFIX: &str = "pw-";

/// A node's folder. Dropping it stops and removes everything that was started in it.
#[derive(Debug)]
pub struct Instance {
    folder: PathBuf,
}

impl Instance {
    /// Creates a new folder, and removes those of killed test runs.
    pub fn create() -> Result<Self> {
        sweep();
        let folder = tempfile::Builder::new().prefix(PREFIX).rand_bytes(6).tempdir_in(PARENT);
        let folder = folder.context("create a folder in /tmp")?.keep();
        let owner = std::process::id();
        let started = process::start_ticks(owner).unwrap_or_default();
        fs::write(folder.join("owner"), format!("{owner} {started}")).context("write the owner file")?;
        Ok(Self { folder })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub fn socket(&self) -> PathBuf {
        self.path("c.sock")
    }

    /// The random part of all names.
    pub fn id(&self) -> &str {
        let name = self.folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.trim_start_matches(PREFIX)
    }

    pub fn bridge(&self) -> String {
        format!("pw{}", self.id())
    }

    /// First three octets of the pod network's /24.
    pub fn subnet(&self) -> String {
        let sum = self.id().bytes().fold(0u32, |sum, byte| sum.wrapping_mul(131).wrapping_add(byte.into()));
        format!("10.{}.{}", 128 + sum % 100, (sum / 100) % 256)
    }

    /// Cgroup below which the agent places pods, relative to each controller's mount.
    pub fn cgroup_root(&self) -> String {
        format!("/pw-{}", self.id())
    }

    /// Stops processes, unmounts, and deletes network, cgroups, log links and the folder.
    fn remove(&self) {
        for _ in 0..40 {
            let processes = self.processes();
            if processes.is_empty() {
                break;
            }
            for pid in processes {
                let _ = kill(pid, Signal::KILL);
            }
            block(Duration::from_millis(50));
        }
        crate::node_runtime::reset(self);
        self.unmount();
        let _ = Command::new("ip").args(["link", "del", &self.bridge()]).stderr(Stdio::null()).status();
        self.remove_network_records();
        self.remove_log_links();
        for _ in 0..40 {
            if self.remove_cgroups() {
                break;
            }
            block(Duration::from_millis(50));
        }
        let _ = fs::remove_dir_all(&self.folder);
    }

    /// Processes with the folder in their command line (containerd, shims, agents) and the first processes of
    /// containers, found by pid file and cgroup.
    fn processes(&self) -> BTreeSet<u32> {
        let mark = format!("{}/", self.folder.display());
        let own = std::process::id();
        let by_command = process::all().into_iter().filter(|pid| {
            *pid != own && process::command_line(*pid).is_some_and(|line| line.contains(&mark))
        });
        let mut pids: BTreeSet<u32> = by_command.collect();
        let tasks = self.path("state/io.containerd.runtime.v2.task/k8s.io");
        for task in fs::read_dir(tasks).into_iter().flatten().flatten() {
            let id = task.file_name().to_string_lossy().into_owned();
            let pid = fs::read_to_string(task.path().join("init.pid")).unwrap_or_default();
            let Ok(pid) = pid.trim().parse::<u32>() else { continue };
            if fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|cgroup| cgroup.contains(&id)) {
                pids.insert(pid);
            }
        }
        pids.retain(|pid| !process::is_zombie(*pid));
        pids
    }

    /// Memory of all these processes without containers: agent, runtime, shims or keepers. Pages that several of them use
    /// count once.
    pub fn memory_kib(&self) -> u64 {
        let mark = format!("{}/", self.folder.display());
        let own = std::process::id();
        let programs = process::all().into_iter().filter(|pid| {
            *pid != own && process::command_line(*pid).is_some_and(|line| line.contains(&mark))
        });
        programs.filter_map(process::proportional_kib).sum()
    }

    fn unmount(&self) {
        let mark = format!("{}/", self.folder.display());
        for point in process::mount_points().iter().rev().filter(|point| point.starts_with(&mark)) {
            let _ = rustix::mount::unmount(point.as_str(), rustix::mount::UnmountFlags::DETACH);
        }
    }

    fn remove_network_records(&self) {
        // The CNI plugins' records contain the path of the network namespace, which is in the folder.
        let mark = format!("{}/", self.folder.display());
        for entry in fs::read_dir("/var/lib/cni/results").into_iter().flatten().flatten() {
            if fs::read_to_string(entry.path()).is_ok_and(|record| record.contains(&mark)) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn remove_log_links(&self) {
        for entry in fs::read_dir("/var/log/containers").into_iter().flatten().flatten() {
            if fs::read_link(entry.path()).is_ok_and(|target| target.starts_with(&self.folder)) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn remove_cgroups(&self) -> bool {
        let name = self.cgroup_root();
        let roots =
            process::cgroup_mounts().into_iter().map(|mount| mount.join(name.trim_start_matches('/')));
        let remaining = roots.filter(|root| root.exists()).filter(|root| !remove_cgroup(root));
        remaining.count() == 0
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if std::env::var_os("PODWARD_KEEP").is_none() {
            self.remove();
        }
    }
}

/// Removes what killed test runs left behind.
pub fn sweep() {
    for entry in fs::read_dir(PARENT).into_iter().flatten().flatten() {
        let folder = entry.path();
        let named = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let Ok(owner) = fs::read_to_string(folder.join("owner")) else { continue };
        let mut fields = owner.split_whitespace();
        let pid = fields.next().and_then(|pid| pid.parse().ok()).unwrap_or(0);
        let started = fields.next().and_then(|ticks| ticks.parse().ok());
        if named && process::start_ticks(pid) != started {
            Instance { folder }.remove();
        }
    }
}

pub fn kill(pid: u32, signal: Signal) -> Result<()> {
    let id =
        i32::try_from(pid).ok().and_then(Pid::from_raw).with_context(|| format!("no such pid: {pid}"))?;
    rustix::process::kill_process(id, signal).with_context(|| format!("signal process {pid}"))
}

fn remove_cgroup(folder: &Path) -> bool {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_cgroup(&entry.path());
        }
    }
    fs::remove_dir(folder).is_ok()
}
