use async_trait::async_trait;
use model::{ImageAuth, ImageFilesystems, ImageSpec, ImageStatus, SandboxSpec};
use ports::runtime::{Images, RuntimeError, ignore_not_found};

use super::CriClient;
use super::call::{Deadline, protocol_violation, request};
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
        let deadline = Deadline::In(self.request_timeout);
        let message = ImageStatusRequest { image: Some(image::spec(spec)), verbose: false };
        let call = async { self.images().image_status(request(message, deadline)).await };
        match self.execute(OPERATION, deadline, call).await?.image.map(image::status) {
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
        let call = async { self.images().pull_image(request(message, Deadline::None)).await };
        let reference = self.execute(OPERATION, Deadline::None, Box::pin(call)).await?.image_ref;
        if reference.is_empty() {
            return Err(protocol_violation(OPERATION, "no image reference"));
        }
        Ok(reference)
    }

    async fn list_images(&self) -> Result<Vec<ImageStatus>, RuntimeError> {
        let message = ListImagesRequest::default();
        let found: ListImagesResponse =
            self.list("list_images", list_calls::IMAGES, &self.image_list_channel, message).await?;
        Ok(found.images.into_iter().map(image::status).collect())
    }

    async fn remove_image(&self, spec: &ImageSpec) -> Result<(), RuntimeError> {
        let deadline = Deadline::In(self.request_timeout);
        let message = RemoveImageRequest { image: Some(image::spec(spec)) };
        let call = async { self.images().remove_image(request(message, deadline)).await };
        ignore_not_found(self.execute("remove_image", deadline, call).await.map(|_| ()))
    }

    async fn image_filesystems(&self) -> Result<ImageFilesystems, RuntimeError> {
        let deadline = Deadline::In(self.request_timeout);
        let call = async { self.images().image_fs_info(request(ImageFsInfoRequest {}, deadline)).await };
        Ok(image::filesystems(self.execute("image_fs_info", deadline, call).await?))
    }
}
