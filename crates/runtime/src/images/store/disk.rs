//! Folders of the store, errors, and files that are replaced in one step.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::images::digest::Digest;
use crate::images::extract::{ExtractError, remove_tree};
use crate::images::manifest::ManifestError;
use crate::images::reference::ReferenceError;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("failed to {operation} {path}")]
    File { operation: &'static str, path: PathBuf, source: io::Error },
    #[error("failed to unpack layer {digest}")]
    Unpack { digest: String, source: ExtractError },
    #[error("failed to decompress layer {digest}")]
    Decompress { digest: String, source: io::Error },
    #[error("{what} has the digest {actual} instead of {expected}")]
    WrongDigest { what: &'static str, expected: Digest, actual: Digest },
    #[error("{what} {digest} has {actual} bytes instead of {expected}")]
    WrongSize { what: &'static str, digest: Digest, expected: u64, actual: u64 },
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    #[error("image id {0:?} is ambiguous")]
    AmbiguousId(String),
    #[error("image {0:?} not found")]
    NotFound(String),
    #[error("invalid id {0:?} of a container or sandbox")]
    InvalidOwner(String),
    #[error("archive has no images: neither index.json nor manifest.json is in it")]
    NoImages,
    #[error("invalid archive: {0}")]
    Archive(String),
    #[error("container {container} already has a root file system of image {image}")]
    OtherImage { container: String, image: Digest },
    #[error("failed to mount the root file system at {path}: {step}")]
    Mount { path: PathBuf, step: &'static str, source: io::Error },
}

pub(super) trait OnPath<T> {
    fn on_path(self, operation: &'static str, path: &Path) -> Result<T, StoreError>;
}

impl<T, E: Into<io::Error>> OnPath<T> for Result<T, E> {
    fn on_path(self, operation: &'static str, path: &Path) -> Result<T, StoreError> {
        self.map_err(|source| StoreError::File { operation, path: path.to_path_buf(), source: source.into() })
    }
}

/// Paths in the store.
#[derive(Clone, Debug)]
pub(crate) struct Folders {
    root: PathBuf,
}

impl Folders {
    /// Files of images have the owners and set-user-id bits of the images: only root may reach them from the host.
    pub(super) fn make(root: &Path) -> Result<Self, StoreError> {
        make_folder(root, 0o700)?;
        let root = root.canonicalize().on_path("resolve", root)?;
        let folders = Self { root };
        for folder in
            [folders.blobs(), folders.images(), folders.layers(), folders.staging(), folders.roots()]
        {
            make_folder(&folder, 0o700)?;
        }
        Ok(folders)
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn blobs(&self) -> PathBuf {
        self.root.join("blobs")
    }

    pub(super) fn images(&self) -> PathBuf {
        self.root.join("images")
    }

    pub(super) fn layers(&self) -> PathBuf {
        self.root.join("layers")
    }

    pub(super) fn roots(&self) -> PathBuf {
        self.root.join("roots")
    }

    pub(super) fn staging(&self) -> PathBuf {
        self.root.join("staging")
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    pub(super) fn use_lock(&self) -> PathBuf {
        self.root.join("use.lock")
    }

    pub(super) fn layer(&self, chain_id: &Digest) -> PathBuf {
        self.layers().join(chain_id.hex())
    }

    pub(super) fn blob(&self, digest: &Digest) -> PathBuf {
        self.blobs().join(digest.hex())
    }

    /// A path in the staging folder that no other process and no other call uses.
    pub(super) fn staged(&self) -> PathBuf {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = self.staging().join(format!("{}-{number}", std::process::id()));
            // A crashed process with the same id may have left content.
            if !path.exists() {
                return path;
            }
        }
    }
}

pub(super) fn make_folder(path: &Path, mode: u32) -> Result<(), StoreError> {
    DirBuilder::new().recursive(true).mode(mode).create(path).on_path("create folder", path)
}

/// Replaces a file with a JSON document, so that a reader sees the old or the new content, also after a power failure.
pub(super) fn write_json(folders: &Folders, path: &Path, value: &impl Serialize) -> Result<(), StoreError> {
    let content = serde_json::to_vec(value).map_err(io::Error::from).on_path("encode", path)?;
    write_file(folders, path, &content)
}

pub(super) fn write_file(folders: &Folders, path: &Path, content: &[u8]) -> Result<(), StoreError> {
    let staged = folders.staged();
    let written = File::create(&staged).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()
    });
    let moved = written.on_path("write", path).and_then(|()| move_into_place(&staged, path));
    if moved.is_err() {
        let _ = fs::remove_file(&staged);
    }
    moved
}

/// Renames, and flushes the name to disk.
pub(super) fn move_into_place(from: &Path, to: &Path) -> Result<(), StoreError> {
    fs::rename(from, to).on_path("rename to", to)?;
    let parent = to.parent().unwrap_or(to);
    File::open(parent).and_then(|folder| folder.sync_all()).on_path("flush", parent)
}

/// Names of the entries of a folder.
pub(super) fn names(folder: &Path) -> Result<Vec<String>, StoreError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).on_path("list", folder)? {
        let name = entry.on_path("list", folder)?.file_name();
        names.extend(name.into_string().ok());
    }
    names.sort_unstable();
    Ok(names)
}

/// Removes an entry of one of the store's folders with everything below it.
pub(super) fn remove(path: &Path) -> Result<(), StoreError> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let parent = File::open(parent).on_path("open", parent)?;
    remove_tree(parent.as_fd(), name).on_path("remove", path)
}
