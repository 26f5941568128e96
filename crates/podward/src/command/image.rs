//! `podward image`: the images of the container runtime inside. Works on the store directly, which several processes may use at
//! the same time, so it needs no running agent.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use runtime::images::{ImageStore, PullProgress, Puller, StoredImage};
use tokio::sync::watch;

use super::table::Table;

/// The store below the agent's root folder.
const STORE: &str = "podward/runtime/images";
const DEFAULT_ROOT: &str = "/var/lib/kubelet";
const SHORT_ID: usize = 12;

#[derive(Debug, Args)]
pub(super) struct ImageArguments {
    #[command(subcommand)]
    command: ImageCommand,
    /// The root folder of the agent (its --root-dir)
    #[arg(long, global = true, value_name = "DIR", default_value = DEFAULT_ROOT)]
    root_dir: PathBuf,
    /// The folder of the image store, for `podward runtime` [default: podward/runtime/images below the root folder]
    #[arg(long, global = true, value_name = "DIR")]
    store: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum ImageCommand {
    /// List the images
    Ls,
    /// Pull an image from its registry, without credentials
    Pull { image: String },
    /// Import the images of an archive: of `docker save`, or an OCI layout
    Import { file: PathBuf },
    /// Remove images with all their names
    Rm {
        #[arg(required = true, value_name = "IMAGE")]
        images: Vec<String>,
    },
    /// Remove images without a name
    Prune,
}

pub(super) async fn run(arguments: ImageArguments) -> anyhow::Result<ExitCode> {
    if !rustix::process::geteuid().is_root() {
        bail!("the image store needs root");
    }
    let folder = arguments.store.unwrap_or_else(|| arguments.root_dir.join(STORE));
    let store = ImageStore::open(&folder, Vec::new())
        .with_context(|| format!("open the image store {}", folder.display()))?;
    match arguments.command {
        ImageCommand::Ls => list(&store)?,
        ImageCommand::Pull { image } => pull(&store, &image).await?,
        ImageCommand::Import { file } => import(&store, &file)?,
        ImageCommand::Rm { images } => {
            for image in images {
                let found = store.remove(&image).with_context(|| format!("remove {image}"))?;
                if !found {
                    bail!("image {image:?} not found");
                }
                println!("removed {image}");
            }
        }
        ImageCommand::Prune => {
            for image in store.list()?.into_iter().filter(|image| image.tags.is_empty() && !image.pinned) {
                store.remove(image.id.as_str())?;
                println!("removed {}", image.id);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(store: &ImageStore) -> anyhow::Result<()> {
    let mut table = Table::new(["NAME", "ID", "SIZE"]);
    for image in store.list()? {
        let id = image.id.hex().get(..SHORT_ID).unwrap_or_default().to_owned();
        for name in names(&image) {
            table.add_row(vec![name, id.clone(), format!("{} KiB", image.size / 1024)]);
        }
    }
    super::get::print(&table.take_text())
}

/// The tags, or else the digests.
fn names(image: &StoredImage) -> Vec<String> {
    let names = if image.tags.is_empty() { &image.digests } else { &image.tags };
    if names.is_empty() { vec!["<none>".to_owned()] } else { names.clone() }
}

async fn pull(store: &ImageStore, image: &str) -> anyhow::Result<()> {
    let registry_config = PathBuf::from("/etc/containerd/certs.d");
    let (progress, _) = watch::channel(PullProgress::default());
    let puller = Puller::new(store.clone(), Some(registry_config));
    let pulled = puller.pull(image, None, progress).await.with_context(|| format!("pull {image}"))?;
    println!("{}", pulled.id);
    Ok(())
}

fn import(store: &ImageStore, file: &Path) -> anyhow::Result<()> {
    let archive = File::open(file).with_context(|| format!("open {}", file.display()))?;
    let imported = store.import(archive).with_context(|| format!("import {}", file.display()))?;
    for image in &imported.images {
        println!("{} {}", names(image).join(" "), image.id);
    }
    for name in imported.skipped {
        println!("skipped {name}: not for this machine");
    }
    Ok(())
}
