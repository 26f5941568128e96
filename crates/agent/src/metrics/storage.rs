//! Volumes of pods, and the drivers and plugins they come from.

use std::time::Duration;

use decide::volumes::labels::ComplaintClass;

use super::series::{Counter, DEFAULT_BUCKETS, Family, Gauge, Histogram};

/// Operations on volumes, in seconds.
const OPERATIONS: &[f64] = &[0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0];
/// Volumes of drivers that were once part of Kubernetes are the drivers' here.
const MIGRATED: &str = "false";

metrics_group! {
    /// Volumes of pods, and the drivers and plugins they come from.
    StorageMetrics {
        operations: Family<Histogram, 4> =
            Family::histograms(["migrated", "operation_name", "status", "volume_plugin"], OPERATIONS),
            "storage_operation_duration_seconds", "Time of an operation on a volume";
        whole: Family<Histogram, 2> = Family::histograms(["operation_name", "plugin_name"], OPERATIONS),
            "volume_operation_total_seconds", "A volume being wanted to its being there, with all attempts";
        driver_calls: Family<Histogram, 4> =
            Family::histograms(["driver_name", "grpc_status_code", "method_name", "migrated"], OPERATIONS),
            "csi_operations_seconds", "Time of a call of a CSI driver";
        measuring: Family<Histogram, 1> = Family::histograms(["metric_source"], DEFAULT_BUCKETS),
            "kubelet_volume_metric_collection_duration_seconds", "Time to find out what a volume holds";
        /// Plugins by socket and state.
        pub(crate) plugins: Family<Gauge, 2> = Family::new(["socket_path", "state"]),
            "plugin_manager_total_plugins", "Plugins that announced themselves, and those that are registered";
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
        labels_admitted: Family<Gauge, 2> = Family::new(["access_mode", "volume_plugin"]),
            "volume_manager_selinux_volumes_admitted_total",
            "Volumes with one SELinux label, which they are mounted with if their access mode allows";
        /// Mounts that an agent before this one left, found at the start.
        pub found_again: Counter = Counter::default(),
            "reconstruct_volume_operations_total", "Mounts of an earlier agent that were looked for at the start";
        /// Those of them that were not there.
        pub lost: Counter = Counter::default(),
            "reconstruct_volume_operations_errors_total",
            "Mounts of an earlier agent that were written down and not there at the start";
    }
}

impl StorageMetrics {
    /// A volume waits for its label.
    pub(crate) fn label_refused(&self, class: ComplaintClass, plugin: &str, access_mode: &str) {
        let counted = match class {
            ComplaintClass::Container => self.label_container_errors.get([access_mode]),
            ComplaintClass::Pod => self.label_pod_errors.get([access_mode]),
            ComplaintClass::Volume => self.label_volume_errors.get([access_mode, plugin]),
        };
        counted.add(1.0);
    }

    /// A volume is mounted without the label that it cannot have.
    pub(crate) fn label_warned(&self, class: ComplaintClass, plugin: &str, access_mode: &str) {
        let counted = match class {
            ComplaintClass::Container => self.label_container_warnings.get([access_mode]),
            ComplaintClass::Pod => self.label_pod_warnings.get([access_mode]),
            ComplaintClass::Volume => self.label_volume_warnings.get([access_mode, plugin]),
        };
        counted.add(1.0);
    }

    /// A volume has one label.
    pub(crate) fn label_admitted(&self, plugin: &str, access_mode: &str) {
        self.labels_admitted.get([access_mode, plugin]).add(1.0);
    }

    /// Something was done to a volume.
    pub fn operated(&self, operation: &str, plugin: &str, took: Duration, failed: bool) {
        let status = if failed { "fail-unknown" } else { "success" };
        self.operations.get([MIGRATED, operation, status, plugin]).observe(took.as_secs_f64());
    }

    /// A volume is there, so long after it was wanted.
    pub fn mounted(&self, plugin: &str, took: Duration) {
        self.whole.get(["overall_volume_mount", plugin]).observe(took.as_secs_f64());
    }

    /// A driver was called; `code` is `OK` or gRPC's word for the failure.
    pub fn driver_called(&self, driver: &str, method: &str, code: &str, took: Duration) {
        let method = format!("/csi.v1.Node/{method}");
        self.driver_calls.get([driver, code, &method, MIGRATED]).observe(took.as_secs_f64());
    }

    /// A volume was measured by `source`: `du`, `statfs`, or a driver's name.
    pub fn measured(&self, source: &str, took: Duration) {
        self.measuring.get([source]).observe(took.as_secs_f64());
    }
}
