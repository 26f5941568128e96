//! Memory threshold notifications of cgroup v1. Version 2 has none.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use ports::host::memory_thresholds::MemoryThresholds;
use rustix::event::EventfdFlags;

use crate::watches::process_watch::watchable;

use super::{Cgroups, HostUsage, KernelFiles};

const USAGE: &str = "memory.usage_in_bytes";
const CONTROL: &str = "cgroup.event_control";

#[async_trait]
impl MemoryThresholds for HostUsage {
    async fn crossed(&self, cgroup: &str, bytes: u64) {
        let Some(folder) = self.kernel.memory_folder(cgroup) else { return std::future::pending().await };
        // The kernel removes the notification when the descriptor is closed.
        if let Ok(notification) = register(&folder, bytes).and_then(watchable)
            && notification.readable().await.is_ok()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}

impl KernelFiles {
    fn memory_folder(&self, cgroup: &str) -> Option<PathBuf> {
        match &self.cgroups {
            Cgroups::V1(controllers) => Some(controllers.get("memory")?.join(cgroup.trim_start_matches('/'))),
            Cgroups::V2(_) => None,
        }
    }
}

fn register(folder: &Path, bytes: u64) -> std::io::Result<OwnedFd> {
    let usage = File::open(folder.join(USAGE))?;
    let notification = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let request = format!("{} {} {bytes}", notification.as_raw_fd(), usage.as_raw_fd());
    File::options().write(true).open(folder.join(CONTROL))?.write_all(request.as_bytes())?;
    Ok(notification)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::CgroupVersion;

    use super::*;

    const ROOT: &str = "/sys/fs/cgroup";
    const TIMEOUT: Duration = Duration::from_secs(10);

    /// A v1 cgroup, removed when dropped.
    struct TestCgroup(PathBuf);

    impl TestCgroup {
        fn new() -> Option<Self> {
            let folder = Path::new(ROOT).join("memory").join(format!("podward-test-{}", std::process::id()));
            std::fs::create_dir(&folder).ok()?;
            Some(Self(folder))
        }
    }

    impl Drop for TestCgroup {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir(&self.0);
        }
    }

    #[tokio::test]
    async fn reports_when_memory_of_a_v1_cgroup_crosses_the_threshold() {
        let Some(cgroup_folder) = TestCgroup::new() else { return };
        let usage = HostUsage::new(Path::new(ROOT), CgroupVersion::V1).unwrap();
        let name = format!("/{}", cgroup_folder.0.file_name().unwrap().to_str().unwrap());
        let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        let fill = format!(
            "echo $$ > {}/cgroup.procs && head -c 33554432 /dev/zero > {}",
            cgroup_folder.0.display(),
            file.path().display()
        );
        let mut crossed = std::pin::pin!(usage.crossed(&name, 16 << 20));
        assert!(futures::poll!(crossed.as_mut()).is_pending(), "nothing is used yet");
        let status = std::process::Command::new("sh").arg("-c").arg(fill).status().unwrap();
        assert!(status.success());
        tokio::time::timeout(TIMEOUT, crossed).await.unwrap();
        // A threshold far above is not reached.
        let above = usage.crossed(&name, 1 << 40);
        assert!(tokio::time::timeout(Duration::from_millis(50), above).await.is_err());
        drop(file);
        let unknown = usage.crossed("/nowhere", 1);
        assert!(tokio::time::timeout(Duration::from_millis(50), unknown).await.is_err());
    }

    #[tokio::test]
    async fn v2_never_reports_a_threshold() {
        let usage = HostUsage::new(Path::new("/nowhere"), CgroupVersion::V2).unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(50), usage.crossed("/", 1)).await.is_err());
    }
}
