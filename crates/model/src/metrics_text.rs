//! Metric families as text: the Prometheus text format 0.0.4, or OpenMetrics 1.0.

use std::fmt::Write as _;

use crate::Timestamp;
use crate::metric_family::MetricKind;

/// The line that ends an OpenMetrics page. The Prometheus format has no end mark.
pub const OPEN_METRICS_END: &str = "# EOF\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text, version 0.0.4.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

/// How numbers are printed, and how OpenMetrics shows a counter whose name does not end in `_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Numbers without exponent. Such a counter has the type `unknown`, so that series names are the same in both
    /// formats.
    Plain,
    /// As client_golang, which upstream's exporters use: numbers as Go's `%g` prints them, and `_total` is appended to
    /// the names of the series.
    ClientGolang,
}

#[derive(Clone, Copy, Debug)]
pub struct FamilyHeader<'a> {
    pub name: &'a str,
    pub help: &'a str,
    pub kind: MetricKind,
}

/// Appends a family to a page. A family for which `write` adds no sample is left out.
pub fn write_family(
    page: &mut String,
    (format, dialect): (Format, Dialect),
    family: FamilyHeader<'_>,
    write: impl FnOnce(&mut FamilySamples<'_>),
) {
    let FamilyHeader { name, help, kind } = family;
    let begin = page.len();
    let without_total = name.strip_suffix("_total");
    let (shown_name, shown_kind) = match (format, kind, without_total, dialect) {
        (Format::OpenMetrics, MetricKind::Counter, Some(short), _) => (short, "counter"),
        (Format::OpenMetrics, MetricKind::Counter, None, Dialect::Plain) => (name, "unknown"),
        (_, MetricKind::Counter, _, _) => (name, "counter"),
        (_, MetricKind::Gauge, _, _) => (name, "gauge"),
        (_, MetricKind::Histogram, _, _) => (name, "histogram"),
    };
    let help = help.replace('\\', "\\\\").replace('\n', "\\n");
    // Writing to a String cannot fail.
    let _ = writeln!(page, "# HELP {shown_name} {help}\n# TYPE {shown_name} {shown_kind}");
    let header_end = page.len();
    let appends_total = format == Format::OpenMetrics
        && kind == MetricKind::Counter
        && without_total.is_none()
        && dialect == Dialect::ClientGolang;
    write(&mut FamilySamples { page, name, appends_total, format, dialect });
    if page.len() == header_end {
        page.truncate(begin);
    }
}

/// Writes the samples of one family.
pub struct FamilySamples<'a> {
    page: &'a mut String,
    name: &'a str,
    appends_total: bool,
    format: Format,
    dialect: Dialect,
}

impl FamilySamples<'_> {
    /// `suffix` follows the name of the family, such as `_bucket`. Labels with an empty value are written, too.
    pub fn add<'l>(
        &mut self,
        suffix: &str,
        labels: impl IntoIterator<Item = (&'l str, &'l str)>,
        value: f64,
    ) {
        self.add_with_time(suffix, labels, value, None);
    }

    pub fn add_with_time<'l>(
        &mut self,
        suffix: &str,
        labels: impl IntoIterator<Item = (&'l str, &'l str)>,
        value: f64,
        time: Option<Timestamp>,
    ) {
        self.page.push_str(self.name);
        self.page.push_str(suffix);
        if self.appends_total {
            self.page.push_str("_total");
        }
        let mut has_labels = false;
        for (name, value) in labels {
            self.page.push(if has_labels { ',' } else { '{' });
            has_labels = true;
            self.page.push_str(name);
            self.page.push_str("=\"");
            push_escaped(self.page, value);
            self.page.push('"');
        }
        if has_labels {
            self.page.push('}');
        }
        self.page.push(' ');
        self.page.push_str(&number(value, self.dialect));
        if let Some(time) = time {
            let millis = time.as_nanos().div_euclid(1_000_000);
            let _ = match self.format {
                Format::Text => write!(self.page, " {millis}"),
                Format::OpenMetrics => {
                    write!(self.page, " {}.{:03}", millis.div_euclid(1000), millis.rem_euclid(1000))
                }
            };
        }
        self.page.push('\n');
    }

    /// The value of a histogram's `le` label. OpenMetrics requires a decimal point.
    pub fn bucket_bound(&self, bound: f64) -> String {
        let text = number(bound, self.dialect);
        let is_whole = bound.is_finite() && !text.contains('.');
        if is_whole && self.format == Format::OpenMetrics { format!("{text}.0") } else { text }
    }
}

