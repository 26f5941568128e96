//! Ends running containers.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::Container;
use super::life::is_unknown;
use crate::errors::ServiceError;
use crate::keeper::client::KeeperClientError;
use crate::launcher::signals::signal_number;
use crate::records::LifeState;
use crate::shared::Shared;

const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;
/// How long a killed process may take: the kernel may wait for a device.
const KILL_TIMEOUT: Duration = Duration::from_secs(120);

/// Asks a container to end, and kills it after the grace period. Does nothing unless it runs.
///
/// If the future is dropped during the grace period, the container is not killed.
pub(crate) async fn stop_container(
    shared: &Arc<Shared>,
    container: &Arc<Container>,
    grace: Duration,
) -> Result<(), ServiceError> {
    if !grace.is_zero() && is_running(container) {
        if container.claim_stop_signal() {
            let signal = signal_number(&container.record.stop_signal).unwrap_or(SIGTERM);
            send(shared, container, signal).await?;
        }
        if timeout(grace, ended(container)).await.is_ok() {
            return Ok(());
        }
    }
    kill_container(shared, container).await
}

/// Kills a container and waits until it has ended. Does nothing unless it runs.
pub(crate) async fn kill_container(
    shared: &Arc<Shared>,
    container: &Arc<Container>,
) -> Result<(), ServiceError> {
    if !is_running(container) {
        return Ok(());
    }
    send(shared, container, SIGKILL).await?;
    let id = &container.record.id;
    let late = |_| ServiceError::Timeout(format!("container {id} does not end after SIGKILL"));
    timeout(KILL_TIMEOUT, ended(container)).await.map_err(late)
}

async fn send(shared: &Shared, container: &Container, signal: i32) -> Result<(), ServiceError> {
    let keeper = shared.sandbox(&container.record.sandbox)?.keeper();
    // Without a keeper the container is being ended.
    let Some(keeper) = keeper else { return Ok(()) };
    match keeper.signal(&container.record.id, signal).await {
        Err(KeeperClientError::Gone) => Ok(()),
        Err(error) if is_unknown(&error) => Ok(()),
        result => Ok(result?),
    }
}

fn is_running(container: &Container) -> bool {
    matches!(container.life(), LifeState::Running { .. })
}

async fn ended(container: &Container) {
    let mut life = container.watch();
    // The sender lives as long as the container.
    let _ = life.wait_for(|life| !matches!(life, LifeState::Running { .. })).await;
}
