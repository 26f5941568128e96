//! Flags for the API client, the node, the container runtime and its images.

use super::{FlagKind as Kind, FlagSpec, flag_or_file, prefer_file};

pub(in super::super) static NODE: &[FlagSpec] = &[
    prefer_file("register-node", Kind::Bool, "registerNode", "Register the node with the API server."),
    prefer_file(
        "register-with-taints",
        Kind::Taints,
        "registerWithTaints",
        "Taints to register the node with, as a comma-separated list of KEY=VALUE:EFFECT.",
    ),
    flag_or_file(
        "provider-id",
        Kind::Text,
        "providerID",
        "Unique identifier of the machine at its cloud provider.",
    ),
    prefer_file(
        "pod-cidr",
        Kind::Text,
        "podCIDR",
        "CIDR for pod IP addresses. Used in standalone mode only.",
    ),
    prefer_file(
        "node-status-update-frequency",
        Kind::Duration,
        "nodeStatusUpdateFrequency",
        "How often the node status is computed, and sent if it changed.",
    ),
    prefer_file(
        "node-status-max-images",
        Kind::Int32,
        "nodeStatusMaxImages",
        "Maximum number of images listed in the node status; -1 for no limit.",
    ),
    prefer_file(
        "kube-api-content-type",
        Kind::Text,
        "contentType",
        "Content type of requests to the API server.",
    ),
    prefer_file("kube-api-qps", Kind::Int32, "kubeAPIQPS", "Maximum number of API requests per second."),
    prefer_file("kube-api-burst", Kind::Int32, "kubeAPIBurst", "Maximum number of API requests in a burst."),
    prefer_file(
        "event-qps",
        Kind::Int32,
        "eventRecordQPS",
        "Maximum number of events per second; 0 for no limit.",
    ),
    prefer_file("event-burst", Kind::Int32, "eventBurst", "Maximum number of events in a burst."),
    prefer_file(
        "feature-gates",
        Kind::Gates,
        "featureGates",
        "Feature gates to enable or disable, as a comma-separated list of NAME=BOOL. Other gates keep their values from the configuration file.",
    ),
];

pub(in super::super) static IMAGES: &[FlagSpec] = &[
    prefer_file(
        "container-runtime-endpoint",
        Kind::Text,
        "containerRuntimeEndpoint",
        "Endpoint of the container runtime.",
    ),
    prefer_file(
        "image-service-endpoint",
        Kind::Text,
        "imageServiceEndpoint",
        "Endpoint of the image service. If empty, the endpoint of the container runtime is used.",
    ),
    prefer_file(
        "runtime-request-timeout",
        Kind::Duration,
        "runtimeRequestTimeout",
        "Timeout of all requests to the container runtime except streaming requests.",
    ),
    prefer_file(
        "registry-qps",
        Kind::Int32,
        "registryPullQPS",
        "Maximum number of image pulls per second; 0 for no limit.",
    ),
    prefer_file("registry-burst", Kind::Int32, "registryBurst", "Maximum number of image pulls in a burst."),
    prefer_file("serialize-image-pulls", Kind::Bool, "serializeImagePulls", "Pull images one at a time."),
    prefer_file(
        "minimum-image-ttl-duration",
        Kind::Duration,
        "imageMinimumGCAge",
        "Minimum age of an unused image before it may be removed.",
    ),
    prefer_file(
        "image-gc-high-threshold",
        Kind::Int32,
        "imageGCHighThresholdPercent",
        "Disk usage in percent at which image garbage collection starts; 100 disables it.",
    ),
    prefer_file(
        "image-gc-low-threshold",
        Kind::Int32,
        "imageGCLowThresholdPercent",
        "Disk usage in percent at which image garbage collection stops.",
    ),
    prefer_file("volume-plugin-dir", Kind::Text, "volumePluginDir", "Directory of FlexVolume drivers."),
    prefer_file(
        "volume-stats-agg-period",
        Kind::Duration,
        "volumeStatsAggPeriod",
        "How often the disk usage of volumes is measured; a negative value disables it.",
    ),
    prefer_file(
        "enable-controller-attach-detach",
        Kind::Bool,
        "enableControllerAttachDetach",
        "Let the attach/detach controller attach and detach volumes.",
    ),
    prefer_file(
        "container-log-max-size",
        Kind::Text,
        "containerLogMaxSize",
        "Maximum size of a container log file before it is rotated; a negative value disables rotation.",
    ),
    prefer_file(
        "container-log-max-files",
        Kind::Int32,
        "containerLogMaxFiles",
        "Maximum number of log files per container.",
    ),
];
