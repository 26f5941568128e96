//! Removes a sandbox with its containers, files and name.

use std::io;
use std::sync::Arc;

use cri::v1::ContainerEventType;

use super::{Sandbox, stop_sandbox};
use crate::containers::remove_container;
use crate::errors::ServiceError;
use crate::events;
use crate::records::OnFile;
use crate::shared::{Shared, blocking};

pub(crate) async fn remove_sandbox(shared: &Arc<Shared>, sandbox: &Arc<Sandbox>) -> Result<(), ServiceError> {
    stop_sandbox(shared, sandbox).await?;
    let _operation = sandbox.operation.lock().await;
    for container in shared.containers_of(&sandbox.record.id) {
        remove_container(shared, &container).await?;
    }
    let folder = shared.sandbox_root(&sandbox.record.id);
    blocking(move || match std::fs::remove_dir_all(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => Ok(result.on_file("remove", &folder)?),
    })
    .await?;
    events::publish(shared, sandbox, &sandbox.record.id, ContainerEventType::ContainerDeletedEvent);
    shared.forget_sandbox(&sandbox.record.id);
    Ok(())
}
