//! Pod statuses cached as JSON, which takes a quarter of the memory of the decoded structures: the agent holds the
//! statuses of all pods all the time, and reads one only when its pod changes.

use k8s_openapi::api::core::v1::PodStatus;
use model::PodUid;

use crate::pipeline::tables::Reader;

/// A pod status encoded as JSON.
#[derive(Debug, PartialEq, Eq)]
pub struct CachedStatus(Box<[u8]>);

impl CachedStatus {
    /// Encodes a status. Times are truncated to seconds, as everywhere in the API.
    #[must_use]
    pub fn of(status: &PodStatus) -> Self {
        // Writing to memory cannot fail, and every map key is a string.
        Self(serde_json::to_vec(status).unwrap_or_default().into())
    }

    #[must_use]
    pub fn read(&self) -> PodStatus {
        serde_json::from_slice(&self.0).unwrap_or_default()
    }

    /// The status as a JSON value.
    ///
    /// # Errors
    /// Never for a value that `of` encoded.
    pub fn to_value(&self) -> serde_json::Result<serde_json::Value> {
        serde_json::from_slice(&self.0)
    }
}

impl Reader<CachedStatus> {
    #[must_use]
    pub fn status(&self, uid: &PodUid) -> Option<PodStatus> {
        self.get(uid).map(|cached| cached.read())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn decodes_the_status_that_was_encoded() {
        let status: PodStatus = serde_json::from_value(json!({
            "phase": "Running", "startTime": "2026-01-02T03:04:05Z", "podIPs": [], "qosClass": "Burstable",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": null}],
            "containerStatuses": [{"name": "a", "image": "i", "imageID": "", "ready": false, "restartCount": 1,
                "allocatedResources": {"cpu": "1m"}, "state": {"terminated": {"exitCode": 137}}}],
        }))
        .unwrap();
        let cached = CachedStatus::of(&status);
        assert_eq!(cached.read(), status);
        assert_eq!(CachedStatus::of(&cached.read()), cached);
        assert_eq!(CachedStatus::of(&PodStatus::default()).read(), PodStatus::default());
    }
}
