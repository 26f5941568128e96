//! Calls of the pod-resources socket.

use super::series::{Counter, Family};

const VERSION: [&str; 1] = ["server_api_version"];

metrics_group! {
    /// Calls of the pod-resources socket, by version of the contract.
    PodResourcesMetrics {
        /// All calls.
        pub requests: Family<Counter, 1> = Family::new(VERSION),
            "kubelet_pod_resources_endpoint_requests_total", "Calls of the pod-resources socket";
        /// List.
        pub list: Family<Counter, 1> = Family::new(VERSION),
            "kubelet_pod_resources_endpoint_requests_list", "Calls of the pod-resources socket that list";
        /// Get.
        pub get: Family<Counter, 1> = Family::new(VERSION),
            "kubelet_pod_resources_endpoint_requests_get", "Calls of the pod-resources socket for one pod";
        /// Get of a pod that there is not.
        pub get_errors: Family<Counter, 1> = Family::new(VERSION),
            "kubelet_pod_resources_endpoint_errors_get", "Calls of the pod-resources socket for a pod that there is not";
        /// GetAllocatableResources.
        pub allocatable: Family<Counter, 1> = Family::new(VERSION),
            "kubelet_pod_resources_endpoint_requests_get_allocatable",
            "Calls of the pod-resources socket for what there is to give";
    }
}
