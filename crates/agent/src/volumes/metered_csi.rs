//! Measures calls of a CSI driver.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use ports::plugins::csi::{
    CsiCapabilities, CsiError, CsiNode, CsiNodeInfo, CsiVolumeState, Expand, Publish, Stage,
};
use tokio::time::Instant;

use crate::metrics::Metrics;

/// Delegates to `inner` and measures each call.
pub struct MeteredCsi {
    pub inner: Arc<dyn CsiNode>,
    pub name: String,
    pub metrics: Arc<Metrics>,
}

impl MeteredCsi {
    async fn measured<T>(
        &self,
        method: &str,
        work: impl Future<Output = Result<T, CsiError>>,
    ) -> Result<T, CsiError> {
        let begun = Instant::now();
        let done = work.await;
        let code = done.as_ref().err().map_or("OK", |error| error.code.as_str());
        self.metrics.storage.driver_called(&self.name, method, code, begun.elapsed());
        done
    }
}

#[async_trait]
impl CsiNode for MeteredCsi {
    async fn info(&self) -> Result<CsiNodeInfo, CsiError> {
        self.measured("NodeGetInfo", self.inner.info()).await
    }

    async fn capabilities(&self) -> Result<CsiCapabilities, CsiError> {
        self.measured("NodeGetCapabilities", self.inner.capabilities()).await
    }

    async fn stage(&self, order: &Stage) -> Result<(), CsiError> {
        self.measured("NodeStageVolume", self.inner.stage(order)).await
    }

    async fn unstage(&self, handle: &str, staging: &Path) -> Result<(), CsiError> {
        self.measured("NodeUnstageVolume", self.inner.unstage(handle, staging)).await
    }

    async fn publish(&self, order: &Publish) -> Result<(), CsiError> {
        self.measured("NodePublishVolume", self.inner.publish(order)).await
    }

    async fn unpublish(&self, handle: &str, target: &Path) -> Result<(), CsiError> {
        self.measured("NodeUnpublishVolume", self.inner.unpublish(handle, target)).await
    }

    async fn expand(&self, order: &Expand) -> Result<i64, CsiError> {
        self.measured("NodeExpandVolume", self.inner.expand(order)).await
    }

    async fn usage(&self, handle: &str, path: &Path) -> Result<CsiVolumeState, CsiError> {
        self.measured("NodeGetVolumeStats", self.inner.usage(handle, path)).await
    }
}
