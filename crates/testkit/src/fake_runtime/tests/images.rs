use super::super::{Fault, Injection, Rpc};
use super::*;

impl Client {
    async fn image(&mut self, name: &str) -> Option<Image> {
        let request = ImageStatusRequest { image: Some(spec(name)), verbose: false };
        self.images.image_status(request).await.unwrap().into_inner().image
    }

    async fn pull(&mut self, name: &str) -> Result<String, Status> {
        let request = PullImageRequest { image: Some(spec(name)), ..Default::default() };
        Ok(self.images.pull_image(request).await?.into_inner().image_ref)
    }
}

fn spec(name: &str) -> ImageSpec {
    ImageSpec { image: name.into(), ..Default::default() }
}

#[tokio::test]
async fn pulled_image_is_found_by_all_its_names() {
    let (_fake, mut client) = node();
    assert_eq!(client.image("web").await, None);
    let reference = client.pull("web").await.unwrap();
    assert_eq!(client.pull("web:latest").await.unwrap(), reference, "pulled once");
    let image = client.image("web").await.unwrap();
    assert_eq!(image.id, reference);
    assert_eq!(image.repo_tags, ["web:latest"]);
    for name in [reference.as_str(), image.repo_digests[0].as_str(), "web:latest"] {
        assert_eq!(client.image(name).await.unwrap().id, reference, "{name}");
    }
    assert_eq!(client.image("web:2").await, None);
}

#[tokio::test]
async fn image_pulled_by_digest_has_no_tag() {
    let (_fake, mut client) = node();
    client.pull("host:5000/web@sha256:abc").await.unwrap();
    let image = client.image("host:5000/web@sha256:abc").await.unwrap();
    assert!(image.repo_tags.is_empty());
    assert_eq!(image.repo_digests, ["host:5000/web@sha256:abc"]);
}

#[tokio::test]
async fn container_status_names_its_image() {
    let (fake, mut client) = node();
    let image = fake.add_image(IMAGE);
    let (_, id) = client.running("a").await;
    let status = client.status(&id).await.unwrap();
    assert_eq!(status.image.unwrap().image, IMAGE);
    assert_eq!((status.image_ref, status.image_id), (image.repo_digests[0].clone(), image.id));
}

#[tokio::test]
async fn image_removal_is_idempotent_and_frees_space() {
    let (fake, mut client) = node();
    client.pull("web").await.unwrap();
    fake.edit_image("web", |image| image.size = 5 << 20);
    assert_eq!(used(&mut client).await, 6 << 20);
    for _ in 0..2 {
        client.images.remove_image(RemoveImageRequest { image: Some(spec("web")) }).await.unwrap();
    }
    assert_eq!(used(&mut client).await, 1 << 20);
    let listed = client.images.list_images(ListImagesRequest::default()).await.unwrap().into_inner().images;
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].repo_tags, [IMAGE]);
}

async fn used(client: &mut Client) -> u64 {
    let answer = client.images.image_fs_info(ImageFsInfoRequest {}).await.unwrap().into_inner();
    answer.image_filesystems[0].used_bytes.unwrap().value
}

#[tokio::test]
async fn pull_can_fail_for_one_image_or_hang() {
    let (fake, mut client) = node();
    fake.inject(
        Injection::new(Rpc::PullImage, Fault::Fail(Code::NotFound, "no such image".into())).on("bad"),
    );
    assert_eq!(code(client.pull("bad").await), Code::NotFound);
    assert_eq!(client.image("bad").await, None);
    client.pull("good").await.unwrap();
    let hang = fake.inject(Injection::new(Rpc::PullImage, Fault::Hang).on("slow"));
    let mut other = client.clone();
    let pull = tokio::spawn(async move { other.pull("slow").await });
    hang.wait_hits(1).await;
    assert_eq!(client.image("slow").await, None);
    hang.release();
    pull.await.unwrap().unwrap();
    assert!(client.image("slow").await.is_some());
}
