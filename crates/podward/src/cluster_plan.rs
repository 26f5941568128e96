//! What the configuration says about what pods take from the API server.

use std::time::Duration;

use agent::cluster_objects::Strategy;
use config::Loaded;
use config::configuration::ChangeDetection;

/// How long the Cache strategy keeps an object.
const CACHED_FOR: Duration = Duration::from_secs(60);

/// Settings that count only with an API server.
#[derive(Clone, Debug)]
pub struct ClusterPlan {
    /// `configMapAndSecretChangeDetectionStrategy`.
    pub objects: Strategy,
}

impl Default for ClusterPlan {
    fn default() -> Self {
        Self { objects: Strategy::Watch }
    }
}

/// Makes the plan.
#[must_use]
pub fn cluster_plan(loaded: &Loaded) -> ClusterPlan {
    let objects = match loaded.config.api_client.change_detection {
        ChangeDetection::Watch => Strategy::Watch,
        ChangeDetection::Cache => Strategy::Cache(CACHED_FOR),
        ChangeDetection::Get => Strategy::Get,
    };
    ClusterPlan { objects }
}
