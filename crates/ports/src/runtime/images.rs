use async_trait::async_trait;
use model::{ImageAuth, ImageFilesystems, ImageSpec, ImageStatus, SandboxSpec};

use super::RuntimeError;

/// Images of the runtime.
#[async_trait]
pub trait Images: Send + Sync {
    /// A local image, or `None` when it is absent.
    async fn image_status(&self, image: &ImageSpec) -> Result<Option<ImageStatus>, RuntimeError>;

    /// Pulls an image and returns its reference. Has no deadline: the caller bounds it.
    async fn pull_image(
        &self,
        image: &ImageSpec,
        auth: Option<&ImageAuth>,
        sandbox: &SandboxSpec,
    ) -> Result<String, RuntimeError>;

    /// All local images.
    async fn list_images(&self) -> Result<Vec<ImageStatus>, RuntimeError>;

    /// Removes an image; an unknown image is not a failure.
    async fn remove_image(&self, image: &ImageSpec) -> Result<(), RuntimeError>;

    /// Location and use of the filesystems of images and writable layers.
    async fn image_filesystems(&self) -> Result<ImageFilesystems, RuntimeError>;
}
