//! Cgroups of pods.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::{CgroupDriver, CgroupLimits, CgroupVersion};
use ports::host::pod_cgroups::PodCgroups;
use ports::host::pod_folders::FileError;
use rustix::io::Errno;
use tokio::time::sleep;

use super::hierarchies::{self, Hierarchy};
use crate::errors::{OnPath, blocking, invalid_input};
use crate::systemd::Systemd;

/// [`PodCgroups`] below the mount point of the cgroup file systems.
#[derive(Clone, Debug)]
pub struct HostPodCgroups {
    version: CgroupVersion,
    pub(super) hierarchies: Arc<[Hierarchy]>,
    /// Set if the cgroup driver is systemd.
    systemd: Option<Systemd>,
}

impl HostPodCgroups {
    /// Detects the hierarchies below `root`, such as `/sys/fs/cgroup`.
    ///
    /// # Errors
    /// If `root` or the mount table cannot be read, or no hierarchy is mounted there.
    pub fn detect(root: &Path) -> Result<Self, FileError> {
        Self::detect_with(root, Path::new(crate::mount_table::OWN))
    }

    #[must_use]
    pub fn version(&self) -> CgroupVersion {
        self.version
    }

    /// Sets the cgroup driver.
    ///
    /// # Errors
    /// If the driver is systemd and systemd does not run.
    pub fn with_driver(self, driver: CgroupDriver) -> Result<Self, FileError> {
        let systemd = match driver {
            CgroupDriver::Cgroupfs => None,
            CgroupDriver::Systemd => {
                let missing = || io::Error::new(io::ErrorKind::NotFound, "systemd is not running");
                let found = Systemd::find().ok_or_else(missing);
                Some(found.on_path("use the systemd cgroup driver through", "/run/systemd/private")?)
            }
        };
        Ok(Self { systemd, ..self })
    }

    fn detect_with(root: &Path, mount_table: &Path) -> Result<Self, FileError> {
        let version = hierarchies::version(root)?;
        Self::with_version(version, root, mount_table)
    }

    pub(super) fn with_version(
        version: CgroupVersion,
        root: &Path,
        mount_table: &Path,
    ) -> Result<Self, FileError> {
        let hierarchies = match version {
            CgroupVersion::V1 => hierarchies::mounted(root, mount_table)?,
            CgroupVersion::V2 => vec![Hierarchy::unified(root)],
        };
        Ok(Self { version, hierarchies: hierarchies.into(), systemd: None })
    }
}

#[async_trait]
impl PodCgroups for HostPodCgroups {
    async fn ensure(&self, path: &str, limits: &CgroupLimits) -> Result<(), FileError> {
        let relative = relative(path)?;
        let hierarchies = Arc::clone(&self.hierarchies);
        let limits = limits.as_set_by(self.driver());
        let slices = self.slices();
        slices.start(&relative).await?;
        slices.set_limits(&relative, &limits).await?;
        blocking(Path::new(path), move || {
            hierarchies.iter().try_for_each(|hierarchy| {
                hierarchy.ensure(&relative)?;
                hierarchy.set_limits(&relative, &limits)
            })
        })
        .await
    }

    async fn set(&self, path: &str, limits: &CgroupLimits) -> Result<(), FileError> {
        let limits = limits.as_set_by(self.driver());
        self.slices().set_limits(&relative(path)?, &limits).await?;
        self.on_each(path, move |hierarchy, relative| {
            if hierarchy.has(relative) {
                return hierarchy.set_limits(relative, &limits);
            }
            Err(io::Error::from(io::ErrorKind::NotFound)).on_path("set limits of cgroup", relative)
        })
        .await?;
        Ok(())
    }

    async fn exists(&self, path: &str) -> Result<bool, FileError> {
        let found = self.on_each(path, |hierarchy, relative| Ok(hierarchy.has(relative))).await?;
        Ok(found.into_iter().all(|found| found))
    }

    async fn limits(&self, path: &str) -> Result<CgroupLimits, FileError> {
        let found = self.on_each(path, Hierarchy::limits).await?;
        let merge = |all: CgroupLimits, one: CgroupLimits| CgroupLimits {
            cpu_shares: all.cpu_shares.or(one.cpu_shares),
            cpu_quota: all.cpu_quota.or(one.cpu_quota),
            cpu_period: all.cpu_period.or(one.cpu_period),
            memory: all.memory.or(one.memory),
            ..all
        };
        Ok(found.into_iter().fold(CgroupLimits::default(), merge))
    }

