//! Metrics as they are shown, whatever the text format.

use crate::Timestamp;

/// Series of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricFamily {
    /// Name, with `_total` for counters.
    pub name: &'static str,
    /// What it tells.
    pub help: &'static str,
    /// How it moves.
    pub kind: MetricKind,
    /// Its series.
    pub series: Vec<MetricSeries>,
}

/// How a metric moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only up.
    Counter,
    /// Up and down.
    Gauge,
}

/// One series with its present value.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSeries {
    /// Labels, ordered by name.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: f64,
    /// When it was measured, where that is told.
    pub time: Option<Timestamp>,
}
