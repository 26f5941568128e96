//! Volumes, CSI drivers and plugins.

use std::time::Duration;

use decide::volumes::labels::LabelConflictKind;

use super::series::{Counter, DEFAULT_BUCKETS, Family, Gauge, Histogram};

/// Bounds of volume operations, in seconds.
const OPERATIONS: &[f64] = &[0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0];
/// Translated in-tree volumes count as CSI volumes.
const MIGRATED: &str = "false";

metrics_group! {
    StorageMetrics {
        operations: Family<Histogram, 4> =
            Family::histograms(["migrated", "operation_name", "status", "volume_plugin"], OPERATIONS),
            "storage_operation_duration_seconds", "Duration of a volume operation";
        whole: Family<Histogram, 2> = Family::histograms(["operation_name", "plugin_name"], OPERATIONS),
            "volume_operation_total_seconds", "Time from the request of a volume until it is mounted, including retries";
        driver_calls: Family<Histogram, 4> =
            Family::histograms(["driver_name", "grpc_status_code", "method_name", "migrated"], OPERATIONS),
            "csi_operations_seconds", "Duration of a CSI call";
        pub measuring: Family<Histogram, 1> = Family::histograms(["metric_source"], DEFAULT_BUCKETS),
            "kubelet_volume_metric_collection_duration_seconds", "Duration of measuring a volume";
        pub(crate) plugins: Family<Gauge, 2> = Family::new(["socket_path", "state"]),
            "plugin_manager_total_plugins", "Discovered and registered plugins";
        label_container_errors: Family<Gauge, 1> = Family::new(["access_mode"]),
            "volume_manager_selinux_container_errors_total",
            "Volumes that wait because the SELinux label of a container cannot be told, counted with each try";
        label_container_warnings: Family<Gauge, 1> = Family::new(["access_mode"]),
            "volume_manager_selinux_container_warnings_total",
            "Volumes mounted without an SELinux label because that of a container cannot be told";
        label_pod_errors: Family<Gauge, 1> = Family::new(["access_mode"]),
            "volume_manager_selinux_pod_context_mismatch_errors_total",
            "Volumes that wait because containers of one pod have different SELinux labels, counted with each try";
        label_pod_warnings: Family<Gauge, 1> = Family::new(["access_mode"]),
            "volume_manager_selinux_pod_context_mismatch_warnings_total",
            "Volumes mounted without an SELinux label because containers of one pod have different ones";
        label_volume_errors: Family<Gauge, 2> = Family::new(["access_mode", "volume_plugin"]),
            "volume_manager_selinux_volume_context_mismatch_errors_total",
            "Volumes that wait because another pod has them with another SELinux label, counted with each try";
        label_volume_warnings: Family<Gauge, 2> = Family::new(["access_mode", "volume_plugin"]),
            "volume_manager_selinux_volume_context_mismatch_warnings_total",
            "Volumes mounted without an SELinux label that pods with different labels have";
        pub(crate) labels_admitted: Family<Gauge, 2> = Family::new(["access_mode", "volume_plugin"]),
            "volume_manager_selinux_volumes_admitted_total",
            "Volumes with one SELinux label, which they are mounted with if their access mode allows";
        pub found_again: Counter = Counter::default(),
            "reconstruct_volume_operations_total", "Mounts of an earlier run that were checked at start";
        pub lost: Counter = Counter::default(),
            "reconstruct_volume_operations_errors_total",
            "Mounts of an earlier agent that were written down and not there at the start";
    }
}

impl StorageMetrics {
    pub(crate) fn label_refused(&self, class: LabelConflictKind, plugin: &str, access_mode: &str) {
        let counted = match class {
            LabelConflictKind::Container => self.label_container_errors.get([access_mode]),
            LabelConflictKind::Pod => self.label_pod_errors.get([access_mode]),
            LabelConflictKind::Volume => self.label_volume_errors.get([access_mode, plugin]),
        };
        counted.add(1.0);
    }

    /// A label conflict was ignored.
    pub(crate) fn label_warned(&self, class: LabelConflictKind, plugin: &str, access_mode: &str) {
        let counted = match class {
            LabelConflictKind::Container => self.label_container_warnings.get([access_mode]),
            LabelConflictKind::Pod => self.label_pod_warnings.get([access_mode]),
            LabelConflictKind::Volume => self.label_volume_warnings.get([access_mode, plugin]),
        };
        counted.add(1.0);
    }

    pub fn operated(&self, operation: &str, plugin: &str, took: Duration, failed: bool) {
        let status = if failed { "fail-unknown" } else { "success" };
        self.operations.observe([MIGRATED, operation, status, plugin], took);
    }

    /// A volume was mounted; `took` counts from its request.
    pub fn mounted(&self, plugin: &str, took: Duration) {
        self.whole.observe(["overall_volume_mount", plugin], took);
    }

    /// `code` is the name of the gRPC code.
    pub fn driver_called(&self, driver: &str, method: &str, code: &str, took: Duration) {
        let method = format!("/csi.v1.Node/{method}");
        self.driver_calls.observe([driver, code, &method, MIGRATED], took);
    }
}
