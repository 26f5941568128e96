//! Moves processes that belong to no pod between cgroups.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use model::{OwnProcess, PidNamespace, ProcessKind, RootProcess, SystemProcesses};
use ports::host::pod_folders::FileError;
use ports::host::system_cgroups::SystemCgroups;

use super::hierarchies::Hierarchy;
use super::pod_cgroups::{HostPodCgroups, relative};
use crate::errors::{OnPath, blocking};

/// [`SystemCgroups`] through the cgroup file systems and `/proc`. Like upstream, it never uses systemd.
#[derive(Clone, Debug)]
pub struct HostSystemCgroups {
    hierarchies: Arc<[Hierarchy]>,
    proc: PathBuf,
}

impl HostPodCgroups {
    /// Uses the same hierarchies for processes that belong to no pod; `proc` is usually `/proc`.
    #[must_use]
    pub fn system_cgroups(&self, proc: &Path) -> HostSystemCgroups {
        HostSystemCgroups { hierarchies: Arc::clone(&self.hierarchies), proc: proc.to_owned() }
    }
}

#[async_trait]
impl SystemCgroups for HostSystemCgroups {
    async fn processes(&self) -> Result<SystemProcesses, FileError> {
        let this = self.clone();
        blocking(&self.proc, move || Ok(SystemProcesses { own: this.own()?, in_root: this.in_root()? })).await
    }

    async fn enter(&self, pid: u32, path: &str) -> Result<(), FileError> {
        let (hierarchies, relative) = (Arc::clone(&self.hierarchies), relative(path)?);
        blocking(Path::new(path), move || {
            let enter = |hierarchy: &Hierarchy| {
                hierarchy.ensure(&relative)?;
                hierarchy.enter(&relative, pid)
            };
            // Try all hierarchies even after a failure, so that the process does not stay split between two cgroups.
            let failures: Vec<FileError> = hierarchies.iter().filter_map(|one| enter(one).err()).collect();
            failures.into_iter().next().map_or(Ok(()), Err)
        })
        .await
    }
}

impl HostSystemCgroups {
    fn own(&self) -> Result<OwnProcess, FileError> {
        let file = self.proc.join("self/cgroup");
        let text = std::fs::read_to_string(&file).on_path("read", file)?;
        Ok(OwnProcess {
            pid: std::process::id(),
            cgroups: cgroups(&text, self.hierarchies.iter().any(Hierarchy::is_unified)),
            namespace: self.namespace()?,
        })
    }

    fn namespace(&self) -> Result<PidNamespace, FileError> {
        let of = |process: &str| {
            let link = self.proc.join(process).join("ns/pid");
            std::fs::read_link(&link).on_path("read", link)
        };
        Ok(if of("1")? == of("self")? { PidNamespace::Machine } else { PidNamespace::Other })
    }

    fn in_root(&self) -> Result<Vec<RootProcess>, FileError> {
        let Some(hierarchy) = self.hierarchies.iter().find(|one| one.identifies_root_processes()) else {
            return Err(io::Error::from(io::ErrorKind::NotFound)).on_path("find hierarchy of", "devices");
        };
        let kind = |pid: u32| match std::fs::read_link(self.proc.join(pid.to_string()).join("exe")) {
            // Kernel threads have no executable. A process that has exited is treated the same.
            Err(error) if error.kind() == io::ErrorKind::NotFound => ProcessKind::Kernel,
            Ok(_) | Err(_) => ProcessKind::Program,
        };
        let pids = hierarchy.root_processes()?;
        Ok(pids.into_iter().map(|pid| RootProcess { pid, kind: kind(pid) }).collect())
    }
}

