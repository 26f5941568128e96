//! The process of a keeper, and the task that takes its reports.
//!
//! When the connection breaks, the task connects again. If that fails, the keeper is dead: its containers are ended, and their exits are
//! reported as lost unless the keeper has recorded them.

use std::fs;
use std::process::Child;
use std::sync::Arc;

use cri::v1::ContainerEventType;
use tokio::sync::mpsc::UnboundedReceiver;

use super::Sandbox;
use crate::cgroups::ContainerCgroup;
use crate::containers::{Container, container_exited, end_lost_container, exit_of_record};
use crate::errors::ServiceError;
use crate::events;
use crate::keeper::client::{ContainerExit, KeeperClient, KeeperClientError};
use crate::keeper::protocol::Stage;
use crate::shared::{Shared, blocking};

/// The kernel ends keepers last: their pods cannot be restarted without them.
const OOM_SCORE: i32 = -998;

/// A keeper that this process has started and must wait for. Dropping it ends the keeper.
pub(crate) struct KeeperProcess(Option<Child>);

impl KeeperProcess {
    pub(super) fn new(child: Child) -> Self {
        Self(Some(child))
    }

    pub(super) fn enter(&self, cgroup: &ContainerCgroup) -> Result<(), ServiceError> {
        let Some(child) = &self.0 else { return Ok(()) };
        cgroup.add_process(child.id())?;
        // Without privileges the score stays as it is.
        let _ = fs::write(format!("/proc/{}/oom_score_adj", child.id()), OOM_SCORE.to_string());
        Ok(())
    }

    /// Waits for the process, which has ended or is killed.
    fn reap(mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Leaves the process alone when this process ends.
    fn leave(mut self) {
        drop(self.0.take());
    }
}

impl Drop for KeeperProcess {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Connects to the keeper of a sandbox and takes its reports from now on.
pub(crate) async fn attach_keeper(
    shared: &Arc<Shared>,
    sandbox: &Arc<Sandbox>,
    process: Option<KeeperProcess>,
) -> Result<(), ServiceError> {
    let (client, exits) = KeeperClient::connect(&sandbox.record.folder).await?;
    sandbox.set_keeper(Some(Arc::new(client)));
    let task = watch(shared.clone(), sandbox.clone(), exits, LeftAlone(process));
    shared.spawn(task);
    Ok(())
}

/// A keeper continues after this process has ended, so a dropped task leaves it running.
struct LeftAlone(Option<KeeperProcess>);

impl Drop for LeftAlone {
    fn drop(&mut self) {
        if let Some(process) = self.0.take() {
            process.leave();
        }
    }
}

async fn watch(
    shared: Arc<Shared>,
    sandbox: Arc<Sandbox>,
    mut exits: UnboundedReceiver<ContainerExit>,
    mut process: LeftAlone,
) {
    loop {
        while let Some(ContainerExit { container, exit }) = exits.recv().await {
            take_exit(&shared, &sandbox, &container, exit_of_record(&exit)).await;
        }
        if sandbox.is_stopping() {
            break;
        }
        match KeeperClient::connect(&sandbox.record.folder).await {
            Ok((client, again)) => {
                tracing::warn!(
                    sandbox = sandbox.record.id,
                    "the connection to a keeper broke, connected again"
                );
                let client = Arc::new(client);
                exits = again;
                sandbox.set_keeper(Some(client.clone()));
                // Reports may have been lost with the connection.
                if let Err(error) = take_exits_of_list(&shared, &sandbox, &client).await {
                    tracing::warn!(sandbox = sandbox.record.id, %error, "failed to list the containers of a keeper");
                }
            }
            Err(_) => break,
        }
    }
    sandbox.set_keeper(None);
    if let Some(process) = process.0.take() {
        let reaped = blocking(move || {
            process.reap();
            Ok(())
        });
        // Fails only when the program ends.
        let _ = reaped.await;
    }
    if !sandbox.is_stopping() {
        tracing::error!(
            sandbox = sandbox.record.id,
            "the keeper of a pod has died, ending the pod's containers"
        );
        keeper_lost(&shared, &sandbox).await;
    }
}

async fn take_exits_of_list(
    shared: &Arc<Shared>,
    sandbox: &Arc<Sandbox>,
    client: &KeeperClient,
) -> Result<(), KeeperClientError> {
    for state in client.list().await? {
        match state.stage {
            Stage::Exited(exit) => take_exit(shared, sandbox, &state.container, exit_of_record(&exit)).await,
            Stage::Created | Stage::Running { .. } => {}
        }
    }
    Ok(())
}

async fn take_exit(
    shared: &Arc<Shared>,
    sandbox: &Arc<Sandbox>,
    container: &str,
    exit: crate::records::Exit,
) {
    if container == sandbox.record.id {
        // The first process of the shared PID namespace: the kernel has ended all containers with it.
        sandbox.set_not_ready();
        events::publish(shared, sandbox, container, ContainerEventType::ContainerStoppedEvent);
        return;
    }
    if let Ok(container) = shared.container(container) {
        container_exited(shared, &container, exit).await;
    }
}

/// Ends all containers of a sandbox without a keeper.
pub(crate) async fn keeper_lost(shared: &Arc<Shared>, sandbox: &Arc<Sandbox>) {
    sandbox.set_not_ready();
    events::publish(shared, sandbox, &sandbox.record.id, ContainerEventType::ContainerStoppedEvent);
    let containers: Vec<Arc<Container>> = shared.containers_of(&sandbox.record.id);
    for container in containers {
        end_lost_container(shared, sandbox, &container).await;
    }
}
