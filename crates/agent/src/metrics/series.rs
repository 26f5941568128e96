//! What is counted: counters, gauges, histograms, and families of them by label values.
//!
//! Updating one is an atomic operation; one of a family takes a lock for the time of a look-up.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::page::{Block, Kind};

/// The bounds that Prometheus has by default, in seconds.
pub const DEFAULT_BUCKETS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Something that can be written onto a page.
pub trait Series {
    /// What it is.
    fn kind(&self) -> Kind;
    /// Writes its lines.
    fn write(&self, block: &mut Block<'_>) {
        self.write_labelled(block, &[]);
    }
    /// Writes its lines with these labels.
    fn write_labelled(&self, block: &mut Block<'_>, labels: &[(&str, &str)]);
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts one.
    pub fn inc(&self) {
        self.add(1);
    }

    /// Counts some.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }
}

impl Series for Counter {
    fn kind(&self) -> Kind {
        Kind::Counter
    }

    fn write_labelled(&self, block: &mut Block<'_>, labels: &[(&str, &str)]) {
        block.sample("", labels, self.0.load(Ordering::Relaxed) as f64);
    }
}

/// A number that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Sets it.
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    /// Sets it to a count.
    pub fn set_count(&self, count: usize) {
        self.set(to_gauge(count));
    }

    /// Adds to it.
    pub fn add(&self, value: f64) {
        add(&self.0, value);
    }

    /// What it is.
    #[must_use]
    pub fn value(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

impl Series for Gauge {
    fn kind(&self) -> Kind {
        Kind::Gauge
    }

    fn write_labelled(&self, block: &mut Block<'_>, labels: &[(&str, &str)]) {
        block.sample("", labels, self.value());
    }
}

/// Counts by size.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One more than there are bounds: the last takes what is above all of them.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    /// A histogram with these upper bounds, in rising order.
    #[must_use]
    pub fn new(bounds: &'static [f64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum: AtomicU64::new(0) }
    }

    /// Counts a value.
    pub fn observe(&self, value: f64) {
        let at = self.bounds.iter().position(|bound| value <= *bound).unwrap_or(self.bounds.len());
        if let Some(count) = self.counts.get(at) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        add(&self.sum, value);
    }
}

impl Series for Histogram {
    fn kind(&self) -> Kind {
        Kind::Histogram
    }

    fn write_labelled(&self, block: &mut Block<'_>, labels: &[(&str, &str)]) {
        let mut below = 0;
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        for (count, bound) in self.counts.iter().zip(bounds) {
            below += count.load(Ordering::Relaxed);
            let bound = block.bound(bound);
            let mut labels = labels.to_vec();
            labels.push(("le", &bound));
            block.sample("_bucket", &labels, below as f64);
        }
        block.sample("_sum", labels, f64::from_bits(self.sum.load(Ordering::Relaxed)));
        block.sample("_count", labels, below as f64);
    }
}

/// Series of one kind, told apart by the values of `N` labels.
#[derive(Debug)]
pub struct Family<S, const N: usize> {
    names: [&'static str; N],
    make: fn(&'static [f64]) -> S,
    bounds: &'static [f64],
    rows: RwLock<BTreeMap<[Box<str>; N], Arc<S>>>,
}

impl<S: Default, const N: usize> Family<S, N> {
    /// A family with these labels.
    #[must_use]
    pub fn new(names: [&'static str; N]) -> Self {
        Self { names, make: |_| S::default(), bounds: &[], rows: RwLock::default() }
    }
}

impl<const N: usize> Family<Histogram, N> {
    /// A family of histograms with these labels and bounds.
    #[must_use]
    pub fn histograms(names: [&'static str; N], bounds: &'static [f64]) -> Self {
        Self { names, make: Histogram::new, bounds, rows: RwLock::default() }
    }
}

impl<S, const N: usize> Family<S, N> {
    /// The series with these label values; a new one if there is none.
    pub fn get(&self, values: [&str; N]) -> Arc<S> {
        let key = values.map(Box::from);
        if let Some(series) = self.rows.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Arc::clone(series);
        }
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(rows.entry(key).or_insert_with(|| Arc::new((self.make)(self.bounds))))
    }

    /// Drops a series.
    pub fn remove(&self, values: [&str; N]) {
        self.rows.write().unwrap_or_else(PoisonError::into_inner).remove(&values.map(Box::from));
    }

    fn rows(&self) -> Vec<([Box<str>; N], Arc<S>)> {
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        rows.iter().map(|(key, series)| (key.clone(), Arc::clone(series))).collect()
    }
}

impl<S: Series, const N: usize> Series for Family<S, N> {
    fn kind(&self) -> Kind {
        (self.make)(self.bounds).kind()
    }

    fn write_labelled(&self, block: &mut Block<'_>, labels: &[(&str, &str)]) {
        for (values, series) in self.rows() {
            let own = self.names.iter().copied().zip(values.iter().map(|value| &**value));
            let all: Vec<(&str, &str)> = labels.iter().copied().chain(own).collect();
            series.write_labelled(block, &all);
        }
    }
}

/// Bounds that start at `start` and grow by `factor`.
#[must_use]
pub const fn exponential<const N: usize>(start: f64, factor: f64) -> [f64; N] {
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
    // The closure always has an answer.
    let _ = number.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
}

/// A count as the value of a gauge.
#[must_use]
pub fn to_gauge(count: usize) -> f64 {
    count as f64
}
