//! Start, exit, and the loss of a keeper.

use std::sync::Arc;

use cri::v1::ContainerEventType;

use super::Container;
use crate::cgroups::ContainerCgroup;
use crate::errors::{ServiceError, describe};
use crate::events;
use crate::keeper::client::KeeperClientError;
use crate::keeper::protocol::{ExitRecord, FailureKind};
use crate::keeper::read_exit;
use crate::records::{self, Exit, LifeState};
use crate::sandboxes::Sandbox;
use crate::shared::{Shared, blocking};

const START_FAILED: i32 = 128;
/// The exit code of a container whose real one is lost.
const LOST: i32 = 255;

/// Starts a created container.
pub(crate) async fn start_container(
    shared: &Arc<Shared>,
    container: &Arc<Container>,
) -> Result<(), ServiceError> {
    let Ok(_operation) = container.operation.try_lock() else {
        return Err(ServiceError::State("the container is being changed by another request".to_owned()));
    };
    match container.life() {
        LifeState::Created => {}
        LifeState::Running { .. } => return Err(wrong_state("running")),
        LifeState::Exited(_) => return Err(wrong_state("exited")),
    }
    let sandbox = shared.sandbox(&container.record.sandbox)?;
    match start(&sandbox, container).await {
        Ok(pid) => {
            // A short program may have ended, and its exit may have been reported, before this.
            container.set_running(pid, shared.now());
            save_status(shared, container).await;
            events::publish(
                shared,
                &sandbox,
                &container.record.id,
                ContainerEventType::ContainerStartedEvent,
            );
            Ok(())
        }
        Err(error) => {
            let exit = Exit {
                code: START_FAILED,
                reason: "StartError".to_owned(),
                message: describe(&error),
                started_at: 0,
                finished_at: shared.now(),
            };
            container_exited(shared, container, exit).await;
            Err(error)
        }
    }
}

fn wrong_state(state: &str) -> ServiceError {
    ServiceError::State(format!("the container is in state {state}, and only a created one can be started"))
}

async fn start(sandbox: &Sandbox, container: &Container) -> Result<u32, ServiceError> {
    if !sandbox.is_ready() {
        return Err(ServiceError::State("the sandbox of the container is not ready".to_owned()));
    }
    let keeper = sandbox.keeper().ok_or(KeeperClientError::Gone)?;
    Ok(keeper.start(&container.record.id).await?)
}

/// Records that a container has ended. The first report counts.
pub(crate) async fn container_exited(shared: &Arc<Shared>, container: &Container, exit: Exit) {
    if !container.set_exited(exit) {
        return;
    }
    save_status(shared, container).await;
    if let Ok(sandbox) = shared.sandbox(&container.record.sandbox) {
        events::publish(shared, &sandbox, &container.record.id, ContainerEventType::ContainerStoppedEvent);
    }
}

/// Writes the status to disk. A failure costs accuracy after the next restart only, so it is logged.
pub(crate) async fn save_status(shared: &Arc<Shared>, container: &Container) {
    let _order = container.saving.lock().await;
    let (path, status) = (container.status_path(shared), container.status_record());
    if let Err(error) = blocking(move || Ok(records::write(&path, &status)?)).await {
        let id = &container.record.id;
        tracing::warn!(container = id, error = describe(&error), "failed to save the status of a container");
    }
}

/// The exit in the terms of CRI.
pub(crate) fn exit_of_record(record: &ExitRecord) -> Exit {
    let reason = match record {
        ExitRecord { start_error: Some(_), .. } => "StartError",
        ExitRecord { oom_killed: true, .. } => "OOMKilled",
        ExitRecord { code: 0, .. } => "Completed",
        ExitRecord { .. } => "Error",
    };
    Exit {
        code: record.code,
        reason: reason.to_owned(),
        message: record.start_error.clone().unwrap_or_default(),
        started_at: record.started_at,
        finished_at: record.finished_at,
    }
}

/// Ends a container whose keeper has died. The exit that the keeper has recorded counts; without a record the exit is lost.
pub(crate) async fn end_lost_container(
    shared: &Arc<Shared>,
    sandbox: &Arc<Sandbox>,
    container: &Arc<Container>,
) {
    let LifeState::Running { started_at, .. } = container.life() else { return };
    let cgroup = ContainerCgroup::at(&shared.cgroups, &container.record.cgroup);
    let (folder, id) = (sandbox.record.folder.clone(), container.record.id.clone());
    let recorded = blocking(move || {
        if let Err(error) = cgroup.kill_all() {
            tracing::error!(
                container = id,
                error = describe(&error),
                "failed to kill a container whose keeper has died"
            );
        }
        read_exit(&folder, &id).map_err(|source| ServiceError::io("read an exit record", source))
    });
    let exit = match recorded.await {
        Ok(Some(record)) => exit_of_record(&record),
        Ok(None) | Err(_) => lost(started_at, shared.now()),
    };
    container_exited(shared, container, exit).await;
}

/// The exit of a container that ended unobserved.
pub(crate) fn lost(started_at: i64, now: i64) -> Exit {
    Exit {
        code: LOST,
        reason: "Unknown".to_owned(),
        message: "the exit code of the container was lost".to_owned(),
        started_at,
        finished_at: now,
    }
}

/// Whether the keeper does not know the container.
pub(crate) fn is_unknown(error: &KeeperClientError) -> bool {
    matches!(error, KeeperClientError::Refused { kind: FailureKind::NotFound, .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_follows_from_the_exit() {
        let record = ExitRecord {
            code: 0,
            signal: None,
            oom_killed: false,
            started_at: 1,
            finished_at: 2,
            start_error: None,
        };
        let reason = |record: &ExitRecord| exit_of_record(record).reason;
        assert_eq!(reason(&record), "Completed");
        assert_eq!(reason(&ExitRecord { code: 3, ..record.clone() }), "Error");
        assert_eq!(reason(&ExitRecord { oom_killed: true, ..record.clone() }), "OOMKilled");
        let failed = ExitRecord { code: 128, start_error: Some("no such file".into()), ..record };
        assert_eq!(
            (reason(&failed).as_str(), exit_of_record(&failed).message),
            ("StartError", "no such file".into())
        );
    }
}
