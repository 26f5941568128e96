//! Notifies systemd about readiness and stopping, and pets its watchdog.

use std::time::Duration;

use node_api::PublishedState;
use sd_notify::NotifyState;
use tokio_util::sync::CancellationToken;

pub fn ready() {
    notify(NotifyState::Ready);
}

pub fn stopping() {
    notify(NotifyState::Stopping);
}

/// Pets the watchdog twice per period while the sync loop is healthy.
pub async fn watchdog(published: PublishedState, cancel: CancellationToken) {
    let Some(period) = sd_notify::watchdog_enabled() else { return };
    let mut ticks = tokio::time::interval((period / 2).max(Duration::from_millis(1)));
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            _ = ticks.tick() => match published.sync_loop_problem() {
                None => notify(NotifyState::Watchdog),
                Some(problem) => tracing::error!(%problem, "sync loop is stuck, not petting the watchdog"),
            },
        }
    }
}

fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "failed to notify the service manager");
    }
}
