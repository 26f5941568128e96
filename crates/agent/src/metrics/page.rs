//! A page of metrics, written by [`model::metrics_text`].
//!
//! Families are sorted by name; a family without series is left out.

use std::collections::BTreeMap;

use model::metric_family::MetricKind;
pub use model::metrics_text::Format;
use model::metrics_text::{Dialect, FamilyHeader, FamilySamples, OPEN_METRICS_END, write_family};

use super::series::Series;

#[derive(Debug)]
pub struct Page {
    format: Format,
    families: BTreeMap<String, String>,
}

impl Page {
    #[must_use]
    pub fn new(format: Format) -> Self {
        Self { format, families: BTreeMap::new() }
    }

    pub fn add(&mut self, name: &str, help: &str, series: &dyn Series) {
        self.family((name, help), series.kind(), |samples| series.write(samples));
    }

    /// Adds a gauge.
    pub fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.gauges((name, help), [], [([], value)]);
    }

    /// Adds gauges. `name` is the name and help of the family.
    pub fn gauges<'v, const N: usize>(
        &mut self,
        name: (&str, &str),
        labels: [&str; N],
        rows: impl IntoIterator<Item = ([&'v str; N], f64)>,
    ) {
        self.family(name, MetricKind::Gauge, |samples| {
            for (values, value) in rows {
                samples.add("", labels.into_iter().zip(values), value);
            }
        });
    }

    /// Adds a counter.
    pub fn counter(&mut self, name: &str, help: &str, value: f64) {
        self.family((name, help), MetricKind::Counter, |samples| samples.add("", [], value));
    }

    #[must_use]
    pub fn into_text(self) -> String {
        let mut text = self.families.into_values().collect::<String>();
        if self.format == Format::OpenMetrics {
            text.push_str(OPEN_METRICS_END);
        }
        text
    }

    fn family(
        &mut self,
        (name, help): (&str, &str),
        kind: MetricKind,
        write: impl FnOnce(&mut FamilySamples<'_>),
    ) {
        let mut text = String::new();
        write_family(&mut text, (self.format, Dialect::Plain), FamilyHeader { name, help, kind }, write);
        if !text.is_empty() {
            self.families.insert(name.to_owned(), text);
        }
    }
}

#[cfg(test)]
mod tests;
