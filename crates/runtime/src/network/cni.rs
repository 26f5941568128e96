//! Networks that CNI plugins make, as the CNI specification describes for versions 0.1.0 to 1.1.0.
//!
//! An attachment is recorded before the first plugin is executed, and its record is removed after the last one has deleted it. So
//! tear-down needs neither the configuration of today nor the memory of the process.

mod attachments;
pub(super) mod config;
mod plugin;
mod result;
mod stdin;
mod version;

use std::collections::HashSet;
use std::net::IpAddr;
use std::path::PathBuf;

use serde_json::{Value, json};
use tokio::sync::RwLock;

use attachments::{AttachmentRecord, AttachmentRecords};
use config::{NetworkConfig, Plugin};
use plugin::{Command, Invocation, PluginError};
pub use result::{AddResult, InvalidResult};
use version::Version;

use super::cidr::Cidr;
use super::errors::NetworkFailure;
use super::namespaces::open_namespace;
use super::pod_links::POD_LINK;
use super::request::{Bandwidth, PodNetworkRequest};
use super::settings::NetworkSettings;

/// GC, STATUS and their place in the configuration.
const SINCE_GC: Version = Version::new(1, 1, 0);
const SINCE_CHECK: Version = Version::new(0, 4, 0);

#[derive(Debug)]
pub(super) struct CniNetworks {
    config_folder: PathBuf,
    binary_folders: Vec<PathBuf>,
    records: AttachmentRecords,
    /// Plugins must not add or delete while they collect garbage.
    collection: RwLock<()>,
}

impl CniNetworks {
    pub(super) fn open(settings: &NetworkSettings) -> Result<Self, NetworkFailure> {
        Ok(Self {
            config_folder: settings.cni_config_folder.clone(),
            binary_folders: settings.cni_binary_folders.clone(),
            records: AttachmentRecords::open(&settings.state_folder)?,
            collection: RwLock::new(()),
        })
    }

    /// The configuration that applies to new pods; `None` without one. Read each time, so that a change applies at once.
    pub(super) fn configuration(&self) -> Result<Option<NetworkConfig>, NetworkFailure> {
        config::load_first(&self.config_folder)
    }

    pub(super) fn has(&self, sandbox_id: &str) -> Result<bool, NetworkFailure> {
        Ok(!self.records.of_sandbox(sandbox_id)?.is_empty())
    }

    /// Executes the plugins for a pod. After an error, the caller tears the pod down.
    pub(super) async fn add(
        &self,
        network: &NetworkConfig,
        request: &PodNetworkRequest,
        ranges: &[Cidr],
    ) -> Result<Vec<IpAddr>, NetworkFailure> {
        let _no_collection = self.collection.read().await;
        let bandwidth = Bandwidth::from_annotations(&request.annotations)?;
        let mut record =
            AttachmentRecord::new(network, request, stdin::capability_values(request, bandwidth, ranges));
        self.records.save(&record)?;
        let mut previous: Option<Value> = None;
        for plugin in &network.plugins {
            let input = stdin::for_plugin(network, plugin, &record.capability_args, previous.as_ref());
            let output = self.execute(plugin, Command::Add, Some(&record), &input).await;
            let output = output.map_err(|error| error.of(network, plugin))?;
            let result = AddResult::parse(&output, network.version);
            let result = result.map_err(|error| PluginError::Result(error).of(network, plugin))?;
            previous = Some(result.into_version(network.version));
        }
        record.result = previous;
        self.records.save(&record)?;
        let result = record.result.as_ref().map_or(Ok(AddResult::default()), AddResult::from_value);
        let addresses = result.map(|result| result.addresses_of(POD_LINK)).unwrap_or_default();
        if addresses.is_empty() {
            return Err(NetworkFailure::NoPluginAddress { network: network.name.clone() });
        }
        Ok(addresses)
    }

    /// Executes the plugins that were executed for this sandbox, in reverse order. Success if there were none.
    pub(super) async fn delete(&self, sandbox_id: &str) -> Result<(), NetworkFailure> {
        let _no_collection = self.collection.read().await;
        self.delete_recorded(sandbox_id).await
    }

