//! A page of metrics, as text.
//!
//! Comes in: families (name, help, series). Goes out: the Prometheus text format 0.0.4, or OpenMetrics 1.0 for who asks
//! for it. The names of the series are the same in both: a counter whose name does not end in `_total` is of type
//! `unknown` in OpenMetrics, as that format has no other way to say it. Families come out in the order of their names;
//! one without series is left out.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::series::Series;

/// How a page is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text, version 0.0.4.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

/// What the series of a family are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by size.
    Histogram,
}

/// A page under construction.
#[derive(Debug)]
pub struct Page {
    format: Format,
    families: BTreeMap<String, String>,
}

/// The series of one family, as they are written.
pub struct Block<'a> {
    name: &'a str,
    format: Format,
    text: String,
}

impl Page {
    /// An empty page.
    #[must_use]
    pub fn new(format: Format) -> Self {
        Self { format, families: BTreeMap::new() }
    }

    /// Adds a family.
    pub fn add(&mut self, name: &str, help: &str, series: &dyn Series) {
        self.family((name, help), series.kind(), |block| series.write(block));
    }

    /// Adds a gauge of which the value is known now.
    pub fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.gauges((name, help), [], [([], value)]);
    }

    /// Adds gauges of which the values are known now. `name` is the family's name and help.
    pub fn gauges<'v, const N: usize>(
        &mut self,
        name: (&str, &str),
        labels: [&str; N],
        rows: impl IntoIterator<Item = ([&'v str; N], f64)>,
    ) {
        self.values(name, Kind::Gauge, labels, rows);
    }

    /// Adds counters that somebody else keeps. `name` is the family's name and help.
    pub fn counters<'v, const N: usize>(
        &mut self,
        name: (&str, &str),
        labels: [&str; N],
        rows: impl IntoIterator<Item = ([&'v str; N], f64)>,
    ) {
        self.values(name, Kind::Counter, labels, rows);
    }

    /// The text.
    #[must_use]
    pub fn into_text(self) -> String {
        let mut text = self.families.into_values().collect::<String>();
        if self.format == Format::OpenMetrics {
            text.push_str("# EOF\n");
        }
        text
    }

    fn values<'v, const N: usize>(
        &mut self,
        name: (&str, &str),
        kind: Kind,
        labels: [&str; N],
        rows: impl IntoIterator<Item = ([&'v str; N], f64)>,
    ) {
        self.family(name, kind, |block| {
            for (values, value) in rows {
                let pairs = labels.into_iter().zip(values);
                block.sample("", &pairs.collect::<Vec<_>>(), value);
            }
        });
    }

    fn family(&mut self, (name, help): (&str, &str), kind: Kind, write: impl FnOnce(&mut Block<'_>)) {
        let mut block = Block { name, format: self.format, text: String::new() };
        write(&mut block);
        if block.text.is_empty() {
            return;
        }
        let (shown, word) = match (self.format, kind, name.strip_suffix("_total")) {
            (Format::OpenMetrics, Kind::Counter, Some(short)) => (short, "counter"),
            (Format::OpenMetrics, Kind::Counter, None) => (name, "unknown"),
            (Format::Text, Kind::Counter, _) => (name, "counter"),
            (_, Kind::Gauge, _) => (name, "gauge"),
            (_, Kind::Histogram, _) => (name, "histogram"),
        };
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let text = format!("# HELP {shown} {help}\n# TYPE {shown} {word}\n{}", block.text);
        self.families.insert(name.to_owned(), text);
    }
}

impl Block<'_> {
    /// Writes one line; `suffix` is what follows the family's name. Labels without a value are labels all the same.
    pub fn sample(&mut self, suffix: &str, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(self.name);
        self.text.push_str(suffix);
        for (index, (name, value)) in labels.iter().enumerate() {
            self.text.push(if index == 0 { '{' } else { ',' });
            self.text.push_str(name);
            self.text.push_str("=\"");
            for character in value.chars() {
                match character {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    other => self.text.push(other),
                }
            }
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, " {}", number(value));
    }

    /// A bound of a histogram, as its label shows it.
    pub(super) fn bound(&self, bound: f64) -> String {
        let text = number(bound);
        let whole = bound.is_finite() && !text.contains('.');
        if whole && self.format == Format::OpenMetrics { format!("{text}.0") } else { text }
    }
}

fn number(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned()
    } else {
        value.to_string()
    }
}

#[cfg(test)]
mod tests;
