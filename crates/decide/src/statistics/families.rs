//! Helpers to build metric families.

use model::Timestamp;
use model::metric_family::{MetricFamily, MetricKind, MetricSeries};

/// Labels of a series.
pub(super) type Labels = Vec<(&'static str, String)>;

pub(super) fn counter(
    name: &'static str,
    help: &'static str,
    series: impl IntoIterator<Item = MetricSeries>,
) -> MetricFamily {
    MetricFamily { name, help, kind: MetricKind::Counter, series: series.into_iter().collect() }
}

pub(super) fn gauge(
    name: &'static str,
    help: &'static str,
    series: impl IntoIterator<Item = MetricSeries>,
) -> MetricFamily {
    MetricFamily { name, help, kind: MetricKind::Gauge, series: series.into_iter().collect() }
}

/// A series with a timestamp.
pub(super) fn timed(labels: Labels, value: f64, time: Timestamp) -> MetricSeries {
    MetricSeries { labels, value, time: Some(time) }
}

/// A series without a timestamp.
pub(super) fn plain(labels: Labels, value: f64) -> MetricSeries {
    MetricSeries { labels, value, time: None }
}

/// A count as a float; values above 2^53 are rounded.
#[expect(clippy::cast_precision_loss, reason = "metrics are floating point numbers")]
pub(super) fn count(value: u64) -> f64 {
    value as f64
}

/// Nanoseconds as seconds.
pub(super) fn seconds(nanoseconds: u64) -> f64 {
    count(nanoseconds) / 1e9
}

/// A time in seconds since the epoch.
#[expect(clippy::cast_precision_loss, reason = "metrics are floating point numbers")]
pub(super) fn since_epoch(time: Timestamp) -> f64 {
    time.as_nanos() as f64 / 1e9
}

/// Sorts families by name and series by labels, and drops families without series.
pub(super) fn in_order(families: Vec<MetricFamily>) -> Vec<MetricFamily> {
    let mut families: Vec<MetricFamily> =
        families.into_iter().filter(|family| !family.series.is_empty()).collect();
    families.sort_by_key(|family| family.name);
    for family in &mut families {
        family.series.sort_by(|a, b| a.labels.cmp(&b.labels));
    }
    families
}
