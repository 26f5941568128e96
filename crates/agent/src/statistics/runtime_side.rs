//! Statistics from the runtime: image file systems, writable layers, images of sandboxes.

use std::collections::{BTreeMap, HashSet};
use std::future::Future;
use std::time::Duration;

use futures::{StreamExt, stream};
use model::usage::{DiskUse, FilesystemRoom, WritableLayer};
use model::{ContainerId, FilesystemUsage, SandboxId};
use ports::host::usage::DiskUsage;
use ports::runtime::{Images, RuntimeError, RuntimeStatisticsSource};
use tokio::time::Instant;

/// How long values are cached, and how long a runtime that did not answer is not called again.
const CACHE_TTL: Duration = Duration::from_secs(10);
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// Concurrent sandbox status calls.
const MAX_CONCURRENT_CALLS: usize = 8;

/// A file system with the use of images or containers.
type Part = (FilesystemRoom, DiskUse);

/// Statistics of the runtime.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    pub(super) image_fs: Option<Part>,
    pub(super) container_fs: Option<Part>,
    pub(super) layers: BTreeMap<ContainerId, WritableLayer>,
}

/// Cached statistics of the runtime.
#[derive(Debug, Default)]
pub(super) struct RuntimeSide {
    asked_at: Option<Instant>,
    figures: Figures,
    images: BTreeMap<SandboxId, String>,
    images_asked_at: Option<Instant>,
}

impl RuntimeSide {
    /// Cached or new values. The last values are kept when the runtime does not answer.
    pub(super) async fn figures<R: RuntimeStatisticsSource + Images + ?Sized>(
        &mut self,
        runtime: &R,
        disks: &dyn DiskUsage,
    ) -> Figures {
        if is_fresh(self.asked_at) {
            return self.figures.clone();
        }
        let (layers, systems) =
            tokio::join!(within(runtime.writable_layers()), within(runtime.image_filesystems()));
        if let Some(layers) = layers {
            self.figures.layers = layers.into_iter().collect();
        }
        if let Some(systems) = systems {
            let image = part(systems.images.first(), disks).await;
            self.figures.image_fs = image;
            // Runtimes without a separate container file system report none.
            self.figures.container_fs = part(systems.containers.first(), disks).await.or(image);
        }
        self.asked_at = Some(Instant::now());
        self.figures.clone()
    }

    /// Images of these sandboxes, as far as the runtime answers in time. The image of a sandbox never changes.
    pub(super) async fn images<R: RuntimeStatisticsSource + ?Sized>(
        &mut self,
        runtime: &R,
        sandboxes: Vec<SandboxId>,
    ) -> BTreeMap<SandboxId, String> {
        let there: HashSet<&SandboxId> = sandboxes.iter().collect();
        self.images.retain(|id, _| there.contains(id));
        let unknown: Vec<SandboxId> =
            sandboxes.into_iter().filter(|id| !self.images.contains_key(id)).collect();
        if !unknown.is_empty() && !is_fresh(self.images_asked_at) {
            let asked = stream::iter(unknown).map(|id| async move {
                let image = runtime.sandbox_image(&id).await.ok().flatten();
                (id, image)
            });
            let images = &mut self.images;
            let mut asked = asked.buffer_unordered(MAX_CONCURRENT_CALLS);
            let all = async {
                let mut failed = false;
                while let Some((id, image)) = asked.next().await {
                    failed |= image.is_none();
                    images.extend(image.map(|image| (id, image)));
                }
                failed
            };
            let failed = tokio::time::timeout(CALL_TIMEOUT, all).await.unwrap_or(true);
            self.images_asked_at = failed.then(Instant::now);
        }
        self.images.clone()
    }
}

async fn part(usage: Option<&FilesystemUsage>, disks: &dyn DiskUsage) -> Option<Part> {
    let usage = usage?;
    let rooms =
        tokio::time::timeout(CALL_TIMEOUT, disks.rooms(vec![usage.mount_point.clone()])).await.ok()?;
    let room = rooms.into_iter().next()??;
    Some((room, DiskUse { bytes: usage.used_bytes, inodes: usage.inodes_used }))
}

async fn within<T>(call: impl Future<Output = Result<T, RuntimeError>>) -> Option<T> {
    match tokio::time::timeout(CALL_TIMEOUT, call).await {
        Ok(Ok(found)) => Some(found),
        Ok(Err(error)) => {
            tracing::debug!(%error, "failed to read statistics from the runtime");
            None
        }
        Err(_) => {
            tracing::debug!("runtime did not return statistics in time");
            None
        }
    }
}

fn is_fresh(asked_at: Option<Instant>) -> bool {
    asked_at.is_some_and(|at| at.elapsed() < CACHE_TTL)
}
