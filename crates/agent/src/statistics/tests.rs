use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use model::usage::{
    CgroupUsage, CpuTopology, CpuUsage, DiskUse, FilesystemRoom, InterfaceUsage, MountedDisk, ProcessCount,
    TreeUse, WritableLayer,
};
use model::{
    ContainerId, FilesystemUsage, ImageAuth, ImageFilesystems, ImageSpec, ImageStatus, SandboxId,
    SandboxSpec, Timestamp,
};
use ports::host::usage::{CgroupWithChildren, PodCgroup};
use ports::runtime::{Images, RuntimeError, RuntimeStatisticsSource};

use super::runtime_side::RuntimeSide;
use super::*;

/// Counts calls; every folder and file system is the same.
#[derive(Default)]
struct FakeDisks {
    asked: AtomicUsize,
}

const ROOM: FilesystemRoom =
    FilesystemRoom { capacity: 100, available: 40, used: 50, inodes: 10, inodes_free: 4 };

#[async_trait]
impl DiskUsage for FakeDisks {
    async fn rooms(&self, paths: Vec<PathBuf>) -> Vec<Option<FilesystemRoom>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        for path in &paths {
            if path.ends_with("hangs") {
                std::future::pending::<()>().await;
            }
        }
        paths.iter().map(|_| Some(ROOM)).collect()
    }

    async fn devices(&self, paths: Vec<PathBuf>) -> Vec<Option<String>> {
        paths.iter().map(|_| None).collect()
    }

    async fn device_size(&self, _: &Path) -> Option<u64> {
        Some(4096)
    }

    async fn tree(&self, _: &Path, _: Duration) -> Option<TreeUse> {
        Some(TreeUse { used: DiskUse { bytes: 7, inodes: 1 }, is_complete: true })
    }

    async fn files_in(&self, folders: Vec<PathBuf>) -> Vec<Option<DiskUse>> {
        folders.iter().map(|_| Some(DiskUse { bytes: 4, inodes: 1 })).collect()
    }
}

/// A runtime that returns statistics, or hangs.
#[derive(Default)]
struct FakeRuntime {
    hangs: bool,
    asked: AtomicUsize,
}

