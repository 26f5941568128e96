//! Images.

use std::time::Duration;

use super::bounds::PULL;
use super::series::{Counter, DEFAULT_BUCKETS, Family, Gauge, Histogram};

metrics_group! {
    ImageMetrics {
        pub pull_duration: Family<Histogram, 1> = Family::histograms(["image_size_in_bytes"], PULL),
            "kubelet_image_pull_duration_seconds", "Duration of an image pull including waiting, by size of the image";
        pub removed: Family<Counter, 1> = Family::new(["reason"]),
            "kubelet_image_garbage_collected_total", "Images that garbage collection removed";
        ensured: Family<Counter, 3> = Family::new(["present_locally", "pull_policy", "pull_required"]),
            "kubelet_image_manager_ensure_image_requests_total", "Requests for images by containers";
        pub volumes_requested: Counter = Counter::default(),
            "kubelet_image_volume_requested_total", "Requested image volumes";
        pub volumes_mounted: Counter = Counter::default(),
            "kubelet_image_volume_mounted_succeed_total", "Image volumes that the runtime mounted";
        pub volume_errors: Counter = Counter::default(),
            "kubelet_image_volume_mounted_errors_total", "Image volumes that failed to mount";
        pub credential_checks: Family<Counter, 1> = Family::new(["result"]),
            "kubelet_imagemanager_image_mustpull_checks_total", "Access checks of present images, by result";
        pub begun_pulls: Gauge = Gauge::default(),
            "kubelet_imagemanager_ondisk_pullintents", "Pull intents on disk";
        pub pulled_records: Gauge = Gauge::default(),
            "kubelet_imagemanager_ondisk_pulledrecords", "Pulled image records on disk";
        provider_config: Family<Gauge, 1> = Family::new(["hash"]),
            "kubelet_credential_provider_config_info", "Hash of the credential provider configuration";
        provider_duration: Family<Histogram, 1> = Family::histograms(["plugin_name"], DEFAULT_BUCKETS),
            "kubelet_credential_provider_plugin_duration", "Duration of a credential provider run, in seconds";
        provider_errors: Family<Counter, 1> = Family::new(["plugin_name"]),
            "kubelet_credential_provider_plugin_errors_total", "Failed runs of a credential provider";
    }
}

impl ImageMetrics {
    /// `present` is upstream's label for whether the image is present.
    pub fn ensured(&self, policy: &str, present: &str, pull_required: bool) {
        let required = if pull_required { "true" } else { "false" };
        self.ensured.inc([present, &policy.to_lowercase(), required]);
    }

    pub fn providers_configured(&self, hash: &str) {
        self.provider_config.get([hash]).set(1.0);
    }

    pub fn provider_run(&self, name: &str, took: Duration, failed: bool) {
        self.provider_duration.observe([name], took);
        if failed {
            self.provider_errors.inc([name]);
        }
    }
}