fn push_escaped(page: &mut String, label_value: &str) {
    for character in label_value.chars() {
        match character {
            '\\' => page.push_str("\\\\"),
            '"' => page.push_str("\\\""),
            '\n' => page.push_str("\\n"),
            other => page.push(other),
        }
    }
}

fn number(value: f64, dialect: Dialect) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned()
    } else {
        match dialect {
            Dialect::Plain => value.to_string(),
            Dialect::ClientGolang => go_number(value),
        }
    }
}

/// Go's `%g`: with an exponent below 10^-4 and from 10^6 on.
fn go_number(value: f64) -> String {
    let shortest = format!("{value:e}");
    let (digits, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(format: Format, dialect: Dialect, (name, kind): (&str, MetricKind)) -> String {
        let mut page = String::new();
        let labels = [("container", "a\"b\\c\n"), ("pod", "")];
        let time = Timestamp::from_nanos(1_700_000_000_123_456_789);
        write_family(&mut page, (format, dialect), FamilyHeader { name, help: "h", kind }, |samples| {
            samples.add_with_time("", labels, 1.5, Some(time));
        });
        page
    }

    #[test]
    fn prometheus_text_has_milliseconds_and_full_names() {
        let expected = "# HELP cpu_seconds_total h\n# TYPE cpu_seconds_total counter\n\
                        cpu_seconds_total{container=\"a\\\"b\\\\c\\n\",pod=\"\"} 1.5 1700000000123\n";
        for dialect in [Dialect::Plain, Dialect::ClientGolang] {
            assert_eq!(page(Format::Text, dialect, ("cpu_seconds_total", MetricKind::Counter)), expected);
        }
    }

    #[test]
    fn open_metrics_has_seconds_and_short_family_names() {
        let expected = "# HELP cpu_seconds h\n# TYPE cpu_seconds counter\n\
                        cpu_seconds_total{container=\"a\\\"b\\\\c\\n\",pod=\"\"} 1.5 1700000000.123\n";
        for dialect in [Dialect::Plain, Dialect::ClientGolang] {
            let shown = page(Format::OpenMetrics, dialect, ("cpu_seconds_total", MetricKind::Counter));
            assert_eq!(shown, expected);
        }
    }

    #[test]
    fn open_metrics_counter_without_total_suffix_depends_on_dialect() {
        let counter = ("failcnt", MetricKind::Counter);
        let plain = page(Format::OpenMetrics, Dialect::Plain, counter);
        assert!(plain.contains("# TYPE failcnt unknown\nfailcnt{"), "{plain}");
        let golang = page(Format::OpenMetrics, Dialect::ClientGolang, counter);
        assert!(golang.contains("# TYPE failcnt counter\nfailcnt_total{"), "{golang}");
    }

    #[test]
    fn family_without_samples_is_left_out() {
        let mut page = "a 1\n".to_owned();
        let header = FamilyHeader { name: "empty", help: "h", kind: MetricKind::Gauge };
        write_family(&mut page, (Format::Text, Dialect::Plain), header, |_| {});
        assert_eq!(page, "a 1\n");
    }

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (-1.0, "-1"),
            (262_144.0, "262144"),
            (1_339_392.0, "1.339392e+06"),
            (42_446_848.0, "4.2446848e+07"),
            (25_274_793_984.0, "2.5274793984e+10"),
            (104_857_600.0, "1.048576e+08"),
            (55_085.140_584_258, "55085.140584258"),
            (0.013_380_12, "0.01338012"),
            (0.000_01, "1e-05"),
            (1_794_813_658.570_226_2, "1.7948136585702262e+09"),
            (f64::INFINITY, "+Inf"),
        ] {
            assert_eq!(number(value, Dialect::ClientGolang), text);
        }
        assert_eq!(number(25_274_793_984.0, Dialect::Plain), "25274793984");
    }
}