/// The cgroups in a file such as `/proc/self/cgroup`. On v1 only those of CPU, memory and systemd.
fn cgroups(text: &str, unified: bool) -> Vec<String> {
    const RELEVANT: [&str; 3] = ["cpu", "memory", "name=systemd"];
    let cgroup = |line: &str| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let is_relevant = match unified {
            true => controllers.is_empty(),
            false => controllers.split(',').any(|name| RELEVANT.contains(&name)),
        };
        is_relevant.then(|| path.to_owned())
    };
    text.lines().filter_map(cgroup).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use model::CgroupVersion;

    use super::*;

    fn write(path: PathBuf, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn link(path: PathBuf, target: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    /// A `/proc` with kernel thread 2 and program 9; the agent is in the PID namespace of process 1.
    fn proc(root: &Path, cgroup: &str) -> PathBuf {
        let proc = root.join("proc");
        write(proc.join("self/cgroup"), cgroup);
        for process in ["1", "self"] {
            link(proc.join(process).join("ns/pid"), "pid:[4026531836]");
        }
        for program in ["1", "9"] {
            link(proc.join(program).join("exe"), "/bin/program");
        }
        proc
    }

    fn found(processes: &SystemProcesses) -> Vec<(u32, ProcessKind)> {
        processes.in_root.iter().map(|process| (process.pid, process.kind)).collect()
    }

    const IN_ROOT: [(u32, ProcessKind); 3] =
        [(1, ProcessKind::Program), (2, ProcessKind::Kernel), (9, ProcessKind::Program)];

    #[tokio::test]
    async fn v2_lists_and_moves_processes_in_one_hierarchy() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("cgroup");
        write(root.join("cgroup.procs"), "0\n1\n2\n9\n");
        let pods = HostPodCgroups::with_version(CgroupVersion::V2, &root, Path::new("/none")).unwrap();
        let cgroups = pods.system_cgroups(&proc(scratch.path(), "0::/system.slice/podward.service\n"));
        let processes = cgroups.processes().await.unwrap();
        assert_eq!(processes.own.cgroups, ["/system.slice/podward.service"]);
        assert_eq!(processes.own.namespace, PidNamespace::Machine);
        assert_eq!((processes.own.pid, found(&processes)), (std::process::id(), IN_ROOT.to_vec()));
        cgroups.enter(9, "/system/others").await.unwrap();
        assert_eq!(fs::read_to_string(root.join("system/others/cgroup.procs")).unwrap(), "9");
        assert!(cgroups.enter(9, "/").await.is_err() && cgroups.enter(9, "/../x").await.is_err());
    }

    #[tokio::test]
    async fn v1_moves_processes_in_each_hierarchy() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        let names = ["cpu,cpuacct", "devices", "systemd"];
        let lines =
            [(29, "cpu,cpuacct", "cpu,cpuacct"), (30, "devices", "devices"), (31, "systemd", "name=systemd")];
        let lines = lines.map(|(device, name, options)| {
            format!("32 31 0:{device} / {}/{name} rw - cgroup cgroup rw,{options}", root.display())
        });
        write(root.join("mountinfo"), &lines.join("\n"));
        for name in names {
            write(root.join(name).join("cgroup.procs"), if name == "devices" { "1\n2\n9\n" } else { "3\n" });
        }
        let table = root.join("mountinfo");
        let pods = HostPodCgroups::with_version(CgroupVersion::V1, &root, &table).unwrap();
        let own = "9:net_cls:/\n4:memory:/b\n3:cpu,cpuacct:/a\n1:name=systemd:/c\n0::/d\n";
        let cgroups = pods.system_cgroups(&proc(&root, own));
        let processes = cgroups.processes().await.unwrap();
        assert_eq!(processes.own.cgroups, ["/b", "/a", "/c"]);
        assert_eq!(found(&processes), IN_ROOT);
        cgroups.enter(9, "system").await.unwrap();
        for name in names {
            assert_eq!(
                fs::read_to_string(root.join(name).join("system/cgroup.procs")).unwrap(),
                "9",
                "{name}"
            );
        }
    }

    #[tokio::test]
    async fn unreadable_proc_is_an_error() {
        let scratch = tempfile::tempdir().unwrap();
        let pods =
            HostPodCgroups::with_version(CgroupVersion::V2, scratch.path(), Path::new("/none")).unwrap();
        assert!(pods.system_cgroups(&scratch.path().join("proc")).processes().await.is_err());
        let proc = proc(scratch.path(), "0::/\n");
        fs::remove_file(proc.join("self/ns/pid")).unwrap();
        symlink("pid:[1]", proc.join("self/ns/pid")).unwrap();
        let processes = pods.system_cgroups(&proc).processes().await.unwrap();
        assert_eq!((processes.own.namespace, processes.in_root), (PidNamespace::Other, Vec::new()));
    }
}
