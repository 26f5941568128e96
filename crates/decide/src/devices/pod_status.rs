//! Health of the devices of a container, for the status of its pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ResourceHealth, ResourceStatus};
use model::PodUid;

use super::DeviceState;

impl DeviceState {
    /// The devices of each container of a pod. A device that no plugin has reported yet counts as healthy.
    pub fn resource_health(&self, uid: &PodUid) -> BTreeMap<String, Vec<ResourceStatus>> {
        let mut by_container: BTreeMap<String, Vec<ResourceStatus>> = BTreeMap::new();
        for (key, record) in self.records.of_pod(uid) {
            let health = |id: String| {
                let device = self.inventory.device(&key.resource, &id);
                let is_healthy = device.is_none_or(model::PluginDevice::is_healthy);
                let text = if is_healthy { "Healthy" } else { "Unhealthy" };
                ResourceHealth { health: Some(text.to_owned()), resource_id: id, ..ResourceHealth::default() }
            };
            by_container.entry(key.container.clone()).or_default().push(ResourceStatus {
                name: key.resource.clone(),
                resources: Some(record.devices().into_iter().map(health).collect()),
            });
        }
        by_container
    }
}
