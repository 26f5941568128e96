//! Pulls images: layers are fetched in parallel, and unpacked in order while others are still being fetched.

mod download;
mod resolution;

use std::path::PathBuf;
use std::sync::Arc;

use cri::v1::AuthConfig;
use futures::StreamExt;
use futures::future::BoxFuture;
use tokio::sync::{mpsc, watch};

use super::digest::Digest;
use super::manifest::{Descriptor, ManifestError};
use super::platform::Platform;
use super::reference::Reference;
use super::registry::{RegistryError, Session};
use super::store::{FileLock, ImageStore, LayerSource, Record, RecordedLayer, StoreError, StoredImage};
use resolution::Resolved;

const PARALLEL_LAYERS: usize = 3;

#[derive(Debug, thiserror::Error)]
pub enum PullError {
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("a thread of the pull panicked")]
    Panicked,
}

impl From<ManifestError> for PullError {
    fn from(error: ManifestError) -> Self {
        Self::Store(error.into())
    }
}

/// State of a pull, for display.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullProgress {
    /// The bottom layer first.
    pub layers: Vec<LayerProgress>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerProgress {
    pub digest: Digest,
    pub size: u64,
    pub fetched: u64,
    pub unpacked: bool,
}

/// Pulls images into a store.
#[derive(Clone, Debug)]
pub struct Puller {
    store: ImageStore,
    /// The folder with a folder of `hosts.toml` for each registry.
    hosts_folder: Option<PathBuf>,
    host: Platform,
}

/// One pull.
struct Pull {
    store: ImageStore,
    session: Session,
    progress: watch::Sender<PullProgress>,
    /// The threads of the pull share it, so that the lock is held until the last one ends.
    in_use: Arc<FileLock>,
}

impl Puller {
    pub fn new(store: ImageStore, hosts_folder: Option<PathBuf>) -> Self {
        Self { store, hosts_folder, host: Platform::host() }
    }

    /// Pulls an image and returns it. Nothing of it is visible before all of it is on disk. Dropping the future ends
    /// the pull; the next one continues with the bytes that were fetched, unless the store was cleaned meanwhile.
    pub async fn pull(
        &self,
        image: &str,
        auth: Option<&AuthConfig>,
        progress: watch::Sender<PullProgress>,
    ) -> Result<StoredImage, PullError> {
        let reference = Reference::parse(image).map_err(StoreError::from)?;
        let pull = self.open(&reference, auth, progress).await?;
        let result = pull.run(&reference, &self.host).await;
        let store = self.store.clone();
        drop(pull);
        // Compressed layers of a complete image are no longer needed; those of a failed pull are kept for the next.
        if result.is_ok() {
            blocking(move || store.collect()).await??;
        }
        result
    }

    async fn open(
        &self,
        reference: &Reference,
        auth: Option<&AuthConfig>,
        progress: watch::Sender<PullProgress>,
    ) -> Result<Pull, PullError> {
        let (hosts, auth, store) = (self.hosts_folder.clone(), auth.cloned(), self.store.clone());
        let (name, repository) = (reference.text(), reference.repository.clone());
        blocking(move || {
            let session = Session::open(&name, &repository, hosts.as_deref(), auth.as_ref())?;
            let in_use = Arc::new(store.begin_use()?);
            Ok(Pull { store, session, progress, in_use })
        })
        .await?
    }
}

impl Pull {
    async fn run(&self, reference: &Reference, host: &Platform) -> Result<StoredImage, PullError> {
        let resolved = self.resolve(reference, host).await?;
        let layers = resolved.manifest.layers.iter().map(LayerProgress::new).collect();
        self.progress.send_replace(PullProgress { layers });
        let layers = self.fetch_and_unpack(&resolved).await?;
        let record = Record {
            version: 0,
            id: resolved.manifest.config.digest.clone(),
            tags: reference.tag_text().into_iter().collect(),
            digests: vec![reference.digest_text(&resolved.top)],
            size: resolved.manifest_size.saturating_add(resolved.manifest.content_size()),
            blobs: vec![resolved.manifest_digest, resolved.manifest.config.digest],
            config: resolved.config.config,
            layers,
        };
        let store = self.store.clone();
        Ok(blocking(move || store.commit(record)).await??)
    }

