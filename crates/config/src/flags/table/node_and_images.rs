//! Flags for the API client, the node, the container runtime and its images.

use super::{FlagSpec, flag_or_file, prefer_file};

pub(in super::super) static NODE: &[FlagSpec] = flags! {
    /// Register the node with the API server.
    "register-node": Bool = prefer_file("registerNode"),
    /// Taints to register the node with, as a comma-separated list of KEY=VALUE:EFFECT.
    "register-with-taints": Taints = prefer_file("registerWithTaints"),
    /// Unique identifier of the machine at its cloud provider.
    "provider-id": Text = flag_or_file("providerID"),
    /// CIDR for pod IP addresses. Used in standalone mode only.
    "pod-cidr": Text = prefer_file("podCIDR"),
    /// How often the node status is computed, and sent if it changed.
    "node-status-update-frequency": Duration = prefer_file("nodeStatusUpdateFrequency"),
    /// Maximum number of images listed in the node status; -1 for no limit.
    "node-status-max-images": Int32 = prefer_file("nodeStatusMaxImages"),
    /// Content type of requests to the API server.
    "kube-api-content-type": Text = prefer_file("contentType"),
    /// Maximum number of API requests per second.
    "kube-api-qps": Int32 = prefer_file("kubeAPIQPS"),
    /// Maximum number of API requests in a burst.
    "kube-api-burst": Int32 = prefer_file("kubeAPIBurst"),
    /// Maximum number of events per second; 0 for no limit.
    "event-qps": Int32 = prefer_file("eventRecordQPS"),
    /// Maximum number of events in a burst.
    "event-burst": Int32 = prefer_file("eventBurst"),
    /// Feature gates to enable or disable, as a comma-separated list of NAME=BOOL. Other gates keep their
    /// values from the configuration file.
    "feature-gates": Gates = prefer_file("featureGates"),
};

pub(in super::super) static IMAGES: &[FlagSpec] = flags! {
    /// Endpoint of the container runtime.
    "container-runtime-endpoint": Text = prefer_file("containerRuntimeEndpoint"),
    /// Endpoint of the image service. If empty, the endpoint of the container runtime is used.
    "image-service-endpoint": Text = prefer_file("imageServiceEndpoint"),
    /// Timeout of all requests to the container runtime except streaming requests.
    "runtime-request-timeout": Duration = prefer_file("runtimeRequestTimeout"),
    /// Maximum number of image pulls per second; 0 for no limit.
    "registry-qps": Int32 = prefer_file("registryPullQPS"),
    /// Maximum number of image pulls in a burst.
    "registry-burst": Int32 = prefer_file("registryBurst"),
    /// Pull images one at a time.
    "serialize-image-pulls": Bool = prefer_file("serializeImagePulls"),
    /// Minimum age of an unused image before it may be removed.
    "minimum-image-ttl-duration": Duration = prefer_file("imageMinimumGCAge"),
    /// Disk usage in percent at which image garbage collection starts; 100 disables it.
    "image-gc-high-threshold": Int32 = prefer_file("imageGCHighThresholdPercent"),
    /// Disk usage in percent at which image garbage collection stops.
    "image-gc-low-threshold": Int32 = prefer_file("imageGCLowThresholdPercent"),
    /// Directory of FlexVolume drivers.
    "volume-plugin-dir": Text = prefer_file("volumePluginDir"),
    /// How often the disk usage of volumes is measured; a negative value disables it.
    "volume-stats-agg-period": Duration = prefer_file("volumeStatsAggPeriod"),
    /// Let the attach/detach controller attach and detach volumes.
    "enable-controller-attach-detach": Bool = prefer_file("enableControllerAttachDetach"),
    /// Maximum size of a container log file before it is rotated; a negative value disables rotation.
    "container-log-max-size": Text = prefer_file("containerLogMaxSize"),
    /// Maximum number of log files per container.
    "container-log-max-files": Int32 = prefer_file("containerLogMaxFiles"),
};
