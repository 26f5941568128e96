//! Metrics as they are shown, whatever the text format.

use crate::Timestamp;

/// Series of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricFamily {
    /// Name, with `_total` for counters.
    pub name: &'static str,
    pub help: &'static str,
    pub kind: MetricKind,
    pub series: Vec<MetricSeries>,
}

/// How a metric moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only up.
    Counter,
    /// Up and down.
    Gauge,
    /// Counts by size.
    Histogram,
}

/// One series with its present value.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSeries {
    pub labels: Vec<(&'static str, String)>,
    pub value: f64,
    /// Time of the measurement, if it is exported.
    pub time: Option<Timestamp>,
}
