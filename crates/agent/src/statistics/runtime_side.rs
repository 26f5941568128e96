//! What the runtime is asked for: file systems of images, files of containers, images of sandboxes.

use std::collections::{BTreeMap, HashSet};
use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt, stream};
use model::usage::{DiskUse, FilesystemRoom, WritableLayer};
use model::{ContainerId, FilesystemUsage, ImageFilesystems, SandboxId};
use ports::runtime::{Runtime, RuntimeError};
use ports::usage::DiskUsage;
use tokio::time::Instant;

/// How long an answer stands; also how long a runtime that did not answer is left alone.
const FRESH: Duration = Duration::from_secs(10);
/// Longest wait for the runtime.
const LIMIT: Duration = Duration::from_secs(5);
/// Sandboxes asked for at once.
const AT_ONCE: usize = 8;

/// A file system and what images or containers take of it.
type Part = (FilesystemRoom, DiskUse);

/// The part of the runtime that is asked here.
#[async_trait]
pub(super) trait Figured: Send + Sync {
    async fn layers(&self) -> Result<Vec<(ContainerId, WritableLayer)>, RuntimeError>;
    async fn filesystems(&self) -> Result<ImageFilesystems, RuntimeError>;
    async fn image(&self, id: &SandboxId) -> Result<Option<String>, RuntimeError>;
}

#[async_trait]
impl Figured for dyn Runtime {
    async fn layers(&self) -> Result<Vec<(ContainerId, WritableLayer)>, RuntimeError> {
        self.writable_layers().await
    }

    async fn filesystems(&self) -> Result<ImageFilesystems, RuntimeError> {
        self.image_filesystems().await
    }

    async fn image(&self, id: &SandboxId) -> Result<Option<String>, RuntimeError> {
        self.sandbox_image(id).await
    }
}

/// Figures of the runtime.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    pub(super) image_fs: Option<Part>,
    pub(super) container_fs: Option<Part>,
    pub(super) layers: BTreeMap<ContainerId, WritableLayer>,
}

/// What is known of the runtime.
#[derive(Debug, Default)]
pub(super) struct RuntimeSide {
    asked_at: Option<Instant>,
    figures: Figures,
    images: BTreeMap<SandboxId, String>,
    images_asked_at: Option<Instant>,
}

impl RuntimeSide {
    /// Figures of the last seconds. Where the runtime does not answer, the last ones stand.
    pub(super) async fn figures<R: Figured + ?Sized>(
        &mut self,
        runtime: &R,
        disks: &dyn DiskUsage,
    ) -> Figures {
        if is_fresh(self.asked_at) {
            return self.figures.clone();
        }
        let (layers, systems) = tokio::join!(within(runtime.layers()), within(runtime.filesystems()));
        if let Some(layers) = layers {
            self.figures.layers = layers.into_iter().collect();
        }
        if let Some(systems) = systems {
            let image = part(systems.images.first(), disks).await;
            self.figures.image_fs = image;
            // Runtimes whose containers have no disk of their own name none.
            self.figures.container_fs = part(systems.containers.first(), disks).await.or(image);
        }
        self.asked_at = Some(Instant::now());
        self.figures.clone()
    }

    /// Images of these sandboxes, as far as they can be found out in time. A sandbox never changes its image.
    pub(super) async fn images<R: Figured + ?Sized>(
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
                let image = runtime.image(&id).await.ok().flatten();
                (id, image)
            });
            let images = &mut self.images;
            let mut asked = asked.buffer_unordered(AT_ONCE);
            let all = async {
                let mut failed = false;
                while let Some((id, image)) = asked.next().await {
                    failed |= image.is_none();
                    images.extend(image.map(|image| (id, image)));
                }
                failed
            };
            let failed = tokio::time::timeout(LIMIT, all).await.unwrap_or(true);
            self.images_asked_at = failed.then(Instant::now);
        }
        self.images.clone()
    }
}

async fn part(told: Option<&FilesystemUsage>, disks: &dyn DiskUsage) -> Option<Part> {
    let told = told?;
    let rooms = tokio::time::timeout(LIMIT, disks.rooms(vec![told.mount_point.clone()])).await.ok()?;
    let room = rooms.into_iter().next()??;
    Some((room, DiskUse { bytes: told.used_bytes, inodes: told.inodes_used }))
}

async fn within<T>(call: impl Future<Output = Result<T, RuntimeError>>) -> Option<T> {
    match tokio::time::timeout(LIMIT, call).await {
        Ok(Ok(found)) => Some(found),
        Ok(Err(error)) => {
            tracing::debug!(%error, "the runtime tells no figures");
            None
        }
        Err(_) => {
            tracing::debug!("the runtime tells no figures in time");
            None
        }
    }
}

fn is_fresh(asked_at: Option<Instant>) -> bool {
    asked_at.is_some_and(|at| at.elapsed() < FRESH)
}
