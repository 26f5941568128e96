//! Talks to systemd when it started us: readiness, watchdog, stopping.

use std::time::Duration;

use node_api::Views;
use sd_notify::NotifyState;
use tokio_util::sync::CancellationToken;

/// Says that the agent is up.
pub fn ready() {
    tell(NotifyState::Ready);
}

/// Says that the agent stops.
pub fn stopping() {
    tell(NotifyState::Stopping);
}

/// Pets the watchdog twice per period while the sync loop is alive.
pub async fn watchdog(views: Views, cancel: CancellationToken) {
    let Some(period) = sd_notify::watchdog_enabled() else { return };
    let mut ticks = tokio::time::interval((period / 2).max(Duration::from_millis(1)));
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            _ = ticks.tick() => match views.loop_problem() {
                None => tell(NotifyState::Watchdog),
                Some(problem) => tracing::error!(%problem, "not petting the watchdog"),
            },
        }
    }
}

fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}
