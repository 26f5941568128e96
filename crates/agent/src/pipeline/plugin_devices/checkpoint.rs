//! The checkpoint of devices.

use decide::devices::checkpoint::{DEVICE_CHECKPOINT, StoredDevices};
use decide::devices::{DeviceRecord, DeviceState};
use model::AllocatedDevices;
use ports::host::checkpoints::Checkpoints;
use ports::plugins::device_plugin::DevicePluginConnector;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{DeviceTable, Plugin};

pub(super) fn encode(state: &DeviceState) -> Vec<u8> {
    StoredDevices::of(state).encode()
}

pub(super) async fn restored(files: &dyn Checkpoints, connector: &dyn DevicePluginConnector) -> DeviceTable {
    let content = match files.load(DEVICE_CHECKPOINT).await {
        Ok(Some(content)) => content,
        Ok(None) => return DeviceTable::default(),
        Err(error) => {
            tracing::error!(%error, source = %error.source, "failed to read the checkpoint of devices, continuing without it");
            return DeviceTable::default();
        }
    };
    match StoredDevices::decode(&content) {
        Ok(stored) => table(stored, connector),
        Err(error) => {
            tracing::error!(%error, "the checkpoint of devices is unusable, continuing without it");
            DeviceTable::default()
        }
    }
}

/// Every plugin has stopped until it registers again.
fn table(stored: StoredDevices, connector: &dyn DevicePluginConnector) -> DeviceTable {
    let mut table = DeviceTable::default();
    for entry in stored.entries {
        let Some(options) = connector.decode(&entry.answer) else {
            tracing::error!(pod = %entry.key.uid, container = %entry.key.container, resource = %entry.key.resource, "the plugin's answer in the checkpoint is unusable, dropping the devices of the container");
            continue;
        };
        let answer = AllocatedDevices { encoded: entry.answer, options };
        table.state.records.insert(entry.key, DeviceRecord { ids: entry.ids, answer });
    }
    for resource in stored.registered.into_keys() {
        table.state.inventory.restore(&resource);
        let plugin = Plugin {
            connection: None,
            socket: Default::default(),
            number: 0,
            stopped_at: Some(Instant::now()),
            gone: CancellationToken::new(),
        };
        table.plugins.insert(resource, plugin);
    }
    table
}
