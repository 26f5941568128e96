//! Changes the limits of a container.

use std::sync::Arc;

use cri::v1::LinuxContainerResources;

use super::translation::{merge, resources};
use super::{Container, save_status};
use crate::cgroups::ContainerCgroup;
use crate::errors::{ServiceError, describe};
use crate::records::LifeState;
use crate::shared::{Shared, blocking};

/// Writes the new limits and remembers them. If the kernel refuses one, the old limits are written again.
pub(crate) async fn update_resources(
    shared: &Arc<Shared>,
    container: &Arc<Container>,
    update: LinuxContainerResources,
) -> Result<(), ServiceError> {
    let _operation = container.operation.lock().await;
    if matches!(container.life(), LifeState::Exited(_)) {
        return Err(ServiceError::State("the container has ended".to_owned()));
    }
    let current = container.resources();
    let merged = merge(&current, &update);
    let (new, old) = (resources(&merged)?, resources(&current)?);
    let cgroup = ContainerCgroup::at(&shared.cgroups, &container.record.cgroup);
    let id = container.record.id.clone();
    blocking(move || {
        cgroup.apply(&new).map_err(|error| {
            if let Err(undo) = cgroup.apply(&old) {
                tracing::warn!(
                    container = id,
                    error = describe(&undo),
                    "failed to restore the limits of a container"
                );
            }
            error.into()
        })
    })
    .await?;
    container.set_resources(merged);
    save_status(shared, container).await;
    Ok(())
}
