//! Sources of pods, and logs.

use super::series::{Counter, Family, Gauge};

metrics_group! {
    SourceMetrics {
        pub manifest_files: Family<Gauge, 1> = Family::new(["state"]),
            "podward_manifest_files", "Manifest files by state";
        pub manifest_errors: Counter = Counter::default(),
            "podward_manifest_errors_total", "Manifests that could not be used";
        pub logs_rotated: Counter = Counter::default(),
            "podward_logs_rotated_total", "Container logs that were rotated";
    }
}
