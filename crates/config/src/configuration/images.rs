//! The container runtime, image pulls and image garbage collection.

use serde::{Deserialize, Serialize};

use super::{empty_is_none, is_zero, unless_set};
use crate::{
    duration::GoDuration,
    gates::{FeatureGates, Gate},
};

/// The container runtime and its images.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Images {
    /// Socket of the container runtime.
    pub container_runtime_endpoint: String,
    /// Socket of the image service; empty for the runtime's.
    #[serde(skip_serializing_if = "is_zero")]
    pub image_service_endpoint: String,
    /// Deadline of a runtime call that does not stream.
    pub runtime_request_timeout: GoDuration,
    /// Image pulls per second; 0 for no limit.
    #[serde(rename = "registryPullQPS")]
    pub registry_pull_qps: i32,
    /// Image pulls in one burst.
    pub registry_burst: i32,
    /// Whether images are pulled one at a time; not set means: unless several may be pulled at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serialize_image_pulls: Option<bool>,
    /// How many images may be pulled at once; not set for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel_image_pulls: Option<i32>,
    /// Which images already on the node need credentials to be used.
    #[serde(
        deserialize_with = "empty_is_none",
        rename = "imagePullCredentialsVerificationPolicy",
        skip_serializing_if = "Option::is_none"
    )]
    pub credentials_verification: Option<CredentialsVerification>,
    /// Images that need none, under [`CredentialsVerification::NeverVerifyAllowlistedImages`].
    #[serde(skip_serializing_if = "is_zero")]
    pub preloaded_images_verification_allowlist: Vec<String>,
    /// Youngest unused image that may be removed.
    #[serde(rename = "imageMinimumGCAge")]
    pub image_minimum_gc_age: GoDuration,
    /// Oldest unused image that is kept; zero for no limit.
    #[serde(rename = "imageMaximumGCAge")]
    pub image_maximum_gc_age: GoDuration,
    /// Disk usage at which images are removed; 100 for never.
    #[serde(rename = "imageGCHighThresholdPercent")]
    pub image_gc_high_threshold_percent: i32,
    /// Disk usage down to which images are removed.
    #[serde(rename = "imageGCLowThresholdPercent")]
    pub image_gc_low_threshold_percent: i32,
}

/// Which images already on the node need credentials to be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CredentialsVerification {
    /// None.
    NeverVerify,
    /// Those the agent pulled itself.
    NeverVerifyPreloadedImages,
    /// All but those on the allow list.
    NeverVerifyAllowlistedImages,
    /// All.
    AlwaysVerify,
}

impl Default for Images {
    fn default() -> Self {
        Self {
            container_runtime_endpoint: "unix:///run/containerd/containerd.sock".to_owned(),
            image_service_endpoint: String::new(),
            runtime_request_timeout: GoDuration::from_secs(120),
            registry_pull_qps: 5,
            registry_burst: 10,
            serialize_image_pulls: None,
            max_parallel_image_pulls: None,
            credentials_verification: None,
            preloaded_images_verification_allowlist: Vec::new(),
            image_minimum_gc_age: GoDuration::from_secs(120),
            image_maximum_gc_age: GoDuration::ZERO,
            image_gc_high_threshold_percent: 85,
            image_gc_low_threshold_percent: 80,
        }
    }
}

impl Images {
    /// Whether images are pulled one at a time.
    pub fn pulls_one_at_a_time(&self) -> bool {
        self.serialize_image_pulls
            .unwrap_or_else(|| self.max_parallel_image_pulls.is_none_or(|limit| limit < 2))
    }

    pub(super) fn complete(&mut self) {
        let default = Self::default();
        unless_set(&mut self.container_runtime_endpoint, default.container_runtime_endpoint);
        unless_set(&mut self.runtime_request_timeout, default.runtime_request_timeout);
        unless_set(&mut self.registry_burst, default.registry_burst);
        unless_set(&mut self.image_minimum_gc_age, default.image_minimum_gc_age);
        self.serialize_image_pulls = Some(self.pulls_one_at_a_time());
    }

    pub(super) fn complete_gated(&mut self, gates: &FeatureGates) {
        if gates.enabled(Gate::KubeletEnsureSecretPulledImages) {
            self.credentials_verification.get_or_insert(CredentialsVerification::NeverVerifyPreloadedImages);
        }
    }
}