    async fn memory_usage(&self, path: &str) -> Result<u64, FileError> {
        let found = self.on_each(path, Hierarchy::memory_usage).await?;
        let missing = || Err(io::Error::from(io::ErrorKind::NotFound)).on_path("read memory usage of", path);
        found.into_iter().flatten().next().map_or_else(missing, Ok)
    }

    async fn children(&self, path: &str) -> Result<Vec<String>, FileError> {
        let found = self.on_each(path, Hierarchy::children).await?;
        let names: BTreeSet<String> = found.into_iter().flatten().collect();
        Ok(names.into_iter().collect())
    }

    async fn kill_processes(&self, path: &str) -> Result<(), FileError> {
        self.on_each(path, Hierarchy::kill_processes).await?;
        Ok(())
    }

    async fn remove(&self, path: &str) -> Result<(), FileError> {
        // A cgroup stays busy for a short time after its last process has exited.
        const RETRY_DELAYS_MILLIS: [u64; 6] = [2, 5, 10, 20, 40, 80];
        let relative = relative(path)?;
        self.slices().stop(&relative).await?;
        for delay in RETRY_DELAYS_MILLIS {
            match self.remove_once(&relative).await {
                Err(error) if is_busy(&error) => sleep(Duration::from_millis(delay)).await,
                result => return result,
            }
        }
        self.remove_once(&relative).await
    }
}

impl HostPodCgroups {
    fn driver(&self) -> CgroupDriver {
        if self.systemd.is_some() { CgroupDriver::Systemd } else { CgroupDriver::Cgroupfs }
    }

    fn slices(&self) -> Slices {
        Slices { systemd: self.systemd.clone(), version: self.version }
    }

    /// Runs `work` in every hierarchy.
    async fn on_each<T: Send + 'static>(
        &self,
        path: &str,
        work: impl Fn(&Hierarchy, &Path) -> Result<T, FileError> + Send + 'static,
    ) -> Result<Vec<T>, FileError> {
        let relative = relative(path)?;
        let hierarchies = Arc::clone(&self.hierarchies);
        blocking(Path::new(path), move || {
            hierarchies.iter().map(|hierarchy| work(hierarchy, &relative)).collect()
        })
        .await
    }

    async fn remove_once(&self, relative: &Path) -> Result<(), FileError> {
        let hierarchies = Arc::clone(&self.hierarchies);
        let relative = relative.to_path_buf();
        blocking(&relative.clone(), move || {
            let failures = hierarchies.iter().filter_map(|hierarchy| hierarchy.remove(&relative).err());
            // Try all hierarchies, and prefer to return an error other than EBUSY, which is retried.
            failures.min_by_key(is_busy).map_or(Ok(()), Err)
        })
        .await
    }
}

/// Keeps systemd's slices in step with the cgroups; does nothing with the cgroupfs driver.
struct Slices {
    systemd: Option<Systemd>,
    version: CgroupVersion,
}

impl Slices {
    /// Starts the slice and its parents.
    async fn start(&self, relative: &Path) -> Result<(), FileError> {
        let Some(systemd) = &self.systemd else { return Ok(()) };
        for name in relative.iter().filter_map(|name| name.to_str()).filter(|name| name.ends_with(".slice")) {
            systemd.start_slice(name).await.on_path("start slice", relative)?;
        }
        Ok(())
    }

    async fn set_limits(&self, relative: &Path, limits: &CgroupLimits) -> Result<(), FileError> {
        let (Some(systemd), Some(name)) = (&self.systemd, slice_name(relative)) else { return Ok(()) };
        systemd.set_limits(name, limits, self.version).await.on_path("set limits of slice", relative)
    }

    async fn stop(&self, relative: &Path) -> Result<(), FileError> {
        let (Some(systemd), Some(name)) = (&self.systemd, slice_name(relative)) else { return Ok(()) };
        systemd.stop_slice(name).await.on_path("stop slice", relative)
    }
}

fn slice_name(relative: &Path) -> Option<&str> {
    relative.file_name()?.to_str().filter(|name| name.ends_with(".slice"))
}

fn is_busy(error: &FileError) -> bool {
    error.source.raw_os_error() == Some(Errno::BUSY.raw_os_error())
}

/// The path below a hierarchy. Rejects the root of the hierarchy, which must not be created or removed.
pub(super) fn relative(path: &str) -> Result<PathBuf, FileError> {
    let relative = Path::new(path.trim_start_matches('/'));
    let is_plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
    if relative.as_os_str().is_empty() || !is_plain {
        let reason: io::Error = invalid_input("not a cgroup below the root");
        return Err(reason).on_path("use as a cgroup", path);
    }
    Ok(relative.to_path_buf())
}
