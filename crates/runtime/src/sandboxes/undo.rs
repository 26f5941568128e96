//! Releases what a sandbox uses. Every step does nothing if its object is missing, so that all of it can be repeated.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{NamespaceFiles, Sandbox, unmount_all};
use crate::cgroups::ContainerCgroup;
use crate::errors::ServiceError;
use crate::records::{OnFile, SandboxRecord};
use crate::shared::{Shared, blocking};

/// Undoes a sandbox that was not completed.
pub(crate) async fn undo_sandbox(shared: &Arc<Shared>, record: &SandboxRecord) -> Result<(), ServiceError> {
    release(shared, record).await?;
    let folder = shared.sandbox_root(&record.id);
    blocking(move || match std::fs::remove_dir_all(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => Ok(result.on_file("remove", &folder)?),
    })
    .await
}

/// Releases network, image views, processes, mounts, namespaces and cgroup. Files of the record stay.
pub(super) async fn release(shared: &Arc<Shared>, record: &SandboxRecord) -> Result<(), ServiceError> {
    let sandbox = Sandbox::new(record.clone(), false);
    if !sandbox.uses_host_network() {
        // Before the namespace is released: plugins enter it.
        shared.network.tear_down(record).await?;
    }
    let (shared, record) = (shared.clone(), record.clone());
    blocking(move || release_on_disk(&shared, &record)).await
}

fn release_on_disk(shared: &Shared, record: &SandboxRecord) -> Result<(), ServiceError> {
    let view = format!("{}{}-", crate::containers::VIEW_PREFIX, record.id);
    for owner in shared.store.root_owners()?.iter().filter(|owner| owner.starts_with(&view)) {
        shared.store.unmount_root(owner)?;
    }
    let cgroup = ContainerCgroup::at(&shared.cgroups, &record.cgroup);
    // The keeper, if it still runs.
    cgroup.kill_all()?;
    remove_state_folder(&record.folder)?;
    Ok(cgroup.remove()?)
}

/// Removes the folder of a sandbox with the mounts in it.
pub(crate) fn remove_state_folder(folder: &Path) -> Result<(), ServiceError> {
    unmount_all(&folder.join("shm"))?;
    NamespaceFiles::in_folder(folder).remove()?;
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => Ok(result.on_file("remove", folder)?),
    }
}
