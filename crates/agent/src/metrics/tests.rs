use super::*;

/// Upstream's counters without the suffix that OpenMetrics requires.
#[test]
fn counters_without_total_keep_upstreams_names() {
    let metrics = Metrics::new();
    metrics.pleg.discarded.inc();
    metrics.pleg.streams_opened.inc();
    metrics.pods.preemptions.inc(["memory"]);
    for format in [Format::Text, Format::OpenMetrics] {
        let text = metrics.encode(format);
        for line in [
            "kubelet_pleg_discard_events 1\n",
            "kubelet_evented_pleg_connection_success_count 1\n",
            "kubelet_evented_pleg_connection_error_count 0\n",
            "kubelet_preemptions{preemption_signal=\"memory\"} 1\n",
            "kubelet_started_pods_total 0\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
    assert!(metrics.encode(Format::Text).contains("# TYPE kubelet_pleg_discard_events counter\n"));
}

#[test]
fn counts_calls_by_operation() {
    let metrics = Metrics::new();
    let meter: &dyn ports::telemetry::call_meter::CallMeter = &metrics;
    meter.call_ended("list_containers", Duration::from_millis(6), false);
    meter.call_ended("list_containers", Duration::from_millis(6), true);
    let text = metrics.encode(Format::Text);
    for line in [
        "kubelet_runtime_operations_total{operation_type=\"list_containers\"} 2\n",
        "kubelet_runtime_operations_errors_total{operation_type=\"list_containers\"} 1\n",
        "kubelet_runtime_operations_duration_seconds_bucket{operation_type=\"list_containers\",le=\"0.005\"} 0\n",
        "kubelet_runtime_operations_duration_seconds_bucket{operation_type=\"list_containers\",le=\"0.0125\"} 2\n",
        "kubelet_runtime_operations_duration_seconds_sum{operation_type=\"list_containers\"} 0.012\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

#[test]
fn in_flight_requests_decrease() {
    let metrics = Metrics::new();
    let labels = RequestLabels {
        long_running: false,
        method: "GET".to_owned(),
        path: "pods".to_owned(),
        server: "readwrite",
    };
    metrics.http.came(&labels);
    let shown = "{long_running=\"false\",method=\"GET\",path=\"pods\",server_type=\"readwrite\"}";
    assert!(metrics.encode(Format::Text).contains(&format!("kubelet_http_inflight_requests{shown} 1\n")));
    metrics.http.ended(&labels, Duration::from_millis(1));
    let text = metrics.encode(Format::Text);
    assert!(text.contains(&format!("kubelet_http_inflight_requests{shown} 0\n")), "{text}");
    assert!(text.contains(&format!("kubelet_http_requests_total{shown} 1\n")), "{text}");
}

#[test]
fn collects_added_sources_for_each_page() {
    struct Clock(std::sync::atomic::AtomicU32);
    impl Collect for Clock {
        fn collect(&self, page: &mut Page) {
            page.gauge(
                "asked",
                "Times.",
                f64::from(self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed)),
            );
        }
    }
    let metrics = Metrics::new();
    metrics.add(Arc::new(Clock(0.into())));
    assert!(metrics.encode(Format::Text).contains("asked 0\n"));
    assert!(metrics.encode(Format::Text).contains("asked 1\n"));
}
