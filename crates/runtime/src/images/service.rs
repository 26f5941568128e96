//! The image service of CRI.

use std::path::PathBuf;
use std::sync::Arc;

use cri::v1::image_service_server::ImageService;
use cri::v1::{
    FilesystemIdentifier, FilesystemUsage, Image, ImageFsInfoRequest, ImageFsInfoResponse, ImageSpec,
    ImageStatusRequest, ImageStatusResponse, Int64Value, ListImagesRequest, ListImagesResponse,
    PullImageRequest, PullImageResponse, RemoveImageRequest, RemoveImageResponse, StreamImagesRequest,
    StreamImagesResponse, UInt64Value,
};
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use super::pull::{PullError, Puller};
use super::pull_table::PullTable;
use super::store::{ImageStore, StoreError, StoredImage};

/// Returns nanoseconds since 1970.
pub type Now = Arc<dyn Fn() -> i64 + Send + Sync>;

/// Serves the images of a store.
#[derive(Clone)]
pub struct Images {
    store: ImageStore,
    puller: Puller,
    now: Now,
    progress: PullTable,
}

impl Images {
    /// `hosts_folder` has the mirrors of registries.
    pub fn new(store: ImageStore, hosts_folder: Option<PathBuf>, now: Now) -> Self {
        Self { puller: Puller::new(store.clone(), hosts_folder), store, now, progress: PullTable::default() }
    }

    /// Publishes the progress of pulls in this table.
    #[must_use]
    pub fn with_progress(mut self, progress: PullTable) -> Self {
        self.progress = progress;
        self
    }

    async fn find(&self, spec: Option<ImageSpec>) -> Result<Option<StoredImage>, Status> {
        let name = spec.unwrap_or_default().image;
        self.blocking(move |store| store.resolve(&name)).await
    }

    async fn list(&self, filter: Option<ImageSpec>) -> Result<Vec<Image>, Status> {
        let images = match filter.filter(|spec| !spec.image.is_empty()) {
            Some(spec) => self.find(Some(spec)).await?.into_iter().collect(),
            None => self.blocking(ImageStore::list).await?,
        };
        Ok(images.iter().map(published).collect())
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ImageStore) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Status> {
        let store = self.store.clone();
        let done = tokio::task::spawn_blocking(move || work(&store)).await;
        done.map_err(|error| Status::unknown(error.to_string()))?.map_err(|error| unknown(&error))
    }
}

#[tonic::async_trait]
impl ImageService for Images {
    async fn list_images(
        &self,
        request: Request<ListImagesRequest>,
    ) -> Result<Response<ListImagesResponse>, Status> {
        let filter = request.into_inner().filter.and_then(|filter| filter.image);
        Ok(Response::new(ListImagesResponse { images: self.list(filter).await? }))
    }

    async fn stream_images(
        &self,
        request: Request<StreamImagesRequest>,
    ) -> Result<Response<BoxStream<StreamImagesResponse>>, Status> {
        /// Far below the largest message.
        const IMAGES_PER_MESSAGE: usize = 100;
        let filter = request.into_inner().filter.and_then(|filter| filter.image);
        let images = self.list(filter).await?;
        let messages: Vec<_> = images
            .chunks(IMAGES_PER_MESSAGE)
            .map(|images| Ok(StreamImagesResponse { images: images.to_vec() }))
            .collect();
        Ok(Response::new(Box::pin(futures::stream::iter(messages))))
    }

    async fn image_status(
        &self,
        request: Request<ImageStatusRequest>,
    ) -> Result<Response<ImageStatusResponse>, Status> {
        let ImageStatusRequest { image, verbose } = request.into_inner();
        let found = self.find(image).await?;
        let mut response = ImageStatusResponse { image: found.as_ref().map(published), ..Default::default() };
        if let Some(image) = found.filter(|_| verbose) {
            let info = serde_json::json!({"imageSpec": {"config": image.config}});
            response.info.insert("info".to_owned(), info.to_string());
        }
        Ok(Response::new(response))
    }

    async fn pull_image(
        &self,
        request: Request<PullImageRequest>,
    ) -> Result<Response<PullImageResponse>, Status> {
        let PullImageRequest { image, auth, .. } = request.into_inner();
        let name = image.unwrap_or_default().image;
        if name.is_empty() {
            return Err(Status::invalid_argument("the request names no image"));
        }
        let (progress, _pull) = self.progress.begin(&name);
        let pulled = self.puller.pull(&name, auth.as_ref(), progress).await;
        let pulled = pulled.map_err(|error| pull_status(&name, &error))?;
        Ok(Response::new(PullImageResponse { image_ref: pulled.id.to_string() }))
    }

    async fn remove_image(
        &self,
        request: Request<RemoveImageRequest>,
    ) -> Result<Response<RemoveImageResponse>, Status> {
        let name = request.into_inner().image.unwrap_or_default().image;
        self.blocking(move |store| store.remove(&name)).await?;
        Ok(Response::new(RemoveImageResponse {}))
    }

    async fn image_fs_info(
        &self,
        _: Request<ImageFsInfoRequest>,
    ) -> Result<Response<ImageFsInfoResponse>, Status> {
        let usage = self.blocking(ImageStore::usage).await?;
        let mountpoint = self.store.folder().to_string_lossy().into_owned();
        let usage = FilesystemUsage {
            timestamp: (self.now)(),
            fs_id: Some(FilesystemIdentifier { mountpoint }),
            used_bytes: Some(UInt64Value { value: usage.bytes }),
            inodes_used: Some(UInt64Value { value: usage.inodes }),
        };
        // Images and writable layers are in one file system.
        Ok(Response::new(ImageFsInfoResponse {
            image_filesystems: vec![usage.clone()],
            container_filesystems: vec![usage],
        }))
    }
}

fn published(image: &StoredImage) -> Image {
    let user = image.config.user.split(':').next().unwrap_or_default();
    let (uid, username) = match user.parse() {
        Ok(value) => (Some(Int64Value { value }), String::new()),
        Err(_) => (None, user.to_owned()),
    };
    Image {
        id: image.id.to_string(),
        repo_tags: image.tags.clone(),
        repo_digests: image.digests.clone(),
        size: image.size,
        uid,
        username,
        spec: None,
        pinned: image.pinned,
    }
}

/// Kubelets look for words at the beginning of messages, and only of this code.
fn unknown(error: &dyn std::error::Error) -> Status {
    Status::unknown(text(error))
}

fn pull_status(name: &str, error: &PullError) -> Status {
    let text = text(error);
    if text.starts_with("RegistryUnavailable") {
        return Status::unknown(text);
    }
    match error {
        PullError::Registry(super::registry::RegistryError::NotFound { .. }) => {
            Status::not_found(format!("failed to pull image {name:?}: {text}"))
        }
        PullError::Registry(_) | PullError::Store(_) | PullError::Panicked => {
            Status::unknown(format!("failed to pull image {name:?}: {text}"))
        }
    }
}

/// The error with its causes.
fn text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
