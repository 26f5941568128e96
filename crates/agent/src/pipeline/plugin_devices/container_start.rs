//! Options that devices add to a container when it is created.

use decide::devices::{DeviceRequest, known_requests};
use model::DeviceOptions;

use super::allocation::AllocationError;
use super::*;

impl PluginDevices {
    /// Prepares the devices of a container for its start, and returns what they add to it. Devices are allocated here only
    /// if the container has none, which happens when the checkpoint was lost.
    ///
    /// # Errors
    /// When a plugin fails. The message is upstream's.
    pub async fn prepare_container(&self, pod: &Pod, container: &Container) -> Result<DeviceOptions, String> {
        let Some(shared) = &self.shared else { return Ok(DeviceOptions::default()) };
        let requests = known_requests(&shared.table.lock().state, pod, container);
        for (resource, count) in requests.iter().filter(|(_, count)| **count > 0) {
            let request =
                DeviceRequest { uid: &pod.uid, container: &container.name, resource, count: *count };
            if shared.recorded(&request).is_none() {
                shared.allocate(&request, None).await.map_err(|error| error.to_string())?;
            }
            shared.pre_start(pod, &request).await?;
        }
        let table = shared.table.lock();
        Ok(table.state.records.options(&pod.uid, &container.name))
    }
}

impl Shared {
    fn recorded(&self, request: &DeviceRequest<'_>) -> Option<Vec<String>> {
        let table = self.table.lock();
        let record = table.state.records.get(request.uid, request.container, request.resource)?;
        Some(record.devices().into_iter().collect())
    }

    /// Calls the plugin if it asks for that. A plugin that has not registered since the start of the agent, or that was
    /// dropped, is not waited for: the container restarts with its recorded devices.
    async fn pre_start(&self, pod: &Pod, request: &DeviceRequest<'_>) -> Result<(), String> {
        let is_needed = {
            let table = self.table.lock();
            let connection =
                table.plugins.get(request.resource).and_then(|plugin| plugin.connection.as_ref());
            connection.is_some_and(|connection| connection.options().needs_pre_start)
        };
        if !is_needed {
            return Ok(());
        }
        let failed = |error: String| format!("device plugin PreStartContainer rpc failed with err: {error}");
        let plugin = self.table.lock().serving(request.resource);
        let plugin = plugin.map_err(|error: AllocationError| failed(error.to_string()))?;
        let devices = self.recorded(request).ok_or_else(|| {
            let (name, container, resource) = (&pod.uid, request.container, request.resource);
            format!("no devices found allocated in local cache for pod {name}, container {container}, resource {resource}")
        })?;
        plugin.pre_start(&devices).await.map_err(|error| failed(error.0))
    }
}
