//! Follows the registered device plugins, reports their devices for the node status, and saves the owners of devices.

use std::time::Duration;

use timing::{Backoff, BackoffPolicy, Debounce, random, sleep_until};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::pipeline::plugin_devices::{DeviceCounts, PluginDevices};

/// Changes that nothing waits for are saved when none followed for this long.
const SAVE_DELAY: Duration = Duration::from_secs(1);
const MAX_SAVE_DELAY: Duration = Duration::from_secs(10);
const SAVE_BACKOFF: BackoffPolicy =
    BackoffPolicy::doubling(Duration::from_secs(1), Duration::from_secs(60)).with_jitter(0.2);

pub struct DevicePluginsDeps {
    pub devices: PluginDevices,
    /// For the node status.
    pub reports: watch::Sender<DeviceCounts>,
}

/// Runs until cancelled.
pub async fn run(deps: DevicePluginsDeps, cancel: CancellationToken) {
    let DevicePluginsDeps { devices, reports } = deps;
    let (Some(mut registered), Some(mut counts)) = (devices.registrations(), devices.watch_counts()) else {
        return cancel.cancelled().await;
    };
    let mut followed = JoinSet::new();
    let mut debounce = Debounce::new(SAVE_DELAY, MAX_SAVE_DELAY);
    let mut backoff = Backoff::new(SAVE_BACKOFF);
    let mut retry_at = None;
    reports.send_replace(counts.borrow_and_update().clone());
    loop {
        let next_drop = devices.next_drop();
        tokio::select! {
            biased;
            () = cancel.cancelled() => break,
            Some(plugin) = registered.recv() => {
                followed.spawn(devices.clone().follow(plugin));
                continue;
            }
            Some(_) = followed.join_next() => continue,
            () = sleep_until(next_drop) => {
                devices.drop_stopped();
                continue;
            }
            Ok(()) = counts.changed() => {
                reports.send_replace(counts.borrow_and_update().clone());
                continue;
            }
            () = debounce.ended() => {}
            () = sleep_until(retry_at) => {}
            () = devices.changed() => {
                debounce.event();
                continue;
            }
        }
        retry_at = match devices.flush().await {
            Ok(()) => {
                backoff.reset();
                None
            }
            Err(error) => {
                tracing::warn!(%error, source = %error.source, "failed to save the owners of devices, retrying");
                Some(Instant::now() + backoff.next(random()))
            }
        };
    }
    followed.shutdown().await;
    if let Err(error) = devices.flush().await {
        tracing::warn!(%error, source = %error.source, "failed to save the owners of devices at exit");
    }
}
