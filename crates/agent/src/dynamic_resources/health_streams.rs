//! Follows the health of devices that DRA drivers report.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use ports::plugins::dra::HealthReports;
use timing::sleep_until;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::device_health::DeviceHealth;
use super::dra_drivers::Connected;

/// Between the end of a stream and the next attempt, same as upstream. Drivers that report no health are asked again as well.
const RETRY_DELAY: Duration = Duration::from_secs(5);

pub struct HealthStreamsDeps {
    pub health: Arc<DeviceHealth>,
    pub connected: mpsc::UnboundedReceiver<Connected>,
}

/// Runs until cancelled.
pub async fn run(deps: HealthStreamsDeps, cancel: CancellationToken) {
    let HealthStreamsDeps { health, mut connected } = deps;
    let mut streams = JoinSet::new();
    health.expire();
    loop {
        tokio::select! {
            () = cancel.cancelled() => break,
            Some(instance) = connected.recv() => {
                streams.spawn(follow(health.clone(), instance, cancel.clone()));
            }
            Some(_) = streams.join_next() => {}
            () = sleep_until(health.next_expiry()) => health.expire(),
            () = health.changed() => {
                if let Err(error) = health.flush().await {
                    tracing::warn!(%error, source = %error.source, "failed to save the health of claimed devices, a restart forgets it");
                }
            }
        }
    }
    while streams.join_next().await.is_some() {}
}

/// The reason for the end of a stream.
enum Stop {
    /// Its last reports stay.
    Agent,
    Driver,
}

async fn follow(health: Arc<DeviceHealth>, instance: Connected, cancel: CancellationToken) {
    let Connected { driver, connection, gone } = instance;
    let stopped = async {
        tokio::select! {
            () = cancel.cancelled() => Stop::Agent,
            () = connection.closed() => Stop::Driver,
            () = gone.cancelled() => Stop::Driver,
        }
    };
    tokio::pin!(stopped);
    loop {
        let reports = tokio::select! {
            _ = &mut stopped => return,
            reports = connection.watch_health() => reports,
        };
        match reports {
            Ok(reports) => {
                health.stream_opened(&driver);
                let stop = tokio::select! {
                    stop = &mut stopped => Some(stop),
                    () = record_all(&health, &driver, reports) => None,
                };
                match stop {
                    Some(Stop::Agent) => return,
                    Some(Stop::Driver) => return health.stream_ended(&driver),
                    None => health.stream_ended(&driver),
                }
            }
            Err(error) => tracing::debug!(%driver, %error, "DRA driver reports no health of its devices"),
        }
        tokio::select! {
            _ = &mut stopped => return,
            () = tokio::time::sleep(RETRY_DELAY) => {}
        }
    }
}

async fn record_all(health: &DeviceHealth, driver: &str, mut reports: HealthReports) {
    loop {
        match reports.next().await {
            Some(Ok(devices)) => health.record(driver, devices),
            Some(Err(error)) => {
                tracing::warn!(%driver, %error, "stream of device health failed, the devices of the driver are unknown");
                return;
            }
            None => {
                tracing::info!(%driver, "DRA driver ended its stream of device health");
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
