//! The container runtime, image pulls and image garbage collection.

use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use values::duration::GoDuration;

use super::{default_if_zero, empty_is_none, is_zero};
use crate::gates::{FeatureGates, Gate};

/// The container runtime, image pulls and image garbage collection.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Images {
    /// Endpoint of the container runtime.
    #[default = "unix:///run/containerd/containerd.sock"]
    pub container_runtime_endpoint: String,
    /// Endpoint of the image service; empty for the endpoint of the runtime.
    #[serde(skip_serializing_if = "is_zero")]
    pub image_service_endpoint: String,
    /// Timeout of runtime requests, except streaming requests.
    #[default(GoDuration::from_secs(120))]
    pub runtime_request_timeout: GoDuration,
    /// Maximum image pulls per second; 0 for no limit.
    #[serde(rename = "registryPullQPS")]
    #[default = 5]
    pub registry_pull_qps: i32,
    /// Maximum image pulls in a burst.
    #[default = 10]
    pub registry_burst: i32,
    /// Whether images are pulled one at a time. If not set, true unless `maxParallelImagePulls` is greater than 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serialize_image_pulls: Option<bool>,
    /// Maximum number of concurrent image pulls; not set for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel_image_pulls: Option<i32>,
    #[serde(
        deserialize_with = "empty_is_none",
        rename = "imagePullCredentialsVerificationPolicy",
        skip_serializing_if = "Option::is_none"
    )]
    pub credentials_verification: Option<CredentialsVerification>,
    /// Images that need no credentials under [`CredentialsVerification::NeverVerifyAllowlistedImages`].
    #[serde(skip_serializing_if = "is_zero")]
    pub preloaded_images_verification_allowlist: Vec<String>,
    /// Minimum age of an unused image before it may be removed.
    #[serde(rename = "imageMinimumGCAge")]
    #[default(GoDuration::from_secs(120))]
    pub image_minimum_gc_age: GoDuration,
    /// Age at which an unused image is removed; zero for no limit.
    #[serde(rename = "imageMaximumGCAge")]
    pub image_maximum_gc_age: GoDuration,
    /// Disk usage at which image garbage collection starts; 100 disables it.
    #[serde(rename = "imageGCHighThresholdPercent")]
    #[default = 85]
    pub image_gc_high_threshold_percent: i32,
    /// Disk usage at which image garbage collection stops.
    #[serde(rename = "imageGCLowThresholdPercent")]
    #[default = 80]
    pub image_gc_low_threshold_percent: i32,
}

/// For which images that are already on the node the pull credentials of a pod are verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CredentialsVerification {
    /// For no image.
    NeverVerify,
    /// For images that the agent pulled.
    NeverVerifyPreloadedImages,
    /// For all images that are not on the allowlist.
    NeverVerifyAllowlistedImages,
    /// For all images.
    AlwaysVerify,
}

impl Images {
    pub fn pulls_one_at_a_time(&self) -> bool {
        self.serialize_image_pulls
            .unwrap_or_else(|| self.max_parallel_image_pulls.is_none_or(|limit| limit < 2))
    }

    pub(super) fn apply_defaults(&mut self) {
        let default = Self::default();
        default_if_zero(&mut self.container_runtime_endpoint, default.container_runtime_endpoint);
        default_if_zero(&mut self.runtime_request_timeout, default.runtime_request_timeout);
        default_if_zero(&mut self.registry_burst, default.registry_burst);
        default_if_zero(&mut self.image_minimum_gc_age, default.image_minimum_gc_age);
        self.serialize_image_pulls = Some(self.pulls_one_at_a_time());
    }

    pub(super) fn apply_gated_defaults(&mut self, gates: &FeatureGates) {
        if gates.enabled(Gate::KubeletEnsureSecretPulledImages) {
            self.credentials_verification.get_or_insert(CredentialsVerification::NeverVerifyPreloadedImages);
        }
    }
}
