//! `podward image`: the images of the container runtime inside. Works on the store directly, which several processes may use at
//! the same time, so it needs no running agent.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use cri::v1::AuthConfig;
use runtime::images::{ImageStore, PullProgress, Puller, StoredImage};
use tokio::sync::watch;

use super::table::Table;

/// The store below the agent's root folder.
const STORE: &str = "podward/runtime/images";
const DEFAULT_ROOT: &str = "/var/lib/kubelet";
const SHORT_ID: usize = 12;
/// Some registries give tokens of several KiB as passwords.
const MAX_PASSWORD_BYTES: u64 = 64 * 1024;

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
    /// Pull an image from its registry
    Pull {
        image: String,
        /// Log in to the registry as this user, with the password from standard input
        #[arg(long, value_name = "NAME")]
        username: Option<String>,
    },
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
        ImageCommand::Pull { image, username } => {
            let credentials = username.map(|name| credentials(name, std::io::stdin().lock())).transpose()?;
            pull(&store, &image, credentials.as_ref()).await?;
        }
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

/// Reads the password. The line break at its end does not belong to it.
fn credentials(username: String, input: impl Read) -> anyhow::Result<AuthConfig> {
    let mut password = String::new();
    input.take(MAX_PASSWORD_BYTES).read_to_string(&mut password).context("read the password")?;
    let password = password.trim_end_matches(['\r', '\n']).to_owned();
    if password.is_empty() {
        bail!("standard input has no password: use --username NAME <FILE");
    }
    Ok(AuthConfig { username, password, ..AuthConfig::default() })
}

async fn pull(store: &ImageStore, image: &str, credentials: Option<&AuthConfig>) -> anyhow::Result<()> {
    let registry_config = PathBuf::from("/etc/containerd/certs.d");
    let (progress, _) = watch::channel(PullProgress::default());
    let puller = Puller::new(store.clone(), Some(registry_config));
    let pulled = puller.pull(image, credentials, progress).await.with_context(|| format!("pull {image}"))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_has_no_line_break_and_is_not_empty() {
        let read = |text: &str| credentials("me".to_owned(), text.as_bytes());
        assert_eq!(read("se cret\r\n").unwrap().password, "se cret");
        assert!(read("\n").unwrap_err().to_string().contains("no password"));
    }
}
