//! Removes containers. Their log files stay: the caller owns them.

use std::io;
use std::sync::Arc;

use cri::v1::ContainerEventType;

use super::{Container, kill_container};
use crate::cgroups::ContainerCgroup;
use crate::errors::ServiceError;
use crate::events;
use crate::keeper::client::KeeperClientError;
use crate::records::OnFile;
use crate::sandboxes::Sandbox;
use crate::shared::{Shared, blocking};

pub(crate) async fn remove_container(
    shared: &Arc<Shared>,
    container: &Arc<Container>,
) -> Result<(), ServiceError> {
    let _operation = container.operation.lock().await;
    kill_container(shared, container).await?;
    let id = container.record.id.clone();
    let sandbox = shared.sandbox(&container.record.sandbox).ok();
    if let Some(sandbox) = &sandbox {
        forget_in_keeper(sandbox, &id).await?;
    }
    release(shared, &id, &container.record.cgroup).await?;
    if let Some(sandbox) = &sandbox {
        events::publish(shared, sandbox, &id, ContainerEventType::ContainerDeletedEvent);
    }
    shared.forget_container(&id);
    Ok(())
}

/// Removes a container that does not run from its keeper. A created one ends. Does nothing if the keeper has ended.
pub(crate) async fn forget_in_keeper(sandbox: &Sandbox, container: &str) -> Result<(), ServiceError> {
    let Some(keeper) = sandbox.keeper() else { return Ok(()) };
    match keeper.remove(container).await {
        Err(KeeperClientError::Gone) => Ok(()),
        result => Ok(result?),
    }
}

/// Removes cgroup, root file system and folder. What is missing already is no error.
pub(super) async fn release(
    shared: &Arc<Shared>,
    id: &str,
    cgroup: &std::path::Path,
) -> Result<(), ServiceError> {
    let (shared, id) = (shared.clone(), id.to_owned());
    let cgroup = ContainerCgroup::at(&shared.cgroups, cgroup);
    blocking(move || {
        cgroup.kill_all()?;
        cgroup.remove()?;
        shared.store.unmount_root(&id)?;
        let folder = shared.container_root(&id);
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => Ok(result.on_file("remove", &folder)?),
        }
    })
    .await
}
