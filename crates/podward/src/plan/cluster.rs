//! How ConfigMaps and Secrets are fetched from the API server.

use std::time::Duration;

use agent::cluster::cluster_objects::ChangeDetectionStrategy;
use config::LoadedConfig;
use config::configuration::ChangeDetection;

/// Age at which the `Cache` strategy fetches an object again.
const OBJECT_CACHE_TTL: Duration = Duration::from_secs(60);

/// Settings that apply only with an API server.
#[derive(Clone, Debug)]
pub struct ClusterPlan {
    /// `configMapAndSecretChangeDetectionStrategy`.
    pub objects: ChangeDetectionStrategy,
}

impl Default for ClusterPlan {
    fn default() -> Self {
        Self { objects: ChangeDetectionStrategy::Watch }
    }
}

#[must_use]
pub fn cluster_plan(loaded: &LoadedConfig) -> ClusterPlan {
    let objects = match loaded.config.api_client.change_detection {
        ChangeDetection::Watch => ChangeDetectionStrategy::Watch,
        ChangeDetection::Cache => ChangeDetectionStrategy::Cache(OBJECT_CACHE_TTL),
        ChangeDetection::Get => ChangeDetectionStrategy::Get,
    };
    ClusterPlan { objects }
}
