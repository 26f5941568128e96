//! Stand-ins for the ports of the machine that a virtual node does without.

use async_trait::async_trait;
use model::CgroupLimits;
use ports::pod_cgroups::PodCgroups;
use ports::pod_folders::FileError;
use ports::process_watch::ProcessWatch;

/// Makes and removes no cgroups, and says that it did.
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

/// A machine that cannot watch processes.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProcessWatch;

#[async_trait]
impl ProcessWatch for NoProcessWatch {
    async fn exited(&self, _: u32) -> Result<(), std::io::Error> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}
