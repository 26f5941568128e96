//! Dynamic resource allocation.

use std::time::Duration;

use super::series::{Family, Histogram};

/// Fifteen bounds from 0.1 s to 40 s, each the same factor larger than the one before, as upstream.
const DURATIONS: &[f64] = &[
    0.1,
    0.153_412_740_463_439_1,
    0.235_354_689_365_025_24,
    0.361_064_078_764_099_46,
    0.553_918_298_061_075_2,
    0.849_781_240_983_936_3,
    1.303_672_689_737_678,
    1.999_999_999_999_999_3,
    3.068_254_809_268_781,
    4.707_093_787_300_503,
    7.221_281_575_281_985,
    11.078_365_961_221_5,
    16.995_624_819_678_717,
    26.073_453_794_753_55,
    39.999_999_999_999_97,
];

metrics_group! {
    DynamicResourceMetrics {
        operations: Family<Histogram, 2> = Family::histograms(["operation_name", "is_error"], DURATIONS),
            "dra_operations_duration_seconds", "Duration of preparing or unpreparing all ResourceClaims of a pod";
        calls: Family<Histogram, 3> =
            Family::histograms(["driver_name", "method_name", "grpc_status_code"], DURATIONS),
            "dra_grpc_operations_duration_seconds", "Duration of a call of a DRA driver";
    }
}

impl DynamicResourceMetrics {
    /// All claims of a pod were prepared or unprepared, or this failed.
    pub(crate) fn ended(&self, operation: &str, took: Duration, is_error: bool) {
        let is_error = if is_error { "true" } else { "false" };
        self.operations.observe([operation, is_error], took);
    }

    /// `method` is the path of the method; `code` is the name of the gRPC code.
    pub(crate) fn called(&self, driver: &str, method: &str, code: &str, took: Duration) {
        self.calls.observe([driver, method, code], took);
    }
}
