//! Devices of device plugins: the registered plugins, their devices, and which container owns which.
//!
//! The sync loop allocates and releases devices, the pod runtime reads what a container gets, and the stage `device_plugins`
//! follows the plugins. A container is created only after its devices are on disk ([`PluginDevices::flush`]).
//!
//! # Concurrency
//! The state is locked for short, and never during a call of a plugin. Allocations of one resource exclude each other, so
//! that a device is chosen, allocated and recorded without a gap.
//!
//! # Restart
//! The checkpoint names the resources and the owners of devices, not the plugins: those register again. Until then a
//! resource has no devices, and containers that run keep theirs.

mod allocation;
mod checkpoint;
mod container_start;
mod registration;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use decide::devices::{DeviceCount, DeviceState};
use k8s_openapi::api::core::v1::{Container, ResourceStatus};
use model::{NumaMask, Pod, PodUid, ProviderHints, ResourceAmounts};
use parking_lot::Mutex;
use ports::host::checkpoints::Checkpoints;
use ports::host::pod_folders::FileError;
use ports::plugins::device_plugin::{DevicePlugin, DevicePluginConnector};
use ports::served::pod_resources::AllocatedDevice;
use timing::KeySender;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::pipeline::resource_state_file::ResourceStateFile;
pub use registration::RegisteredPlugin;

/// Time after which the devices of a stopped plugin leave the node.
const STOPPED_GRACE: Duration = Duration::from_secs(300);

/// Devices by resource, for the node status. Resources whose plugin has ended stay with zero devices.
pub type DeviceCounts = BTreeMap<String, DeviceCount>;

/// Clones share their state.
#[derive(Clone, Default)]
pub struct PluginDevices {
    shared: Option<Arc<Shared>>,
}

pub struct PluginDevicesDeps {
    pub connector: Arc<dyn DevicePluginConnector>,
    /// The folder of the registration socket, where plugins create theirs.
    pub folder: PathBuf,
    /// Checkpoints in that folder.
    pub files: Arc<dyn Checkpoints>,
    /// NUMA nodes of the machine.
    pub machine: NumaMask,
    pub metrics: Arc<Metrics>,
}

struct Shared {
    table: Mutex<DeviceTable>,
    connector: Arc<dyn DevicePluginConnector>,
    folder: PathBuf,
    machine: NumaMask,
    file: ResourceStateFile,
    metrics: Arc<Metrics>,
    counts: watch::Sender<DeviceCounts>,
    listeners: Mutex<Vec<KeySender<PodUid>>>,
    registered: mpsc::UnboundedSender<RegisteredPlugin>,
    receiver: Mutex<Option<mpsc::UnboundedReceiver<RegisteredPlugin>>>,
    registration_problem: Mutex<Option<String>>,
}

#[derive(Default)]
struct DeviceTable {
    state: DeviceState,
    plugins: BTreeMap<String, Plugin>,
    /// Resources whose plugin was dropped. The Node keeps them, with zero devices.
    dropped: BTreeSet<String>,
    /// Held while devices of a resource are allocated.
    turns: BTreeMap<String, Arc<tokio::sync::Mutex<()>>>,
    registrations: u64,
}

/// The plugin of a resource.
struct Plugin {
    /// `None` until the plugin of a resource in the checkpoint registers.
    connection: Option<Arc<dyn DevicePlugin>>,
    socket: PathBuf,
    /// Tells registrations of the same resource apart.
    number: u64,
    stopped_at: Option<Instant>,
    /// Ends the list of devices.
    gone: CancellationToken,
}

impl PluginDevices {
    /// Restores the owners of devices. A checkpoint that cannot be used is logged and ignored, as upstream does.
    pub async fn restore(deps: PluginDevicesDeps) -> Self {
        let PluginDevicesDeps { connector, folder, files, machine, metrics } = deps;
        let table = checkpoint::restored(&*files, &*connector).await;
        let (registered, receiver) = mpsc::unbounded_channel();
        let counts = watch::Sender::new(table.counts());
        let shared = Shared {
            table: Mutex::new(table),
            connector,
            folder,
            machine,
            file: ResourceStateFile::new(files, decide::devices::checkpoint::DEVICE_CHECKPOINT),
            metrics,
            counts,
            listeners: Mutex::default(),
            registered,
            receiver: Mutex::new(Some(receiver)),
            registration_problem: Mutex::default(),
        };
        Self { shared: Some(Arc::new(shared)) }
    }

    /// Registrations, for the stage `device_plugins`. `None` without device plugins, and after the first call.
    #[must_use]
    pub fn registrations(&self) -> Option<mpsc::UnboundedReceiver<RegisteredPlugin>> {
        self.shared.as_ref()?.receiver.lock().take()
    }

    /// Why no plugin can register, for the health check.
    #[must_use]
    pub fn registration_problem(&self) -> Option<String> {
        self.shared.as_ref()?.registration_problem.lock().clone()
    }

    pub fn set_registration_problem(&self, problem: Option<String>) {
        if let Some(shared) = &self.shared {
            *shared.registration_problem.lock() = problem;
        }
    }

    /// Sends the UID of each pod whose devices change their health to `listener`.
    pub fn subscribe(&self, listener: KeySender<PodUid>) {
        if let Some(shared) = &self.shared {
            shared.listeners.lock().push(listener);
        }
    }

