//! Metric families as text: Prometheus' format, or OpenMetrics for those who ask for it.

use std::fmt::Write;

use agent::metrics::Format;
use model::metric_family::{MetricFamily, MetricKind, MetricSeries};

/// A whole page.
pub(crate) fn text(families: &[MetricFamily], format: Format) -> String {
    let mut page = part(families, format);
    if format == Format::OpenMetrics {
        page.push_str("# EOF\n");
    }
    page
}

/// A part of a page, without its end.
pub(crate) fn part(families: &[MetricFamily], format: Format) -> String {
    let series: usize = families.iter().map(|family| family.series.len()).sum();
    let mut page = String::with_capacity(series * 200 + families.len() * 160);
    for family in families {
        let name = match (format, family.kind) {
            // There a counter's name is without its ending, which its series have.
            (Format::OpenMetrics, MetricKind::Counter) => family.name.trim_end_matches("_total"),
            _ => family.name,
        };
        let kind = match family.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
        };
        let _ = writeln!(page, "# HELP {name} {}\n# TYPE {name} {kind}", family.help);
        for one in &family.series {
            let counter_without_ending =
                format == Format::OpenMetrics && family.kind == MetricKind::Counter && name == family.name;
            page.push_str(family.name);
            if counter_without_ending {
                page.push_str("_total");
            }
            series_line(&mut page, one, format);
        }
    }
    page
}

fn series_line(page: &mut String, one: &MetricSeries, format: Format) {
    for (at, (name, value)) in one.labels.iter().enumerate() {
        page.push(if at == 0 { '{' } else { ',' });
        page.push_str(name);
        page.push_str("=\"");
        escape(page, value);
        page.push('"');
    }
    if !one.labels.is_empty() {
        page.push('}');
    }
    page.push(' ');
    number(page, one.value);
    if let Some(time) = one.time {
        let millis = time.as_nanos().div_euclid(1_000_000);
        let _ = match format {
            Format::Text => write!(page, " {millis}"),
            Format::OpenMetrics => {
                write!(page, " {}.{:03}", millis.div_euclid(1000), millis.rem_euclid(1000))
            }
        };
    }
    page.push('\n');
}

fn escape(page: &mut String, value: &str) {
    for letter in value.chars() {
        match letter {
            '\\' => page.push_str("\\\\"),
            '"' => page.push_str("\\\""),
            '\n' => page.push_str("\\n"),
            _ => page.push(letter),
        }
    }
}

/// A number as Go writes it: with an exponent below 10^-4 and from 10^6 on.
fn number(page: &mut String, value: f64) {
    if value.is_nan() {
        page.push_str("NaN");
        return;
    }
    if value.is_infinite() {
        page.push_str(if value > 0.0 { "+Inf" } else { "-Inf" });
        return;
    }
    let shortest = format!("{value:e}");
    let (digits, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let _ = if !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(page, "{digits}e{sign}{:02}", exponent.abs())
    } else {
        write!(page, "{value}")
    };
}

#[cfg(test)]
mod tests {
    use model::Timestamp;

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
    fn prometheus_has_milliseconds_and_full_names() {
        let expected = "# HELP cpu_seconds_total h\n# TYPE cpu_seconds_total counter\n\
                        cpu_seconds_total{container=\"a\\\"b\\\\c\\n\",pod=\"p\"} 1.5 1700000000123\n\
                        # HELP error h\n# TYPE error gauge\nerror 0\n";
        assert_eq!(text(&families(), Format::Text), expected);
    }

    #[test]
    fn open_metrics_has_seconds_short_names_and_an_end() {
        let expected = "# HELP cpu_seconds h\n# TYPE cpu_seconds counter\n\
                        cpu_seconds_total{container=\"a\\\"b\\\\c\\n\",pod=\"p\"} 1.5 1700000000.123\n\
                        # HELP error h\n# TYPE error gauge\nerror 0\n# EOF\n";
        assert_eq!(text(&families(), Format::OpenMetrics), expected);
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
            let mut page = String::new();
            number(&mut page, value);
            assert_eq!(page, text);
        }
    }
}
