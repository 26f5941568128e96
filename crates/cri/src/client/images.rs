use async_trait::async_trait;
use model::{ImageAuth, ImageFilesystems, ImageSpec, ImageStatus, SandboxSpec};
use ports::runtime::{Images, RuntimeError, ignore_not_found};

use super::call::{Deadline, protocol_violation};
use super::{CriClient, ImageService};
use crate::convert::{image, sandbox};
use crate::list_calls;
use crate::v1::{
    ImageFsInfoRequest, ImageStatusRequest, ListImagesRequest, ListImagesResponse, PullImageRequest,
    RemoveImageRequest,
};

#[async_trait]
impl Images for CriClient {
    async fn image_status(&self, spec: &ImageSpec) -> Result<Option<ImageStatus>, RuntimeError> {
        const OPERATION: &str = "image_status";
        let message = ImageStatusRequest { image: Some(image::spec(spec)), verbose: false };
        match self.call(OPERATION, message, ImageService::image_status).await?.image.map(image::status) {
            Some(status) if status.id.is_empty() => {
                Err(protocol_violation(OPERATION, "an image without an id"))
            }
            status => Ok(status),
        }
    }

    async fn pull_image(
        &self,
        spec: &ImageSpec,
        auth: Option<&ImageAuth>,
        pod: &SandboxSpec,
    ) -> Result<String, RuntimeError> {
        const OPERATION: &str = "pull_image";
        let message = PullImageRequest {
            image: Some(image::spec(spec)),
            auth: auth.map(image::auth),
            sandbox_config: Some(sandbox::config(pod)),
        };
        let reference =
            self.call_within(OPERATION, Deadline::None, message, ImageService::pull_image).await?.image_ref;
        if reference.is_empty() {
            return Err(protocol_violation(OPERATION, "no image reference"));
        }
        Ok(reference)
    }

    async fn list_images(&self) -> Result<Vec<ImageStatus>, RuntimeError> {
        let message = ListImagesRequest::default();
        let found: ListImagesResponse =
            self.list(list_calls::IMAGES, &self.image_list_channel, message).await?;
        Ok(found.images.into_iter().map(image::status).collect())
    }

    async fn remove_image(&self, spec: &ImageSpec) -> Result<(), RuntimeError> {
        let message = RemoveImageRequest { image: Some(image::spec(spec)) };
        ignore_not_found(self.call("remove_image", message, ImageService::remove_image).await.map(drop))
    }

    async fn image_filesystems(&self) -> Result<ImageFilesystems, RuntimeError> {
        let found = self.call("image_fs_info", ImageFsInfoRequest {}, ImageService::image_fs_info).await?;
        Ok(image::filesystems(found))
    }
}
