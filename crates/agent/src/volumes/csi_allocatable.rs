//! Refreshes the attach limits of drivers, with the periods of their CSIDriver objects and after an exceeded limit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use timing::sleep_until;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::volumes::csi_drivers::CsiDrivers;
use crate::volumes::csi_registration::CsiPlugins;

/// Drivers by name, with period and time of the next refresh.
type Due = BTreeMap<String, (Duration, Instant)>;

/// Runs until cancelled.
pub async fn run(plugins: Arc<CsiPlugins>, drivers: Arc<CsiDrivers>, cancel: CancellationToken) {
    let mut changes = drivers.changes();
    let mut due = Due::new();
    loop {
        due = planned(&due, drivers.refresh_periods(), &drivers.take_refresh_requests(), Instant::now());
        let next = due.values().map(|(_, at)| *at).min();
        tokio::select! {
            () = cancel.cancelled() => return,
            changed = changes.changed() => if changed.is_err() {
                return cancel.cancelled().await;
            },
            () = sleep_until(next) => drop(cancel.run_until_cancelled(refresh_due(&plugins, &mut due)).await),
        }
    }
}

/// Drivers with an unchanged period keep their next time, except those that are `requested` now.
fn planned(
    old: &Due,
    periods: BTreeMap<String, Duration>,
    requested: &BTreeSet<String>,
    now: Instant,
) -> Due {
    let turn = |(name, period): (String, Duration)| {
        if requested.contains(&name) {
            return (name, (period, now));
        }
        let kept = old.get(&name).filter(|(known, _)| *known == period).copied();
        (name, kept.unwrap_or((period, now + period)))
    };
    periods.into_iter().map(turn).collect()
}

async fn refresh_due(plugins: &CsiPlugins, due: &mut Due) {
    let now = Instant::now();
    for (name, (period, at)) in due.iter_mut().filter(|(_, (_, at))| *at <= now) {
        if let Err(error) = plugins.refresh(name).await {
            tracing::warn!(driver = %name, %error, "failed to refresh the attach limit of a driver");
        }
        *at = Instant::now() + *period;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn driver_keeps_next_refresh_until_its_period_changes() {
        let start = Instant::now();
        let seconds = Duration::from_secs;
        let periods = |list: &[(&str, u64)]| -> BTreeMap<String, Duration> {
            list.iter().map(|(name, period)| ((*name).to_owned(), seconds(*period))).collect()
        };
        let planned = |old: &Due, list: &[(&str, u64)], requested: &[&str], now: Instant| {
            planned(old, periods(list), &requested.iter().map(|name| (*name).to_owned()).collect(), now)
        };
        let first = planned(&Due::new(), &[("a", 10), ("b", 20)], &[], start);
        assert_eq!(first["a"].1, start + seconds(10));
        let later = planned(&first, &[("a", 10), ("b", 30), ("c", 5)], &[], start + seconds(4));
        assert_eq!(later["a"].1, start + seconds(10));
        assert_eq!(later["b"].1, start + seconds(34));
        assert_eq!(later["c"].1, start + seconds(9));
        assert!(planned(&later, &[], &["a"], start).is_empty());
        let full = planned(&later, &[("a", 10), ("b", 30)], &["b"], start + seconds(5));
        assert_eq!((full["a"].1, full["b"].1), (start + seconds(10), start + seconds(5)));
    }
}
