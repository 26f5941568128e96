//! Measures cgroup operations.

use std::sync::Arc;

use async_trait::async_trait;
use model::CgroupLimits;
use ports::host::pod_cgroups::PodCgroups;
use ports::host::pod_folders::FileError;
use tokio::time::Instant;

use crate::metrics::Metrics;

/// Delegates to `inner` and measures operations that create, update or destroy a cgroup.
pub struct MeteredCgroups {
    pub inner: Arc<dyn PodCgroups>,
    pub metrics: Arc<Metrics>,
}

impl MeteredCgroups {
    async fn measured<T>(&self, operation: &str, work: impl Future<Output = T>) -> T {
        let begun = Instant::now();
        let done = work.await;
        self.metrics.runtime.cgroup_duration.observe([operation], begun.elapsed());
        done
    }
}

#[async_trait]
impl PodCgroups for MeteredCgroups {
    async fn ensure(&self, path: &str, limits: &CgroupLimits) -> Result<(), FileError> {
        self.measured("create", self.inner.ensure(path, limits)).await
    }

    async fn set(&self, path: &str, limits: &CgroupLimits) -> Result<(), FileError> {
        self.measured("update", self.inner.set(path, limits)).await
    }

    async fn exists(&self, path: &str) -> Result<bool, FileError> {
        self.inner.exists(path).await
    }

    async fn limits(&self, path: &str) -> Result<CgroupLimits, FileError> {
        self.inner.limits(path).await
    }

    async fn memory_usage(&self, path: &str) -> Result<u64, FileError> {
        self.inner.memory_usage(path).await
    }

    async fn children(&self, path: &str) -> Result<Vec<String>, FileError> {
        self.inner.children(path).await
    }

    async fn kill_processes(&self, path: &str) -> Result<(), FileError> {
        self.inner.kill_processes(path).await
    }

    async fn remove(&self, path: &str) -> Result<(), FileError> {
        self.measured("destroy", self.inner.remove(path)).await
    }
}
