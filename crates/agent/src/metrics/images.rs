//! Images.

use std::time::Duration;

use super::bounds::PULL;
use super::series::{Counter, DEFAULT_BUCKETS, Family, Gauge, Histogram};

metrics_group! {
    /// Images, and the programs that know credentials for them.
    ImageMetrics {
        pull_duration: Family<Histogram, 1> = Family::histograms(["image_size_in_bytes"], PULL),
            "kubelet_image_pull_duration_seconds", "Time of a pull with its waiting, by size of the image";
        removed: Family<Counter, 1> = Family::new(["reason"]),
            "kubelet_image_garbage_collected_total", "Images removed by age or for space";
        ensured: Family<Counter, 3> = Family::new(["present_locally", "pull_policy", "pull_required"]),
            "kubelet_image_manager_ensure_image_requests_total", "Images that containers needed, and what was done";
        /// Image volumes that containers wanted.
        pub volumes_requested: Counter = Counter::default(),
            "kubelet_image_volume_requested_total", "Image volumes that containers wanted";
        /// Image volumes that the runtime mounted.
        pub volumes_mounted: Counter = Counter::default(),
            "kubelet_image_volume_mounted_succeed_total", "Image volumes that the runtime mounted";
        /// Image volumes that could not be mounted.
        pub volume_errors: Counter = Counter::default(),
            "kubelet_image_volume_mounted_errors_total", "Image volumes that could not be mounted";
        credential_checks: Family<Counter, 1> = Family::new(["result"]),
            "kubelet_imagemanager_image_mustpull_checks_total", "Images that were there, and whether the pod may use them";
        begun_pulls: Gauge = Gauge::default(),
            "kubelet_imagemanager_ondisk_pullintents", "Records of pulls that were begun, on disk";
        pulled_records: Gauge = Gauge::default(),
            "kubelet_imagemanager_ondisk_pulledrecords", "Records of images that were pulled, on disk";
        provider_config: Family<Gauge, 1> = Family::new(["hash"]),
            "kubelet_credential_provider_config_info", "The configuration of credential providers, by its hash";
        provider_duration: Family<Histogram, 1> = Family::histograms(["plugin_name"], DEFAULT_BUCKETS),
            "kubelet_credential_provider_plugin_duration", "Time of a run of a credential provider, in seconds";
        provider_errors: Family<Counter, 1> = Family::new(["plugin_name"]),
            "kubelet_credential_provider_plugin_errors_total", "Runs of a credential provider that failed";
    }
}

impl ImageMetrics {
    /// An image was pulled; `size` is upstream's word for its size.
    pub fn pulled(&self, size: &str, took: Duration) {
        self.pull_duration.get([size]).observe(took.as_secs_f64());
    }

    /// An image was removed by the collector.
    pub fn removed(&self, reason: &str) {
        self.removed.get([reason]).inc();
    }

    /// An image was needed; `present` is upstream's word for whether it was there.
    pub fn ensured(&self, policy: &str, present: &str, pull_required: bool) {
        let required = if pull_required { "true" } else { "false" };
        self.ensured.get([present, &policy.to_lowercase(), required]).inc();
    }

    /// It was checked whether a pod may use an image that was there; `result` is upstream's word.
    pub fn credentials_checked(&self, result: &str) {
        self.credential_checks.get([result]).inc();
    }

    /// How many records of pulls are kept.
    pub fn records_kept(&self, begun: usize, pulled: usize) {
        self.begun_pulls.set_count(begun);
        self.pulled_records.set_count(pulled);
    }

    /// Credential providers are configured by files with this hash.
    pub fn providers_configured(&self, hash: &str) {
        self.provider_config.get([hash]).set(1.0);
    }

    /// A credential provider was run.
    pub fn provider_run(&self, name: &str, took: Duration, failed: bool) {
        self.provider_duration.get([name]).observe(took.as_secs_f64());
        if failed {
            self.provider_errors.get([name]).inc();
        }
    }
}
