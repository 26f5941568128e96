//! The world as the wiring takes it: one port each.

use std::sync::Arc;

use agent::allocations::Allocations;
use agent::metrics::Metrics;
use ports::checkpoints::Checkpoints;
use ports::clock::Clock;
use ports::credential_sources::{CredentialFiles, CredentialPrograms};
use ports::env_files::EnvFiles;
use ports::filesystems::Filesystems;
use ports::folder_watch::FolderWatch;
use ports::host_facts::HostFacts;
use ports::kernel_log::KernelLog;
use ports::log_files::LogFiles;
use ports::logind::Logind;
use ports::memory_thresholds::MemoryThresholds;
use ports::node_logs::NodeLogs;
use ports::outbound::Outbound;
use ports::packet_filter::PacketFilter;
use ports::pod_cgroups::PodCgroups;
use ports::pod_folders::PodFolders;
use ports::pod_logs::PodLogs;
use ports::pod_volumes::PodVolumes;
use ports::process_watch::ProcessWatch;
use ports::pull_records::PullRecords;
use ports::rotated_logs::RotatedLogs;
use ports::runtime::Runtime;
use ports::system_cgroups::SystemCgroups;
use ports::termination_messages::TerminationMessages;
use ports::usage::{DiskUsage, Usage};
use ports::user_namespaces::UserNamespaceRecords;

use super::{ApiServer, Serving};

/// Everything outside the agent.
#[derive(Clone)]
pub struct World {
    /// The container runtime.
    pub runtime: Arc<dyn Runtime>,
    /// Its name, as container ids show it.
    pub runtime_name: String,
    /// Exits of processes.
    pub processes: Arc<dyn ProcessWatch>,
    /// Files that variables come from.
    pub env_files: Arc<dyn EnvFiles>,
    /// Folders of pods.
    pub folders: Arc<dyn PodFolders>,
    /// Logs of containers.
    pub logs: Arc<dyn PodLogs>,
    /// Last words of containers.
    pub messages: Arc<dyn TerminationMessages>,
    /// Volumes of pods.
    pub volumes: Arc<dyn PodVolumes>,
    /// What was granted to pods.
    pub allocations: Allocations,
    /// Cgroups of pods.
    pub cgroups: Arc<dyn PodCgroups>,
    /// Cgroups of processes that belong to no pod.
    pub system_cgroups: Arc<dyn SystemCgroups>,
    /// Facts of the machine.
    pub host: Arc<dyn HostFacts>,
    /// The node's credential files.
    pub credential_files: Arc<dyn CredentialFiles>,
    /// Credential provider programs.
    pub credential_programs: Arc<dyn CredentialPrograms>,
    /// What is written down of image pulls.
    pub pull_records: Arc<dyn PullRecords>,
    /// Ranges of user ids that pods have.
    pub user_namespaces: Arc<dyn UserNamespaceRecords>,
    /// Log files to be rotated.
    pub rotated_logs: Arc<dyn RotatedLogs>,
    /// Logs of the node itself.
    pub node_logs: Arc<dyn NodeLogs>,
    /// Log files to be read.
    pub log_files: Arc<dyn LogFiles>,
    /// Room on disks.
    pub filesystems: Arc<dyn Filesystems>,
    /// What cgroups and networks use.
    pub usage: Arc<dyn Usage>,
    /// Word from the kernel that memory runs short.
    pub memory_thresholds: Arc<dyn MemoryThresholds>,
    /// What folders use.
    pub disk_usage: Arc<dyn DiskUsage>,
    /// State that outlives the agent.
    pub checkpoints: Arc<dyn Checkpoints>,
    /// The same in upstream's form and place.
    pub state_files: Arc<dyn Checkpoints>,
    /// Changes of files.
    pub watch: Arc<dyn FolderWatch>,
    /// Requests to what runs in pods.
    pub outbound: Arc<dyn Outbound>,
    /// What the kernel says.
    pub kernel_log: Arc<dyn KernelLog>,
    /// Who shuts the machine down.
    pub logind: Arc<dyn Logind>,
    /// The packet filter.
    pub packet_filter: Arc<dyn PacketFilter>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Metrics, which adapters may count into.
    pub metrics: Arc<Metrics>,
    /// The API server, if the node belongs to a cluster.
    pub api: Option<ApiServer>,
    /// With what the main port answers, if there is one.
    pub serving: Option<Serving>,
}
