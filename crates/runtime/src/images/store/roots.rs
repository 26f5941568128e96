//! Root file systems of containers, and read-only views of images for image volumes.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::disk::{Folders, OnPath, StoreError, make_folder, names, remove, write_json};
use super::records::{Record, RecordedLayer};
use super::{ImageStore, mapped_layers, overlay};
use crate::images::digest::Digest;
use crate::launcher::UserNamespace;

pub(super) const WRITABLE: &str = "fs";
const WORK: &str = "work";
const MOUNT: &str = "root";
const LAYERS: &str = "layers";
const RECORD: &str = "root.json";
const MAX_OWNER: usize = 128;
/// Begins the folders of guests. Ids of containers and sandboxes do not contain it.
const GUEST: &str = "guest.";

/// Keeps the layers of a root while it exists, also after its image was removed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RootRecord {
    image: Digest,
    pub(super) layers: Vec<RecordedLayer>,
}

impl ImageStore {
    /// Mounts the root file system of a container: the layers of the image, and a writable layer on top. The writable
    /// layer is kept until `unmount_root`, so that the call can be repeated after a restart of the machine.
    pub fn mount_root(&self, image: &str, container: &str) -> Result<PathBuf, StoreError> {
        self.mount_root_for(image, container, None)
    }

    /// Like `mount_root`, with the owners of all files mapped for a user namespace.
    pub fn mount_root_for(
        &self,
        image: &str,
        container: &str,
        user: Option<&UserNamespace>,
    ) -> Result<PathBuf, StoreError> {
        let (folder, record) = self.prepare(image, container)?;
        let mount = folder.join(MOUNT);
        if overlay::is_mounted(&mount)? {
            return Ok(mount);
        }
        let (writable, work) = (folder.join(WRITABLE), folder.join(WORK));
        make_folder(&mount, 0o755)?;
        make_folder(&writable, 0o755)?;
        make_folder(&work, 0o711)?;
        mapped_layers::give_to_root(&writable, user)?;
        mapped_layers::with_owners(&folder.join(LAYERS), &self.layer_roots(&record), user, |layers| {
            overlay::mount_writable(layers, &writable, &work, &mount)
        })?;
        Ok(mount)
    }

    /// Mounts a read-only view of an image, for `owner`: a name of the caller's choice, for example of sandbox and
    /// volume. Ends with `unmount_root`.
    pub fn mount_view(&self, image: &str, owner: &str) -> Result<PathBuf, StoreError> {
        self.mount_view_for(image, owner, None)
    }

    /// Like `mount_view`, with the owners of all files mapped for a user namespace.
    pub fn mount_view_for(
        &self,
        image: &str,
        owner: &str,
        user: Option<&UserNamespace>,
    ) -> Result<PathBuf, StoreError> {
        let (folder, record) = self.prepare(image, owner)?;
        let mount = folder.join(MOUNT);
        if !overlay::is_mounted(&mount)? {
            make_folder(&mount, 0o755)?;
            let empty = folder.join(WRITABLE);
            make_folder(&empty, 0o755)?;
            mapped_layers::give_to_root(&empty, user)?;
            mapped_layers::with_owners(&folder.join(LAYERS), &self.layer_roots(&record), user, |layers| {
                overlay::mount_read_only(layers, &empty, &mount)
            })?;
        }
        Ok(mount)
    }

    /// Unmounts a root or view and removes its writable layer. Does nothing if there is none.
    pub fn unmount_root(&self, owner: &str) -> Result<(), StoreError> {
        let folder = self.root_folder(owner)?;
        if !folder.exists() {
            return Ok(());
        }
        overlay::detach(&folder.join(MOUNT))?;
        mapped_layers::remove_layers(&folder.join(LAYERS))?;
        // Without its record the folder no longer keeps layers; the record goes last, so that a crash in between
        // leaves a root that can be unmounted again.
        for part in [MOUNT, WORK, WRITABLE, RECORD] {
            remove(&folder.join(part))?;
        }
        remove(&folder)?;
        self.collect()
    }

    /// Owners of roots and views, without those of other runtimes.
    pub fn root_owners(&self) -> Result<Vec<String>, StoreError> {
        let names = names(&self.inner.folders.roots())?;
        let prefix = self.inner.owner_prefix.as_str();
        let own = names.iter().filter_map(|name| name.strip_prefix(prefix));
        Ok(own.filter(|name| !name.starts_with(GUEST)).map(str::to_owned).collect())
    }

    pub(super) fn root_folder(&self, owner: &str) -> Result<PathBuf, StoreError> {
        let owner = checked(owner)?;
        Ok(self.inner.folders.roots().join(format!("{}{owner}", self.inner.owner_prefix)))
    }

    /// Records which layers a root uses before anything is mounted.
    fn prepare(&self, image: &str, owner: &str) -> Result<(PathBuf, Record), StoreError> {
        let folder = self.root_folder(owner)?;
        let _lock = self.lock()?;
        let record = self.find(image)?.ok_or_else(|| StoreError::NotFound(image.to_owned()))?;
        if let Some(older) = read(&folder)?
            && older.image != record.id
        {
            return Err(StoreError::OtherImage { container: owner.to_owned(), image: older.image });
        }
        make_folder(&folder, 0o711)?;
        let root = RootRecord { image: record.id.clone(), layers: record.layers.clone() };
        write_json(&self.inner.folders, &folder.join(RECORD), &root)?;
        Ok((folder, Record::clone(&record)))
    }
}

/// The prefix of the folders of a guest's roots.
pub(super) fn guest_prefix(guest: &str) -> Result<String, StoreError> {
    Ok(format!("{GUEST}{}.", checked(guest)?))
}

/// Fails for names that could leave the folder.
fn checked(owner: &str) -> Result<&str, StoreError> {
    let is_safe = (1..=MAX_OWNER).contains(&owner.len())
        && !owner.starts_with('.')
        && owner.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    if is_safe { Ok(owner) } else { Err(StoreError::InvalidOwner(owner.to_owned())) }
}

pub(super) fn all(folders: &Folders) -> Result<Vec<RootRecord>, StoreError> {
    let roots = folders.roots();
    names(&roots)?.into_iter().filter_map(|name| read(&roots.join(name)).transpose()).collect()
}

fn read(folder: &Path) -> Result<Option<RootRecord>, StoreError> {
    let path = folder.join(RECORD);
    match fs::read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        content => {
            let content = content.on_path("read", &path)?;
            serde_json::from_slice(&content).map_err(std::io::Error::from).on_path("parse", &path).map(Some)
        }
    }
}
