//! The families of the statistics as text, in the dialect of upstream's exporters.

use model::metric_family::MetricFamily;
use model::metrics_text::{Dialect, FamilyHeader, Format, OPEN_METRICS_END, write_family};

/// A complete page.
pub(crate) fn text(families: &[MetricFamily], format: Format) -> String {
    let mut page = part(families, format);
    if format == Format::OpenMetrics {
        page.push_str(OPEN_METRICS_END);
    }
    page
}

/// A part of a page, without the end mark.
pub(crate) fn part(families: &[MetricFamily], format: Format) -> String {
    let series: usize = families.iter().map(|family| family.series.len()).sum();
    let mut page = String::with_capacity(series * 200 + families.len() * 160);
    for family in families {
        let header = FamilyHeader { name: family.name, help: family.help, kind: family.kind };
        write_family(&mut page, (format, Dialect::ClientGolang), header, |samples| {
            for series in &family.series {
                let labels = series.labels.iter().map(|(name, value)| (*name, value.as_str()));
                samples.add_with_time("", labels, series.value, series.time);
            }
        });
    }
    page
}

#[cfg(test)]
mod tests {
    use model::Timestamp;
    use model::metric_family::{MetricKind, MetricSeries};

    use super::*;

    fn families() -> Vec<MetricFamily> {
        let labels = vec![("container", "a\"b\\c\n".to_owned()), ("pod", "p".to_owned())];
        let time = Some(Timestamp::from_nanos(1_700_000_000_123_456_789));
        let cpu = MetricSeries { labels, value: 1.5, time };
        let plain = MetricSeries { labels: Vec::new(), value: 0.0, time: None };
        vec![
            MetricFamily {
                name: "cpu_seconds_total",
                help: "h",
                kind: MetricKind::Counter,
                series: vec![cpu],
            },
            MetricFamily { name: "error", help: "h", kind: MetricKind::Gauge, series: vec![plain] },
        ]
    }

    #[test]
    fn prometheus_page_has_milliseconds_and_full_names() {
        let expected = "# HELP cpu_seconds_total h\n# TYPE cpu_seconds_total counter\n\
                        cpu_seconds_total{container=\"a\\\"b\\\\c\\n\",pod=\"p\"} 1.5 1700000000123\n\
                        # HELP error h\n# TYPE error gauge\nerror 0\n";
        assert_eq!(text(&families(), Format::Text), expected);
    }

    #[test]
    fn open_metrics_page_has_seconds_short_names_and_end_mark() {
        let expected = "# HELP cpu_seconds h\n# TYPE cpu_seconds counter\n\
                        cpu_seconds_total{container=\"a\\\"b\\\\c\\n\",pod=\"p\"} 1.5 1700000000.123\n\
                        # HELP error h\n# TYPE error gauge\nerror 0\n# EOF\n";
        assert_eq!(text(&families(), Format::OpenMetrics), expected);
    }
}
