//! Counters, gauges and histograms, and families of them by label values.
//!
//! An update is an atomic operation; in a family it also takes a lock for the lookup.

use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use model::metric_family::MetricKind;
use model::metrics_text::FamilySamples;

/// The default bounds of Prometheus, in seconds.
pub(super) const DEFAULT_BUCKETS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// A metric that can be written to a page.
pub trait Series {
    fn kind(&self) -> MetricKind;
    fn write(&self, samples: &mut FamilySamples<'_>) {
        self.write_labelled(samples, &[]);
    }
    fn write_labelled(&self, samples: &mut FamilySamples<'_>, labels: &[(&str, &str)]);
}

#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn inc(&self) {
        self.add(1);
    }

    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }
}

impl Series for Counter {
    fn kind(&self) -> MetricKind {
        MetricKind::Counter
    }

    fn write_labelled(&self, samples: &mut FamilySamples<'_>, labels: &[(&str, &str)]) {
        samples.add("", labels.iter().copied(), self.0.load(Ordering::Relaxed) as f64);
    }
}

#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    pub fn set_count(&self, count: usize) {
        self.set(to_gauge(count));
    }

    pub fn add(&self, value: f64) {
        add(&self.0, value);
    }

    #[must_use]
    pub fn value(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

impl Series for Gauge {
    fn kind(&self) -> MetricKind {
        MetricKind::Gauge
    }

    fn write_labelled(&self, samples: &mut FamilySamples<'_>, labels: &[(&str, &str)]) {
        samples.add("", labels.iter().copied(), self.value());
    }
}

#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One more than there are bounds, for larger values.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    /// Upper bounds in ascending order.
    #[must_use]
    pub fn new(bounds: &'static [f64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum: AtomicU64::new(0) }
    }

    pub fn observe(&self, value: f64) {
        let at = self.bounds.iter().position(|bound| value <= *bound).unwrap_or(self.bounds.len());
        if let Some(count) = self.counts.get(at) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        add(&self.sum, value);
    }
}

impl Series for Histogram {
    fn kind(&self) -> MetricKind {
        MetricKind::Histogram
    }

    fn write_labelled(&self, samples: &mut FamilySamples<'_>, labels: &[(&str, &str)]) {
        let mut below = 0;
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        for (count, bound) in self.counts.iter().zip(bounds) {
            below += count.load(Ordering::Relaxed);
            let bound = samples.bucket_bound(bound);
            let mut labels = labels.to_vec();
            labels.push(("le", &bound));
            samples.add("_bucket", labels, below as f64);
        }
        samples.add("_sum", labels.iter().copied(), f64::from_bits(self.sum.load(Ordering::Relaxed)));
        samples.add("_count", labels.iter().copied(), below as f64);
    }
}

/// Series of one kind, by the values of `N` labels.
#[derive(Debug)]
pub struct Family<S, const N: usize> {
    names: [&'static str; N],
    make: fn(&'static [f64]) -> S,
    bounds: &'static [f64],
    rows: RwLock<BTreeMap<[Box<str>; N], Arc<S>>>,
}

impl<S: Default, const N: usize> Family<S, N> {
    #[must_use]
    pub fn new(names: [&'static str; N]) -> Self {
        Self { names, make: |_| S::default(), bounds: &[], rows: RwLock::default() }
    }
}

impl<const N: usize> Family<Histogram, N> {
    #[must_use]
    pub fn histograms(names: [&'static str; N], bounds: &'static [f64]) -> Self {
        Self { names, make: Histogram::new, bounds, rows: RwLock::default() }
    }
}

impl<const N: usize> Family<Counter, N> {
    pub fn inc(&self, values: [&str; N]) {
        self.get(values).inc();
    }
}

impl<const N: usize> Family<Histogram, N> {
    /// Observes a duration in seconds.
    pub fn observe(&self, values: [&str; N], took: Duration) {
        self.get(values).observe(took.as_secs_f64());
    }
}

impl<S, const N: usize> Family<S, N> {
    /// The series with these label values; creates it if necessary.
    pub fn get(&self, values: [&str; N]) -> Arc<S> {
        let key = values.map(Box::from);
        if let Some(series) = self.rows.read().get(&key) {
            return Arc::clone(series);
        }
        let mut rows = self.rows.write();
        Arc::clone(rows.entry(key).or_insert_with(|| Arc::new((self.make)(self.bounds))))
    }

    pub fn remove(&self, values: [&str; N]) {
        self.rows.write().remove(&values.map(Box::from));
    }

    fn rows(&self) -> Vec<([Box<str>; N], Arc<S>)> {
        let rows = self.rows.read();
        rows.iter().map(|(key, series)| (key.clone(), Arc::clone(series))).collect()
    }
}

impl<S: Series, const N: usize> Series for Family<S, N> {
    fn kind(&self) -> MetricKind {
        (self.make)(self.bounds).kind()
    }

    fn write_labelled(&self, samples: &mut FamilySamples<'_>, labels: &[(&str, &str)]) {
        for (values, series) in self.rows() {
            let own = self.names.iter().copied().zip(values.iter().map(|value| &**value));
            let all: Vec<(&str, &str)> = labels.iter().copied().chain(own).collect();
            series.write_labelled(samples, &all);
        }
    }
}

/// Bounds that start at `start` and grow by `factor`.
#[must_use]
pub(super) const fn exponential<const N: usize>(start: f64, factor: f64) -> [f64; N] {
    let mut bounds = [start; N];
    let mut at = 1;
    while at < N {
        bounds[at] = bounds[at - 1] * factor;
        at += 1;
    }
    bounds
}

fn add(number: &AtomicU64, value: f64) {
    let sum = |bits| Some((f64::from_bits(bits) + value).to_bits());
    // The closure never returns `None`.
    let _ = number.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
}

#[must_use]
pub fn to_gauge(count: usize) -> f64 {
    count as f64
}