impl FakeRuntime {
    async fn ask(&self) {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.hangs {
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl RuntimeStatisticsSource for FakeRuntime {
    async fn writable_layers(&self) -> Result<Vec<(ContainerId, WritableLayer)>, RuntimeError> {
        self.ask().await;
        let used = DiskUse { bytes: 9, inodes: 2 };
        Ok(vec![("c1".into(), WritableLayer { time: Timestamp::from_secs(1), used })])
    }

    async fn sandbox_image(&self, id: &SandboxId) -> Result<Option<String>, RuntimeError> {
        self.ask().await;
        Ok(Some(format!("pause of {id}")))
    }
}

#[async_trait]
impl Images for FakeRuntime {
    async fn image_status(&self, _: &ImageSpec) -> Result<Option<ImageStatus>, RuntimeError> {
        Ok(None)
    }

    async fn pull_image(
        &self,
        image: &ImageSpec,
        _: Option<&ImageAuth>,
        _: &SandboxSpec,
    ) -> Result<String, RuntimeError> {
        Ok(image.image.clone())
    }

    async fn list_images(&self) -> Result<Vec<ImageStatus>, RuntimeError> {
        Ok(Vec::new())
    }

    async fn remove_image(&self, _: &ImageSpec) -> Result<(), RuntimeError> {
        Ok(())
    }

    async fn image_filesystems(&self) -> Result<ImageFilesystems, RuntimeError> {
        self.ask().await;
        let images = FilesystemUsage { mount_point: "/images".into(), used_bytes: 30, inodes_used: 3 };
        Ok(ImageFilesystems { images: vec![images], containers: Vec::new() })
    }
}

#[tokio::test(start_paused = true)]
async fn runtime_statistics_are_cached() {
    let (runtime, disks) = (FakeRuntime::default(), FakeDisks::default());
    let mut side = RuntimeSide::default();
    for _ in 0..3 {
        let figures = side.figures(&runtime, &disks).await;
        assert_eq!(figures.layers.get("c1").unwrap().used.bytes, 9);
        // There is no separate container file system.
        assert_eq!(figures.container_fs, figures.image_fs);
        assert_eq!(figures.image_fs.unwrap().1, DiskUse { bytes: 30, inodes: 3 });
    }
    assert_eq!(runtime.asked.load(Ordering::SeqCst), 2);
    tokio::time::advance(Duration::from_secs(11)).await;
    side.figures(&runtime, &disks).await;
    assert_eq!(runtime.asked.load(Ordering::SeqCst), 4);
}

#[tokio::test(start_paused = true)]
async fn hanging_runtime_is_not_called_again() {
    let (runtime, disks) = (FakeRuntime { hangs: true, ..FakeRuntime::default() }, FakeDisks::default());
    let mut side = RuntimeSide::default();
    let start = tokio::time::Instant::now();
    let figures = side.figures(&runtime, &disks).await;
    assert!(figures.layers.is_empty() && figures.image_fs.is_none());
    let first = start.elapsed();
    assert!(first <= Duration::from_secs(6), "{first:?}");
    side.figures(&runtime, &disks).await;
    assert_eq!(start.elapsed(), first, "the second question waits for nobody");
    assert!(side.images(&runtime, vec!["s1".into()]).await.is_empty());
}

#[tokio::test]
async fn caches_images_of_existing_sandboxes() {
    let runtime = FakeRuntime::default();
    let mut side = RuntimeSide::default();
    for _ in 0..2 {
        let images = side.images(&runtime, vec!["s1".into(), "s2".into()]).await;
        assert_eq!(images.get("s2").map(String::as_str), Some("pause of s2"));
    }
    assert_eq!(runtime.asked.load(Ordering::SeqCst), 2);
    assert_eq!(side.images(&runtime, vec!["s2".into()]).await.len(), 1);
}

/// A machine whose CPU time is the number of calls so far, in seconds.
#[derive(Default)]
struct FakeUsage {
    asked: AtomicUsize,
}

impl FakeUsage {
    fn read(&self) -> CgroupUsage {
        let asked = self.asked.load(Ordering::SeqCst) as u64;
        let time = Timestamp::from_secs(1_700_000_000 + 20 * i64::try_from(asked).unwrap());
        CgroupUsage { time, cpu: CpuUsage { total: asked * 1_000_000_000 }, ..CgroupUsage::default() }
    }
}

#[async_trait]
impl Usage for FakeUsage {
    async fn cgroups(&self, paths: Vec<String>, _: Detail) -> Vec<Option<CgroupUsage>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(10)).await;
        paths.iter().map(|_| Some(self.read())).collect()
    }

    async fn pod_cgroups(&self, pods: Vec<PodCgroup>, _: Detail) -> Vec<Option<CgroupWithChildren>> {
        pods.iter().map(|_| None).collect()
    }

    async fn networks(&self, cgroups: Vec<String>) -> Vec<Option<Vec<InterfaceUsage>>> {
        cgroups.iter().map(|_| None).collect()
    }

    async fn host_network(&self) -> Vec<InterfaceUsage> {
        Vec::new()
    }

    async fn own_cgroup(&self) -> Option<String> {
        None
    }

    async fn processes(&self) -> Option<ProcessCount> {
        None
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

#[tokio::test(start_paused = true)]
async fn concurrent_requests_share_one_reading() {
    let usage = Arc::new(FakeUsage::default());
    let shared = gather::Shared::default();
    let read = |usage: Arc<FakeUsage>| async move { usage.cgroups(vec!["/".into()], Detail::Basic).await };
    let (a, b) = tokio::join!(
        gather::fresh(&shared, Detail::Basic, || read(usage.clone())),
        gather::fresh(&shared, Detail::Basic, || read(usage.clone()))
    );
    assert_eq!(a, b);
    assert_eq!(usage.asked.load(Ordering::SeqCst), 1);
    // More detail needs a new reading, less does not.
    gather::fresh(&shared, Detail::Full, || read(usage.clone())).await;
    gather::fresh(&shared, Detail::Summary, || read(usage.clone())).await;
    assert_eq!(usage.asked.load(Ordering::SeqCst), 2);
    tokio::time::advance(Duration::from_secs(2)).await;
    gather::fresh(&shared, Detail::Basic, || read(usage.clone())).await;
    assert_eq!(usage.asked.load(Ordering::SeqCst), 3);
}
