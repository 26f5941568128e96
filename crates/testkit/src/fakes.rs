//! Fakes for the machine ports that a virtual node does not need.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use model::{
    AdmissionSettings, CgroupDriver, CgroupLimits, CgroupSettings, CgroupVersion, HostCapabilities,
    NodeResources, NodeSettings, PodGates, SystemProcesses,
};
use ports::host::pod_cgroups::PodCgroups;
use ports::host::pod_folders::FileError;
use ports::host::process_watch::ProcessWatch;
use ports::host::system_cgroups::SystemCgroups;

/// Creates and removes no cgroups, and reports success.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPodCgroups;

#[async_trait]
impl PodCgroups for NoPodCgroups {
    async fn ensure(&self, _: &str, _: &CgroupLimits) -> Result<(), FileError> {
        Ok(())
    }

    async fn set(&self, _: &str, _: &CgroupLimits) -> Result<(), FileError> {
        Ok(())
    }

    async fn exists(&self, _: &str) -> Result<bool, FileError> {
        Ok(true)
    }

    async fn limits(&self, _: &str) -> Result<CgroupLimits, FileError> {
        Ok(CgroupLimits::default())
    }

    async fn memory_usage(&self, _: &str) -> Result<u64, FileError> {
        Ok(0)
    }

    async fn children(&self, _: &str) -> Result<Vec<String>, FileError> {
        Ok(Vec::new())
    }

    async fn kill_processes(&self, _: &str) -> Result<(), FileError> {
        Ok(())
    }

    async fn remove(&self, _: &str) -> Result<(), FileError> {
        Ok(())
    }
}

/// A machine without processes.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSystemCgroups;

#[async_trait]
impl SystemCgroups for NoSystemCgroups {
    async fn processes(&self) -> Result<SystemProcesses, FileError> {
        Ok(SystemProcesses::default())
    }

    async fn enter(&self, _: u32, _: &str) -> Result<(), FileError> {
        Ok(())
    }
}

/// A machine that cannot watch processes.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProcessWatch;

#[async_trait]
impl ProcessWatch for NoProcessWatch {
    async fn exited(&self, _: u32) -> Result<(), std::io::Error> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

/// A node of two CPUs, 1 GiB of memory and ten pods, on cgroup v2, without folders.
#[must_use]
pub fn node_settings() -> NodeSettings {
    NodeSettings {
        name: "node".to_owned(),
        addresses: Vec::new(),
        root_dir: PathBuf::new(),
        pod_logs_dir: PathBuf::new(),
        memory_capacity: 1 << 30,
        cpu_count: 2,
        cgroups: CgroupSettings::default(),
        capabilities: HostCapabilities {
            cgroup_version: CgroupVersion::V2,
            swap_controller: false,
            hugepage_sizes: Vec::new(),
            masked_cpu_paths: Vec::new(),
            selinux: None,
        },
        cgroup_root: "/".to_owned(),
        cgroup_driver: CgroupDriver::Cgroupfs,
        cgroups_per_qos: true,
        pods_cpus: None,
        cpu_cfs_quota: true,
        cpu_cfs_quota_period: Duration::from_millis(100),
        single_process_oom_kill: false,
        pod_pids_limit: -1,
        cluster_dns: Vec::new(),
        cluster_domain: String::new(),
        resolv_conf: String::new(),
        seccomp_default: false,
        resources: NodeResources {
            capacity: [("cpu", 2000), ("memory", 1 << 30), ("pods", 10)]
                .map(|(name, amount)| (name.to_owned(), amount))
                .into(),
            ..NodeResources::default()
        },
        admission: AdmissionSettings::default(),
        container_stop_signals: false,
        cpu_policy: model::CpuPolicy::None,
        memory_policy: model::MemoryManagerPolicy::None,
        gates: PodGates::default(),
    }
}
