//! Device plugins.

use std::time::Duration;

use super::series::{Counter, DEFAULT_BUCKETS, Family, Histogram};

metrics_group! {
    DeviceMetrics {
        registrations: Family<Counter, 1> = Family::new(["resource_name"]),
            "kubelet_device_plugin_registration_total", "Calls of the registration of device plugins";
        allocations: Family<Histogram, 1> = Family::histograms(["resource_name"], DEFAULT_BUCKETS),
            "kubelet_device_plugin_alloc_duration_seconds", "Duration of a call that allocates devices";
    }
}

impl DeviceMetrics {
    /// A plugin has called the registration, whatever its result.
    pub(crate) fn registered(&self, resource: &str) {
        self.registrations.inc([resource]);
    }

    /// A plugin has answered or failed to allocate devices.
    pub(crate) fn allocated(&self, resource: &str, took: Duration) {
        self.allocations.observe([resource], took);
    }
}
