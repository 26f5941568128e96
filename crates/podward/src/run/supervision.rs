//! The agent while it runs.

use std::time::Duration;

use anyhow::bail;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::stop::Stop;
use crate::service_manager;
use crate::wire::Running;

/// When the start is surely over.
const START_TIME: Duration = Duration::from_secs(5);
/// Time between two looks for free memory.
const MEMORY_PERIOD: Duration = Duration::from_secs(15);
/// How long stages may take to stop.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// Waits for a signal to stop, or for a stage that ended though it should not.
pub(super) async fn supervise(mut running: Running, stop: &mut Stop) -> anyhow::Result<()> {
    let broken = loop {
        tokio::select! {
            name = stop.next() => {
                tracing::info!(signal = name, "stopping; the pods go on running");
                break None;
            }
            ended = running.stages.join_next() => match ended {
                // Without a service manager there is no watchdog to run.
                Some(Ok("watchdog")) => {}
                Some(Ok(stage)) => break Some(format!("stage {stage} ended")),
                Some(Err(error)) => break Some(format!("a stage broke off: {error}")),
                None => break Some("no stage is left".to_owned()),
            },
        }
    };
    service_manager::stopping();
    running.cancel.cancel();
    drain(&mut running.stages).await;
    match broken {
        None => Ok(()),
        Some(reason) => bail!("{reason}; the pods go on running, start the agent again"),
    }
}

async fn drain(stages: &mut JoinSet<&'static str>) {
    let all = async { while stages.join_next().await.is_some() {} };
    if tokio::time::timeout(STOP_GRACE, all).await.is_err() {
        tracing::warn!("some stages did not stop in {STOP_GRACE:?}");
    }
}

/// Hands pages that a burst of work left free back to the machine, now and then.
pub(super) async fn give_memory_back(cancel: CancellationToken) {
    tokio::select! {
        () = cancel.cancelled() => return,
        () = tokio::time::sleep(START_TIME) => host::drop_start_code(),
    }
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(MEMORY_PERIOD) => host::give_memory_back(),
        }
    }
}
