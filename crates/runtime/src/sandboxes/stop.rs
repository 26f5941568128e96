//! Stops a sandbox: its containers end, and everything that it used is released. Can be repeated after a failure.

use std::sync::Arc;

use cri::v1::ContainerEventType;

use super::undo::release;
use super::{RECORD, Sandbox};
use crate::containers::{forget_in_keeper, kill_container};
use crate::errors::ServiceError;
use crate::events;
use crate::records::{self, SandboxRecord};
use crate::shared::{Shared, blocking};

pub(crate) async fn stop_sandbox(shared: &Arc<Shared>, sandbox: &Arc<Sandbox>) -> Result<(), ServiceError> {
    let _operation = sandbox.operation.lock().await;
    if sandbox.is_stopped() {
        return Ok(());
    }
    sandbox.set_not_ready();
    for container in shared.containers_of(&sandbox.record.id) {
        kill_container(shared, &container).await?;
        forget_in_keeper(sandbox, &container.record.id).await?;
    }
    end_keeper(sandbox).await?;
    release(shared, &sandbox.record).await?;
    let record = SandboxRecord { stopped: true, ..sandbox.record.clone() };
    let path = shared.sandbox_root(&record.id).join(RECORD);
    blocking(move || Ok(records::write(&path, &record)?)).await?;
    sandbox.set_stopped();
    events::publish(shared, sandbox, &sandbox.record.id, ContainerEventType::ContainerStoppedEvent);
    Ok(())
}

/// Ends the keeper, and with it the first process of a shared PID namespace. A keeper that has already ended is no error.
async fn end_keeper(sandbox: &Sandbox) -> Result<(), ServiceError> {
    let Some(keeper) = sandbox.keeper() else { return Ok(()) };
    sandbox.set_stopping();
    crate::containers::end_pause_process(sandbox, &keeper).await?;
    keeper.shut_down().await?;
    sandbox.set_keeper(None);
    Ok(())
}