    /// Fetches the layers that the store does not have. A layer is unpacked as soon as it and those below are there.
    async fn fetch_and_unpack(&self, resolved: &Resolved) -> Result<Vec<RecordedLayer>, PullError> {
        let chain = chain_ids(&resolved.config.diff_ids);
        let (fetched, mut ready) = mpsc::channel(resolved.manifest.layers.len().max(1));
        let fetch = async {
            let mut downloads: Vec<BoxFuture<'_, Result<usize, PullError>>> = Vec::new();
            for (number, (descriptor, chain_id)) in resolved.manifest.layers.iter().zip(&chain).enumerate() {
                let has_layer = self.store.has_layer(chain_id);
                downloads.push(Box::pin(async move {
                    if !has_layer {
                        self.download(descriptor, Some(number)).await?;
                    }
                    Ok(number)
                }));
            }
            let mut downloads = futures::stream::iter(downloads).buffered(PARALLEL_LAYERS);
            while let Some(number) = downloads.next().await {
                // The receiver ends early only after an error, which `try_join` returns.
                let _ = fetched.send(number?).await;
            }
            drop(fetched);
            Ok::<_, PullError>(())
        };
        let unpack = async {
            let mut layers = Vec::new();
            while let Some(number) = ready.recv().await {
                let parts = resolved.manifest.layers.get(number).zip(resolved.config.diff_ids.get(number));
                let Some((descriptor, diff_id)) = parts else { break };
                layers.push(self.unpack(descriptor, diff_id, &layers).await?);
                self.update(number, |layer| {
                    layer.fetched = layer.size;
                    layer.unpacked = true;
                });
            }
            Ok(layers)
        };
        let ((), layers) = futures::future::try_join(fetch, unpack).await?;
        Ok(layers)
    }

    async fn unpack(
        &self,
        descriptor: &Descriptor,
        diff_id: &Digest,
        lower: &[RecordedLayer],
    ) -> Result<RecordedLayer, PullError> {
        let (store, in_use) = (self.store.clone(), Arc::clone(&self.in_use));
        let (digest, diff_id, lower) = (descriptor.digest.clone(), diff_id.clone(), lower.to_vec());
        let unpacked = blocking(move || {
            let chain_id = Digest::chained(lower.last().map(|layer| &layer.chain_id), &diff_id);
            let unpacked = if store.has_layer(&chain_id) {
                Ok(RecordedLayer { diff_id, chain_id })
            } else {
                let mut content = store.blobs().open(&digest)?;
                let source = LayerSource { content: &mut content, verify: None, diff_id: &diff_id };
                store.unpack(source, &lower)
            };
            drop(in_use);
            unpacked
        });
        Ok(unpacked.await??)
    }

    fn update(&self, number: usize, change: impl FnOnce(&mut LayerProgress)) {
        self.progress.send_modify(|progress| {
            if let Some(layer) = progress.layers.get_mut(number) {
                change(layer);
            }
        });
    }
}

impl LayerProgress {
    fn new(descriptor: &Descriptor) -> Self {
        Self { digest: descriptor.digest.clone(), size: descriptor.size, fetched: 0, unpacked: false }
    }
}

fn chain_ids(diff_ids: &[Digest]) -> Vec<Digest> {
    let mut chain: Vec<Digest> = Vec::new();
    for diff_id in diff_ids {
        chain.push(Digest::chained(chain.last(), diff_id));
    }
    chain
}

/// Runs file operations in another thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, PullError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| PullError::Panicked)
}

#[cfg(test)]
mod tests;
