//! Fake readings of a machine.

use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::statistics::PodStatistics;
use model::usage::{
    CgroupUsage, CpuTopology, DiskUse, FilesystemRoom, InterfaceUsage, MemoryUsage, MountedDisk,
    ProcessCount, TreeUse,
};
use model::{
    FilesystemUsage, ImageAuth, ImageFilesystems, ImageSpec, ImageStatus, PodUid, SandboxSpec, Timestamp,
};
use ports::clock::Clock;
use ports::host::memory_thresholds::MemoryThresholds;
use ports::host::usage::{CgroupWithChildren, Detail, DiskUsage, PodCgroup, Usage};
use ports::runtime::{Images, RuntimeError};
use ports::served::pod_statistics::{DiskParts, PodStatisticsSource};
use testkit::fake_clock::FakeClock;
use tokio::sync::Notify;

/// The readings, and the calls so far.
pub(super) struct FakeReadings {
    pub(super) working_set: u64,
    pub(super) room: FilesystemRoom,
    pub(super) used: Vec<PodStatistics>,
    pub(super) processes: ProcessCount,
    pub(super) asked: Vec<String>,
}

pub(super) struct Machine {
    pub(super) clock: Arc<FakeClock>,
    pub(super) figures: Mutex<FakeReadings>,
    pub(super) crossed: Notify,
}

impl Machine {
    pub(super) fn new() -> Self {
        let room = FilesystemRoom { capacity: 100, available: 90, used: 10, inodes: 100, inodes_free: 90 };
        let processes = ProcessCount { max: 100, current: 1 };
        Self {
            clock: Arc::new(FakeClock::following_tokio(1_000_000)),
            figures: Mutex::new(FakeReadings {
                working_set: 0,
                room,
                used: Vec::new(),
                processes,
                asked: Vec::new(),
            }),
            crossed: Notify::new(),
        }
    }

    fn ask(&self, what: &str) {
        self.figures.lock().asked.push(what.to_owned());
    }

    pub(super) fn call_count(&self, what: &str) -> usize {
        self.figures.lock().asked.iter().filter(|asked| *asked == what).count()
    }
}

#[async_trait]
impl Usage for Machine {
    async fn cgroups(&self, paths: Vec<String>, _: Detail) -> Vec<Option<CgroupUsage>> {
        self.ask(&paths.join(" "));
        let working_set = self.figures.lock().working_set;
        let memory =
            MemoryUsage { usage: working_set, working_set, limit: Some(1 << 30), ..Default::default() };
        let one = CgroupUsage { time: self.clock.now(), memory, ..CgroupUsage::default() };
        paths.iter().map(|_| Some(one.clone())).collect()
    }

    async fn pod_cgroups(&self, _: Vec<PodCgroup>, _: Detail) -> Vec<Option<CgroupWithChildren>> {
        Vec::new()
    }

    async fn networks(&self, _: Vec<String>) -> Vec<Option<Vec<InterfaceUsage>>> {
        Vec::new()
    }

    async fn host_network(&self) -> Vec<InterfaceUsage> {
        Vec::new()
    }

    async fn own_cgroup(&self) -> Option<String> {
        None
    }

    async fn processes(&self) -> Option<ProcessCount> {
        self.ask("processes");
        Some(self.figures.lock().processes)
    }

    async fn topology(&self) -> CpuTopology {
        CpuTopology::default()
    }

    async fn booted_at(&self) -> Option<Timestamp> {
        None
    }

    async fn disks(&self) -> Vec<MountedDisk> {
        Vec::new()
    }
}

#[async_trait]
impl DiskUsage for Machine {
    async fn rooms(&self, paths: Vec<PathBuf>) -> Vec<Option<FilesystemRoom>> {
        self.ask("rooms");
        let room = self.figures.lock().room;
        paths.iter().map(|_| Some(room)).collect()
    }

    async fn devices(&self, paths: Vec<PathBuf>) -> Vec<Option<String>> {
        paths.iter().map(|_| Some("8:1".to_owned())).collect()
    }

    async fn device_size(&self, _: &Path) -> Option<u64> {
        None
    }

    async fn tree(&self, _: &Path, _: Duration) -> Option<TreeUse> {
        None
    }

    async fn files_in(&self, _: Vec<PathBuf>) -> Vec<Option<DiskUse>> {
        Vec::new()
    }
}

#[async_trait]
impl Images for Machine {
    async fn image_status(&self, _: &ImageSpec) -> Result<Option<ImageStatus>, RuntimeError> {
        Ok(None)
    }

    async fn pull_image(
        &self,
        _: &ImageSpec,
        _: Option<&ImageAuth>,
        _: &SandboxSpec,
    ) -> Result<String, RuntimeError> {
        Ok(String::new())
    }

    async fn list_images(&self) -> Result<Vec<ImageStatus>, RuntimeError> {
        Ok(Vec::new())
    }

    async fn remove_image(&self, _: &ImageSpec) -> Result<(), RuntimeError> {
        Ok(())
    }

    async fn image_filesystems(&self) -> Result<ImageFilesystems, RuntimeError> {
        self.ask("image filesystems");
        let images = FilesystemUsage { mount_point: "/images".into(), used_bytes: 0, inodes_used: 0 };
        Ok(ImageFilesystems { images: vec![images], containers: Vec::new() })
    }
}

#[async_trait]
impl PodStatisticsSource for Machine {
    async fn everything(&self) -> Vec<PodStatistics> {
        self.ask("everything");
        self.figures.lock().used.clone()
    }

    async fn disks(&self, pods: Vec<PodUid>, parts: DiskParts) -> Vec<PodStatistics> {
        let names: Vec<String> = pods.iter().map(ToString::to_string).collect();
        self.ask(&format!("{parts:?} of {}", names.join(" ")));
        self.figures.lock().used.clone()
    }
}

#[async_trait]
impl MemoryThresholds for Machine {
    async fn crossed(&self, cgroup: &str, bytes: u64) {
        self.ask(&format!("{cgroup} crosses {bytes}"));
        self.crossed.notified().await;
    }
}
