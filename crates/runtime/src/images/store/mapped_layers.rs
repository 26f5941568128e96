//! Layers whose owners are mapped for a user namespace. The kernel cannot map an overlay, so the layers are mapped before they are
//! stacked: each is mounted in a folder for the time of the overlay's mount, which keeps its own copies.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{MoveMountFlags, move_mount};

use super::disk::{OnPath, StoreError, make_folder, names, remove};
use super::overlay;
use crate::launcher::{LaunchError, UserNamespace, clone_with_mapped_owners, root_on_host};

/// Mounts with the layers as they are, or as the user namespace sees them. `folder` is used by one mount at a time.
pub(super) fn with_owners<T>(
    folder: &Path,
    layers: &[PathBuf],
    user: Option<&UserNamespace>,
    mount: impl FnOnce(&[PathBuf]) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let Some(user) = user else { return mount(layers) };
    // Removes what a crash may have left.
    remove_layers(folder)?;
    let mounted = mount_layers(folder, layers, user).and_then(|mapped| mount(&mapped));
    let removed = remove_layers(folder);
    let mounted = mounted?;
    removed?;
    Ok(mounted)
}

/// Gives the writable layer to root of the user namespace: it is the root folder of the container.
pub(super) fn give_to_root(writable: &Path, user: Option<&UserNamespace>) -> Result<(), StoreError> {
    let Some(user) = user else { return Ok(()) };
    let (uid, gid) = root_on_host(&user.ids).map_err(other).on_path("map the owner of", writable)?;
    chown(writable, Some(uid), Some(gid)).on_path("set the owner of", writable)
}

fn mount_layers(folder: &Path, layers: &[PathBuf], user: &UserNamespace) -> Result<Vec<PathBuf>, StoreError> {
    make_folder(folder, 0o700)?;
    let mut mapped = Vec::new();
    for (number, layer) in layers.iter().enumerate() {
        let place = folder.join(number.to_string());
        make_folder(&place, 0o755)?;
        let tree =
            clone_with_mapped_owners(layer, user).map_err(other).on_path("map the owners of", layer)?;
        move_mount(tree.as_fd(), "", CWD, &place, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
            .map_err(io::Error::from)
            .on_path("mount", &place)?;
        mapped.push(place);
    }
    Ok(mapped)
}

/// Detaches the layers; mounts that use them keep them.
pub(super) fn remove_layers(folder: &Path) -> Result<(), StoreError> {
    if !folder.exists() {
        return Ok(());
    }
    for name in names(folder)? {
        overlay::detach(&folder.join(name))?;
    }
    remove(folder)
}

fn other(error: LaunchError) -> io::Error {
    io::Error::other(error)
}