    /// Number of devices by resource.
    #[must_use]
    pub fn counts(&self) -> DeviceCounts {
        self.shared.as_ref().map(|shared| shared.counts.borrow().clone()).unwrap_or_default()
    }

    pub(crate) fn watch_counts(&self) -> Option<watch::Receiver<DeviceCounts>> {
        self.shared.as_ref().map(|shared| shared.counts.subscribe())
    }

    /// Topology hints for one container.
    #[must_use]
    pub fn container_hints(&self, pod: &Pod, container: &Container) -> ProviderHints {
        self.read(|shared, table| table.state.container_hints(pod, container, shared.machine))
    }

    /// Topology hints for all containers of a pod together.
    #[must_use]
    pub fn pod_hints(&self, pod: &Pod) -> ProviderHints {
        self.read(|shared, table| table.state.pod_hints(pod, shared.machine))
    }

    /// The containers of a pod that own devices.
    #[must_use]
    pub fn owners(&self, uid: &PodUid) -> BTreeSet<String> {
        self.read(|_, table| table.state.records.of_pod(uid).map(|(key, _)| key.container.clone()).collect())
    }

    /// Releases the devices of all containers for which `keep` returns false.
    pub fn retain(&self, keep: impl Fn(&PodUid, &str) -> bool) {
        let Some(shared) = &self.shared else { return };
        let mut table = shared.table.lock();
        if table.state.retain(keep) {
            shared.file.mark_changed();
        }
    }

    /// Allocated devices by resource, if the pod owns some. The node must not appear to have fewer, for example while a
    /// plugin restarts, because the devices of the pod would not fit.
    #[must_use]
    pub fn allocated_amounts(&self, uid: &PodUid) -> ResourceAmounts {
        self.read(|_, table| {
            let records = &table.state.records;
            if records.of_pod(uid).next().is_none() {
                return ResourceAmounts::new();
            }
            let amount = |count| i64::try_from(count).unwrap_or(i64::MAX);
            records.counts().map(|(resource, count)| (resource.to_owned(), amount(count))).collect()
        })
    }

    /// Health of the devices of each container of a pod.
    #[must_use]
    pub fn resource_health(&self, uid: &PodUid) -> BTreeMap<String, Vec<ResourceStatus>> {
        self.read(|_, table| table.state.resource_health(uid))
    }

    /// The devices of a container: one entry for each NUMA node of each device.
    #[must_use]
    pub fn of_container(&self, uid: &PodUid, container: &str) -> Vec<AllocatedDevice> {
        self.read(|_, table| {
            let own = table.state.records.of_pod(uid).filter(|(key, _)| key.container == container);
            let entries = own.flat_map(|(key, record)| {
                record.ids.iter().flat_map(|(node, ids)| ids.iter().map(|id| (&key.resource, id, *node)))
            });
            let entry = |(resource, id, node): (&String, &String, i64)| AllocatedDevice {
                resource: resource.clone(),
                id: id.clone(),
                node: Some(node).filter(|node| *node != decide::devices::NO_NODE),
            };
            entries.map(entry).collect()
        })
    }

    /// All healthy devices.
    #[must_use]
    pub fn allocatable(&self) -> Vec<AllocatedDevice> {
        self.read(|_, table| {
            let mut found = Vec::new();
            for (resource, healthy) in table.state.inventory.all_healthy() {
                let devices = table.state.inventory.devices(resource);
                for device in devices.filter(|device| healthy.contains(&device.id)) {
                    let nodes: Vec<Option<i64>> = match device.nodes.as_slice() {
                        [] => vec![None],
                        nodes => nodes.iter().copied().map(Some).collect(),
                    };
                    found.extend(nodes.into_iter().map(|node| AllocatedDevice {
                        resource: resource.to_owned(),
                        id: device.id.clone(),
                        node,
                    }));
                }
            }
            found
        })
    }

    /// Waits for the next change that is not saved.
    pub async fn changed(&self) {
        match &self.shared {
            Some(shared) => shared.file.changed().await,
            None => std::future::pending().await,
        }
    }

    /// Waits until all changes are on disk.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub async fn flush(&self) -> Result<(), FileError> {
        match &self.shared {
            Some(shared) => shared.file.flush(|| checkpoint::encode(&shared.table.lock().state)).await,
            None => Ok(()),
        }
    }

    fn read<T: Default>(&self, read: impl FnOnce(&Shared, &DeviceTable) -> T) -> T {
        self.shared.as_ref().map(|shared| read(shared, &shared.table.lock())).unwrap_or_default()
    }
}

impl Shared {
    fn publish(&self, table: &DeviceTable) {
        let counts = table.counts();
        self.counts.send_if_modified(|known| {
            let is_change = *known != counts;
            *known = counts;
            is_change
        });
    }

    fn notify(&self, pods: &BTreeSet<PodUid>) {
        for listener in self.listeners.lock().iter() {
            // Fails only when the listening stage has ended.
            for uid in pods {
                listener.send(uid.clone());
            }
        }
    }
}

impl DeviceTable {
    fn counts(&self) -> DeviceCounts {
        let dropped = self.dropped.iter().map(|resource| (resource.clone(), DeviceCount::default()));
        let known = self.state.inventory.counts();
        dropped.chain(known.map(|(resource, count)| (resource.to_owned(), count))).collect()
    }
}
