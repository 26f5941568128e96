//! Images of the machine: the test images, and the control plane built from the pinned programs, under the names that
//! kubeadm expects.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result};

use super::Machine;
use crate::control_plane::program;
use crate::images::{self, Image, ImageFile};

/// `imageRepository` of the cluster's configuration.
pub const IMAGE_REPOSITORY: &str = "podward.test/kubernetes";
/// The static pods that `kubeadm init` writes.
pub const CONTROL_PLANE_COMPONENTS: [&str; 4] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// The control plane's image of a component.
pub fn control_plane_image(component: &str, tag: &str) -> String {
    format!("{IMAGE_REPOSITORY}/{component}:{tag}")
}

/// The image that containerd uses for sandboxes.
pub(super) fn sandbox_image() -> String {
    control_plane_image("pause", "test")
}

impl Machine {
    /// Imports what every machine runs: the sandbox image and the test images.
    pub(super) async fn import_test_images(&self) -> Result<()> {
        let archive = images::write_test_images(&images::workspace().join("target/test-images"))?;
        self.import_images(&archive).await?;
        self.tag_image(images::PAUSE, &sandbox_image()).await
    }

    /// Builds and imports the images that `kubeadm init` asks for; `list` is what `kubeadm config images list` prints.
    pub async fn import_control_plane(&self, list: &str) -> Result<()> {
        let names = list.lines().map(|name| (component(name), name));
        let built: Vec<Image> = names
            .filter(|(component, _)| *component != "pause")
            .map(|(component, name)| component_image(component, name))
            .collect();
        let path = self.instance.path("control-plane.tar");
        let file = File::create(&path).context("create the archive of the control plane")?;
        images::write_archive(&built, file)?;
        self.import_images(&path).await?;
        fs::remove_file(&path).context("remove the archive of the control plane")
    }

    /// Gives the pause image the name that is in kubeadm's list. Every machine needs it: `kubeadm upgrade` checks the
    /// cluster with a Job that runs it.
    pub async fn tag_pause_image(&self, list: &str) -> Result<()> {
        let name =
            list.lines().find(|name| component(name) == "pause").context("no pause image in the list")?;
        self.tag_image(images::PAUSE, name).await
    }

    /// Gives an image of the machine a second name.
    pub async fn tag_image(&self, image: &str, name: &str) -> Result<()> {
        self.run("ctr", &["--namespace", "k8s.io", "images", "tag", "--force", image, name]).await.map(drop)
    }

    async fn import_images(&self, archive: &Path) -> Result<()> {
        let archive = archive.to_str().context("the archive's path is not UTF-8")?;
        self.run("ctr", &["--namespace", "k8s.io", "images", "import", archive]).await.map(drop)
    }
}

/// The last part of an image's name, without the tag.
fn component(image: &str) -> &str {
    let name = image.rsplit('/').next().unwrap_or(image);
    name.split(':').next().unwrap_or(name)
}

/// The program alone: all of them are linked statically.
fn component_image(component: &str, name: &str) -> Image {
    Image {
        name: name.to_owned(),
        env: vec!["PATH=/usr/local/bin".to_owned()],
        files: vec![
            ImageFile::Program(format!("usr/local/bin/{component}"), program::built(component)),
            ImageFile::Folder("tmp".to_owned(), 0o1777),
        ],
        ..Image::default()
    }
}
