//! Flags for the API client, the node, the runtime and its images.

use super::{FlagKind as Kind, FlagSpec, field, kept};

pub(in super::super) static NODE: &[FlagSpec] = &[
    field("register-node", Kind::Bool, "registerNode", "Create the Node object."),
    field(
        "register-with-taints",
        Kind::Taints,
        "registerWithTaints",
        "Taints to register the node with, as key=value:effect.",
    ),
    kept("provider-id", Kind::Text, "providerID", "Identity of the machine at its provider."),
    field("pod-cidr", Kind::Text, "podCIDR", "Pod address range of a node that stands alone."),
    field(
        "node-status-update-frequency",
        Kind::Duration,
        "nodeStatusUpdateFrequency",
        "How often the node status is computed.",
    ),
    field(
        "node-status-max-images",
        Kind::Int32,
        "nodeStatusMaxImages",
        "Images listed in the node status; -1 for all.",
    ),
    field("kube-api-content-type", Kind::Text, "contentType", "Content type of API requests."),
    field("kube-api-qps", Kind::Int32, "kubeAPIQPS", "API requests per second."),
    field("kube-api-burst", Kind::Int32, "kubeAPIBurst", "API requests in one burst."),
    field("event-qps", Kind::Int32, "eventRecordQPS", "Events per second; 0 for no limit."),
    field("event-burst", Kind::Int32, "eventBurst", "Events in one burst."),
    field(
        "feature-gates",
        Kind::Gates,
        "featureGates",
        "Features to turn on or off, as Name=true pairs; win over the file one by one.",
    ),
];

pub(in super::super) static IMAGES: &[FlagSpec] = &[
    field(
        "container-runtime-endpoint",
        Kind::Text,
        "containerRuntimeEndpoint",
        "Socket of the container runtime.",
    ),
    field(
        "image-service-endpoint",
        Kind::Text,
        "imageServiceEndpoint",
        "Socket of the image service; the runtime's without it.",
    ),
    field(
        "runtime-request-timeout",
        Kind::Duration,
        "runtimeRequestTimeout",
        "Deadline of runtime calls that do not stream.",
    ),
    field("registry-qps", Kind::Int32, "registryPullQPS", "Image pulls per second; 0 for no limit."),
    field("registry-burst", Kind::Int32, "registryBurst", "Image pulls in one burst."),
    field("serialize-image-pulls", Kind::Bool, "serializeImagePulls", "Pull one image at a time."),
    field(
        "minimum-image-ttl-duration",
        Kind::Duration,
        "imageMinimumGCAge",
        "Youngest unused image that may be removed.",
    ),
    field(
        "image-gc-high-threshold",
        Kind::Int32,
        "imageGCHighThresholdPercent",
        "Disk usage in percent at which images are removed; 100 for never.",
    ),
    field(
        "image-gc-low-threshold",
        Kind::Int32,
        "imageGCLowThresholdPercent",
        "Disk usage in percent down to which images are removed.",
    ),
    field("volume-plugin-dir", Kind::Text, "volumePluginDir", "Where FlexVolume drivers are looked for."),
    field(
        "volume-stats-agg-period",
        Kind::Duration,
        "volumeStatsAggPeriod",
        "How often volume usage is measured; negative for never.",
    ),
    field(
        "enable-controller-attach-detach",
        Kind::Bool,
        "enableControllerAttachDetach",
        "Leave attaching volumes to a controller.",
    ),
    field(
        "container-log-max-size",
        Kind::Text,
        "containerLogMaxSize",
        "Size at which a container log is rotated.",
    ),
    field("container-log-max-files", Kind::Int32, "containerLogMaxFiles", "Log files kept per container."),
];
