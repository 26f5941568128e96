//! Supervision of the running stages.

use std::time::Duration;

use anyhow::bail;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::stop::Stop;
use crate::service_manager;
use crate::wire::Running;

/// Time after which the code and data of the start are no longer needed.
const START_DURATION: Duration = Duration::from_secs(5);
/// Time between two returns of free memory to the kernel.
const MEMORY_TRIM_PERIOD: Duration = Duration::from_secs(15);
/// How long stages may take to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Waits for a stop signal, or for a stage that ends unexpectedly.
pub(super) async fn supervise(mut running: Running, stop: &mut Stop) -> anyhow::Result<()> {
    let failure = tokio::select! {
        name = stop.next() => {
            tracing::info!(signal = name, "stopping, pods keep running");
            None
        }
        reason = unexpected_end(&mut running.stages) => Some(reason),
    };
    service_manager::stopping();
    running.cancel.cancel();
    drain(&mut running.stages).await;
    match failure {
        None => Ok(()),
        Some(reason) => bail!("{reason}; pods keep running, restart the agent"),
    }
}

/// Waits until a stage ends unexpectedly; returns a message for the user.
pub(crate) async fn unexpected_end(stages: &mut JoinSet<&'static str>) -> String {
    loop {
        match stages.join_next().await {
            // Without a service manager there is no watchdog to run.
            Some(Ok("watchdog")) => {}
            Some(Ok(stage)) => return format!("stage {stage} ended"),
            Some(Err(error)) => return format!("a stage panicked: {error}"),
            None => return "all stages ended".to_owned(),
        }
    }
}

/// Waits until stages have stopped.
pub(crate) async fn drain(stages: &mut JoinSet<&'static str>) {
    let all = async { while stages.join_next().await.is_some() {} };
    if tokio::time::timeout(STOP_TIMEOUT, all).await.is_err() {
        tracing::warn!("some stages did not stop within {STOP_TIMEOUT:?}");
    }
}

/// Returns free memory to the kernel from time to time.
pub(super) async fn give_memory_back(cancel: CancellationToken) {
    tokio::select! {
        () = cancel.cancelled() => return,
        () = tokio::time::sleep(START_DURATION) => host::release_startup_pages(),
    }
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(MEMORY_TRIM_PERIOD) => host::release_free_memory(),
        }
    }
}