    async fn delete_recorded(&self, sandbox_id: &str) -> Result<(), NetworkFailure> {
        for mut record in self.records.of_sandbox(sandbox_id)? {
            if open_namespace(&record.netns).is_err() {
                record.netns = PathBuf::new();
            }
            let network = record.network()?;
            for plugin in network.plugins.iter().rev() {
                let input =
                    stdin::for_plugin(&network, plugin, &record.capability_args, record.result.as_ref());
                match self.execute(plugin, Command::Delete, Some(&record), &input).await {
                    Err(error) if !error.means_deleted(&record) => return Err(error.of(&network, plugin)),
                    Ok(_) | Err(_) => {}
                }
            }
            self.records.remove(&record)?;
        }
        Ok(())
    }

    /// Whether the plugins find the pod's network as they have made it. Success for pods without plugins.
    pub(super) async fn check(&self, sandbox_id: &str) -> Result<(), NetworkFailure> {
        let _no_collection = self.collection.read().await;
        for record in self.records.of_sandbox(sandbox_id)? {
            let network = record.network()?;
            if network.version < SINCE_CHECK || network.disable_check || record.result.is_none() {
                continue;
            }
            for plugin in &network.plugins {
                let input =
                    stdin::for_plugin(&network, plugin, &record.capability_args, record.result.as_ref());
                let checked = self.execute(plugin, Command::Check, Some(&record), &input).await;
                checked.map_err(|error| error.of(&network, plugin))?;
            }
        }
        Ok(())
    }

    /// Whether the plugins exist, and say that they are ready.
    pub(super) async fn status(&self, network: &NetworkConfig) -> Result<(), NetworkFailure> {
        for plugin in &network.plugins {
            plugin::find(&self.binary_folders, &plugin.kind).map_err(|error| error.of(network, plugin))?;
            if network.version >= SINCE_GC {
                let input = stdin::for_plugin(network, plugin, &json!({}), None);
                let status = self.execute(plugin, Command::Status, None, &input).await;
                status.map_err(|error| error.of(network, plugin))?;
            }
        }
        Ok(())
    }

    /// Deletes the attachments of sandboxes that no longer exist, and lets the plugins remove what they have kept for others.
    pub(super) async fn collect_garbage(&self, live: &HashSet<&str>) -> Result<(), NetworkFailure> {
        let _exclusive = self.collection.write().await;
        let recorded = self.records.all()?;
        let mut failure = None;
        for record in recorded.iter().filter(|record| !live.contains(record.container_id.as_str())) {
            // One plugin that fails must not keep the others from their work.
            failure = self.delete_recorded(&record.container_id).await.err().or(failure);
        }
        let Some(network) = self.configuration()? else { return failure.map_or(Ok(()), Err) };
        if network.version >= SINCE_GC && !network.disable_gc {
            let valid: Vec<Value> = recorded
                .iter()
                .filter(|record| live.contains(record.container_id.as_str()))
                .filter(|record| record.network_name == network.name)
                .map(|record| json!({ "containerID": record.container_id, "ifname": record.if_name }))
                .collect();
            for plugin in &network.plugins {
                let mut input = stdin::for_plugin(&network, plugin, &json!({}), None);
                if let Some(object) = input.as_object_mut() {
                    object.insert("cni.dev/valid-attachments".to_owned(), Value::Array(valid.clone()));
                }
                let collected = self.execute(plugin, Command::Gc, None, &input).await;
                failure = collected.map_err(|error| error.of(&network, plugin)).err().or(failure);
            }
        }
        failure.map_or(Ok(()), Err)
    }

    async fn execute(
        &self,
        plugin: &Plugin,
        command: Command,
        attachment: Option<&AttachmentRecord>,
        input: &Value,
    ) -> Result<Vec<u8>, PluginError> {
        let program = plugin::find(&self.binary_folders, &plugin.kind)?;
        let invocation = Invocation { program: &program, command, attachment, folders: &self.binary_folders };
        plugin::execute(&invocation, input.to_string().as_bytes(), plugin::TIMEOUT).await
    }
}

#[cfg(test)]
mod tests;
