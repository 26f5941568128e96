//! Statuses of pods as they are kept: written down, which takes a quarter of the memory that their structures take. A node
//! looks at the status of a pod when something happens to it, and keeps those of all pods all the time.

use k8s_openapi::api::core::v1::PodStatus;
use model::PodUid;

use crate::published::Reader;

/// A status, written down.
#[derive(Debug, PartialEq, Eq)]
pub struct KeptStatus(Box<[u8]>);

impl KeptStatus {
    /// Writes it down. Times are kept to the second, as everywhere in the API.
    #[must_use]
    pub fn of(status: &PodStatus) -> Self {
        // Writing to memory cannot fail, and every key of it is a text.
        Self(serde_json::to_vec(status).unwrap_or_default().into())
    }

    /// Reads it again.
    #[must_use]
    pub fn read(&self) -> PodStatus {
        serde_json::from_slice(&self.0).unwrap_or_default()
    }

    /// As an answer shows it.
    ///
    /// # Errors
    /// Never, if it was written here.
    pub fn to_value(&self) -> serde_json::Result<serde_json::Value> {
        serde_json::from_slice(&self.0)
    }
}

impl Reader<KeptStatus> {
    /// The status of a pod.
    #[must_use]
    pub fn status(&self, uid: &PodUid) -> Option<PodStatus> {
        self.get(uid).map(|kept| kept.read())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_written_down_is_read_again() {
        let status: PodStatus = serde_json::from_value(json!({
            "phase": "Running", "startTime": "2026-01-02T03:04:05Z", "podIPs": [], "qosClass": "Burstable",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": null}],
            "containerStatuses": [{"name": "a", "image": "i", "imageID": "", "ready": false, "restartCount": 1,
                "allocatedResources": {"cpu": "1m"}, "state": {"terminated": {"exitCode": 137}}}],
        }))
        .unwrap();
        let kept = KeptStatus::of(&status);
        assert_eq!(kept.read(), status);
        assert_eq!(KeptStatus::of(&kept.read()), kept);
        assert_eq!(KeptStatus::of(&PodStatus::default()).read(), PodStatus::default());
    }
}
