//! Calls of the pod-resources socket.

use super::series::{Counter, Family};

const VERSION: [&str; 1] = ["server_api_version"];

metrics_group! {
    PodResourcesMetrics {
        pub requests: Family<Counter, 1> = Family::new(VERSION),
            "kubelet_pod_resources_endpoint_requests_total", "Calls of the pod-resources socket";
        pub list: Family<Counter, 1> = Family::new(VERSION),
            "kubelet_pod_resources_endpoint_requests_list", "Calls of the pod-resources socket for all pods";
        pub get: Family<Counter, 1> = Family::new(VERSION),
            "kubelet_pod_resources_endpoint_requests_get", "Calls of the pod-resources socket for one pod";
        pub get_errors: Family<Counter, 1> = Family::new(VERSION),
            "kubelet_pod_resources_endpoint_errors_get", "Calls of the pod-resources socket for an unknown pod";
        pub allocatable: Family<Counter, 1> = Family::new(VERSION),
            "kubelet_pod_resources_endpoint_requests_get_allocatable",
            "Calls of the pod-resources socket for allocatable resources";
    }
}
