//! Allocation of devices to containers.

use decide::devices::{DeviceChoice, DeviceChoiceError, DeviceRequest, known_requests};
use model::{ContainerRef, Rejection};
use ports::plugins::device_plugin::PreferenceQuery;

use super::*;

/// Why a container does not get its devices. The texts are upstream's.
#[derive(Debug, thiserror::Error)]
pub(super) enum AllocationError {
    #[error(transparent)]
    Choice(#[from] DeviceChoiceError),
    #[error("unknown Device Plugin {0}")]
    UnknownPlugin(String),
    #[error("endpoint {0} has been stopped")]
    Stopped(String),
    #[error("device plugin GetPreferredAllocation rpc failed with err: {0}")]
    Preference(String),
    #[error("{0}")]
    Allocate(String),
}

impl PluginDevices {
    /// Allocates the devices of a container. A container that has devices keeps them. Does not wait unless a plugin must be
    /// called.
    ///
    /// # Errors
    /// When a resource has too few healthy devices, or its plugin fails. What the container got of other resources is
    /// recorded; the caller releases it.
    pub async fn allocate(
        &self,
        pod: &Pod,
        container: ContainerRef<'_>,
        nodes: Option<NumaMask>,
    ) -> Result<(), Rejection> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let requests = {
            let mut table = shared.table.lock();
            let requests = known_requests(&table.state, pod, container.container);
            if !requests.is_empty() {
                table.state.start_pod(&pod.uid);
            }
            requests
        };
        let name = &container.container.name;
        for (resource, count) in &requests {
            let request = DeviceRequest { uid: &pod.uid, container: name, resource, count: *count };
            shared.allocate(&request, nodes).await.map_err(|error| rejection(&error))?;
        }
        if !requests.is_empty() {
            shared.table.lock().state.finish_container(pod, name);
        }
        Ok(())
    }
}

fn rejection(error: &AllocationError) -> Rejection {
    let message = format!("Allocate failed due to {error}, which is unexpected");
    Rejection::at_admission("UnexpectedAdmissionError", message)
}

impl Shared {
    pub(super) async fn allocate(
        &self,
        request: &DeviceRequest<'_>,
        nodes: Option<NumaMask>,
    ) -> Result<(), AllocationError> {
        let turn = self.table.lock().turns.entry(request.resource.to_owned()).or_default().clone();
        let _turn = turn.lock().await;
        let (choice, plugin) = {
            let table = self.table.lock();
            let Some(choice) = table.state.choose(request, nodes)? else { return Ok(()) };
            (choice, table.serving(request.resource)?)
        };
        let devices = chosen(choice, &*plugin).await?;
        let started = Instant::now();
        let answer = plugin.allocate(&devices).await;
        self.metrics.devices.allocated(request.resource, started.elapsed());
        let answer = answer.map_err(|error| AllocationError::Allocate(error.0))?;
        self.table.lock().state.record(request, &devices, answer);
        self.file.mark_changed();
        Ok(())
    }
}

/// Completes a choice with the devices that the plugin prefers.
async fn chosen(choice: DeviceChoice, plugin: &dyn DevicePlugin) -> Result<Vec<String>, AllocationError> {
    let available = choice.available().filter(|_| plugin.options().offers_preferences);
    let Some(available) = available else { return Ok(choice.complete(&[])) };
    let query = PreferenceQuery { available, must_include: choice.certain().to_vec(), size: choice.size() };
    let preferred = plugin.prefer(&query).await.map_err(|error| AllocationError::Preference(error.0))?;
    Ok(choice.complete(&preferred))
}

impl DeviceTable {
    /// The connection to a plugin that has not stopped.
    pub(super) fn serving(&self, resource: &str) -> Result<Arc<dyn DevicePlugin>, AllocationError> {
        let plugin = self.plugins.get(resource);
        let plugin = plugin.ok_or_else(|| AllocationError::UnknownPlugin(resource.to_owned()))?;
        let connection = plugin.connection.clone().filter(|_| plugin.stopped_at.is_none());
        connection.ok_or_else(|| AllocationError::Stopped(resource.to_owned()))
    }
}
