use super::super::series::{Counter, Family, Gauge, Histogram};
use super::*;

fn both(name: &str, series: &dyn Series) -> [String; 2] {
    [Format::Text, Format::OpenMetrics].map(|format| {
        let mut page = Page::new(format);
        page.add(name, "Help.", series);
        page.into_text()
    })
}

#[test]
fn counter_series_have_equal_names_in_both_formats() {
    let counter = Counter::default();
    counter.add(3);
    let cases = [
        (
            "kubelet_evictions",
            "# HELP kubelet_evictions Help.\n# TYPE kubelet_evictions counter\nkubelet_evictions 3\n",
            "# HELP kubelet_evictions Help.\n# TYPE kubelet_evictions unknown\nkubelet_evictions 3\n# EOF\n",
        ),
        (
            "kubelet_started_pods_total",
            "# HELP kubelet_started_pods_total Help.\n# TYPE kubelet_started_pods_total counter\nkubelet_started_pods_total 3\n",
            "# HELP kubelet_started_pods Help.\n# TYPE kubelet_started_pods counter\nkubelet_started_pods_total 3\n# EOF\n",
        ),
    ];
    for (name, text, open) in cases {
        assert_eq!(both(name, &counter), [text, open], "{name}");
    }
}

#[test]
fn histogram_buckets_are_inclusive() {
    let histogram = Histogram::new(&[0.5, 10.0]);
    for value in [0.5, 0.6, 11.0] {
        histogram.observe(value);
    }
    let [text, open] = both("x_seconds", &histogram);
    let lines = |whole: &str| {
        format!(
            "# HELP x_seconds Help.\n# TYPE x_seconds histogram\nx_seconds_bucket{{le=\"0.5\"}} 1\n\
             x_seconds_bucket{{le=\"{whole}\"}} 2\nx_seconds_bucket{{le=\"+Inf\"}} 3\nx_seconds_sum 12.1\n\
             x_seconds_count 3\n"
        )
    };
    assert_eq!(text, lines("10"));
    assert_eq!(open, format!("{}# EOF\n", lines("10.0")));
}

#[test]
fn escapes_label_values_and_keeps_empty_ones() {
    let family: Family<Gauge, 2> = Family::new(["path", "static"]);
    family.get(["a\\b\"c\nd", ""]).set(1.5);
    let [text, _] = both("x", &family);
    assert!(text.ends_with("x{path=\"a\\\\b\\\"c\\nd\",static=\"\"} 1.5\n"), "{text}");
}

#[test]
fn omits_empty_families_and_sorts_others() {
    let mut page = Page::new(Format::Text);
    page.add("empty", "Help.", &Family::<Counter, 1>::new(["a"]));
    page.gauge("b", "Second.", f64::INFINITY);
    page.gauges(("a", "First."), ["n"], [(["1"], 1.0), (["2"], 2.0)]);
    let lines = "# HELP a First.\n# TYPE a gauge\na{n=\"1\"} 1\na{n=\"2\"} 2\n# HELP b Second.\n# TYPE b gauge\nb +Inf\n";
    assert_eq!(page.into_text(), lines);
}

#[test]
fn removed_series_is_not_exposed() {
    let family: Family<Counter, 1> = Family::new(["pod"]);
    family.get(["one"]).inc();
    family.get(["two"]).inc();
    family.remove(["one"]);
    let [text, _] = both("x_total", &family);
    assert!(!text.contains("one") && text.contains("x_total{pod=\"two\"} 1\n"), "{text}");
}
