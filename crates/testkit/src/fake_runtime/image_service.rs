use std::sync::Arc;

use cri::v1::image_service_server::ImageService;
use cri::v1::{
    FilesystemIdentifier, FilesystemUsage, ImageFsInfoRequest, ImageFsInfoResponse, ImageSpec,
    ImageStatusRequest, ImageStatusResponse, ListImagesRequest, ListImagesResponse, PullImageRequest,
    PullImageResponse, RemoveImageRequest, RemoveImageResponse, StreamImagesRequest, StreamImagesResponse,
    UInt64Value,
};
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use super::machine::Machine;
use super::rpc::{Rpc, Subject};
use super::runtime_service::{has_pieces, in_pieces};
use super::runtime_state::RuntimeState;

/// Reported location of the images.
const IMAGE_FOLDER: &str = "/var/lib/fake-runtime";

pub(crate) struct FakeImageService(pub(crate) Arc<Machine>);

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl ImageService for FakeImageService {
    async fn list_images(&self, request: Request<ListImagesRequest>) -> Answer<ListImagesResponse> {
        let filter = request.into_inner().filter.and_then(|filter| filter.image);
        let work = |state: &mut RuntimeState, _| {
            Ok(ListImagesResponse { images: state.images.list(filter.as_ref()) })
        };
        self.0.call(Rpc::ListImages, Subject::default(), work).await
    }

    async fn stream_images(
        &self,
        request: Request<StreamImagesRequest>,
    ) -> Answer<BoxStream<StreamImagesResponse>> {
        let filter = request.into_inner().filter.and_then(|filter| filter.image);
        let work = |state: &mut RuntimeState, _| {
            has_pieces(state)?;
            Ok(state.images.list(filter.as_ref()))
        };
        let found = self.0.call(Rpc::StreamImages, Subject::default(), work).await?;
        Ok(in_pieces(found, |one| StreamImagesResponse { images: vec![one] }))
    }

    async fn image_status(&self, request: Request<ImageStatusRequest>) -> Answer<ImageStatusResponse> {
        let name = name_of(request.into_inner().image);
        let work = |state: &mut RuntimeState, _| {
            Ok(ImageStatusResponse { image: state.images.find(&name).cloned(), ..Default::default() })
        };
        self.0.call(Rpc::ImageStatus, about(&name), work).await
    }

    async fn pull_image(&self, request: Request<PullImageRequest>) -> Answer<PullImageResponse> {
        let request = request.into_inner();
        let name = name_of(request.image.clone());
        let work = |state: &mut RuntimeState, _| {
            state.pulls.push(request);
            if name.is_empty() {
                return Err(Status::invalid_argument("no image is named"));
            }
            Ok(PullImageResponse { image_ref: state.images.add(&name).id })
        };
        self.0.call(Rpc::PullImage, about(&name), work).await
    }

    async fn remove_image(&self, request: Request<RemoveImageRequest>) -> Answer<RemoveImageResponse> {
        let name = name_of(request.into_inner().image);
        let work = |state: &mut RuntimeState, _| {
            state.images.remove(&name);
            Ok(RemoveImageResponse {})
        };
        self.0.call(Rpc::RemoveImage, about(&name), work).await
    }

    async fn image_fs_info(&self, _: Request<ImageFsInfoRequest>) -> Answer<ImageFsInfoResponse> {
        let work = |state: &mut RuntimeState, now| {
            let usage = FilesystemUsage {
                timestamp: now,
                fs_id: Some(FilesystemIdentifier { mountpoint: IMAGE_FOLDER.into() }),
                used_bytes: Some(UInt64Value { value: state.images.used_bytes() }),
                inodes_used: Some(UInt64Value { value: 0 }),
            };
            Ok(ImageFsInfoResponse { image_filesystems: vec![usage], container_filesystems: vec![] })
        };
        self.0.call(Rpc::ImageFsInfo, Subject::default(), work).await
    }
}

fn name_of(image: Option<ImageSpec>) -> String {
    image.unwrap_or_default().image
}

fn about(image: &str) -> Subject {
    Subject { id: image.to_owned(), ..Subject::default() }
}
