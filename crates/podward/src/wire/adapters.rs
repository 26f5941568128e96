//! The adapters that the wiring connects the stages to, one per port.

use std::sync::Arc;

use agent::metrics::Metrics;
use agent::pipeline::allocations::Allocations;
use ports::clock::Clock;
use ports::host::checkpoints::Checkpoints;
use ports::host::credential_sources::{CredentialFiles, CredentialPrograms};
use ports::host::env_files::EnvFiles;
use ports::host::filesystems::Filesystems;
use ports::host::folder_watch::FolderWatch;
use ports::host::host_facts::HostFacts;
use ports::host::kernel_log::KernelLog;
use ports::host::log_files::LogFiles;
use ports::host::logind::Logind;
use ports::host::memory_thresholds::MemoryThresholds;
use ports::host::node_logs::NodeLogs;
use ports::host::packet_filter::PacketFilter;
use ports::host::pod_cgroups::PodCgroups;
use ports::host::pod_folders::PodFolders;
use ports::host::pod_volumes::PodVolumes;
use ports::host::process_watch::ProcessWatch;
use ports::host::pull_records::PullRecords;
use ports::host::rotated_logs::RotatedLogs;
use ports::host::system_cgroups::SystemCgroups;
use ports::host::termination_messages::TerminationMessages;
use ports::host::usage::{DiskUsage, Usage};
use ports::host::user_namespaces::UserNamespaceRecords;
use ports::outbound::Outbound;
use ports::plugins::plugin_registry::{PluginRegistration, PluginSockets};
use ports::runtime::Runtime;
use ports::served::pod_logs::PodLogs;

use super::{ApiServer, Serving};

#[derive(Clone)]
pub struct Adapters {
    pub runtime: Arc<dyn Runtime>,
    /// As container IDs show it, such as `containerd`.
    pub runtime_name: String,
    pub processes: Arc<dyn ProcessWatch>,
    pub env_files: Arc<dyn EnvFiles>,
    pub folders: Arc<dyn PodFolders>,
    pub logs: Arc<dyn PodLogs>,
    pub messages: Arc<dyn TerminationMessages>,
    pub volumes: Arc<dyn PodVolumes>,
    pub allocations: Allocations,
    pub cgroups: Arc<dyn PodCgroups>,
    /// Cgroups of processes that belong to no pod.
    pub system_cgroups: Arc<dyn SystemCgroups>,
    pub host: Arc<dyn HostFacts>,
    pub credential_files: Arc<dyn CredentialFiles>,
    pub credential_programs: Arc<dyn CredentialPrograms>,
    pub pull_records: Arc<dyn PullRecords>,
    pub user_namespaces: Arc<dyn UserNamespaceRecords>,
    pub rotated_logs: Arc<dyn RotatedLogs>,
    pub node_logs: Arc<dyn NodeLogs>,
    pub log_files: Arc<dyn LogFiles>,
    pub filesystems: Arc<dyn Filesystems>,
    pub usage: Arc<dyn Usage>,
    pub memory_thresholds: Arc<dyn MemoryThresholds>,
    pub disk_usage: Arc<dyn DiskUsage>,
    /// State that survives a restart of the agent.
    pub checkpoints: Arc<dyn Checkpoints>,
    /// Checkpoints in upstream's format and location.
    pub state_files: Arc<dyn Checkpoints>,
    /// Sockets of plugins that register themselves by the socket.
    pub plugin_sockets: Arc<dyn PluginSockets>,
    pub plugin_registration: Arc<dyn PluginRegistration>,
    pub watch: Arc<dyn FolderWatch>,
    pub outbound: Arc<dyn Outbound>,
    pub kernel_log: Arc<dyn KernelLog>,
    pub logind: Arc<dyn Logind>,
    pub packet_filter: Arc<dyn PacketFilter>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
    /// `None` on a standalone node.
    pub api: Option<ApiServer>,
    /// `None` when the main port is closed.
    pub serving: Option<Serving>,
}
