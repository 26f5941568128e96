//! Creates the adapters of the machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent::metrics::Metrics;
use agent::pipeline::allocations::{ACTUATED, ALLOCATED, Allocations};
use agent::pipeline::exclusive_cpus::ExclusiveCpus;
use agent::pipeline::managed_resources::ManagedResources;
use agent::pipeline::pinned_memory::PinnedMemory;
use agent::pipeline::plugin_devices::{PluginDevices, PluginDevicesDeps};
use config::LoadedConfig;
use host::{
    ExecCredentialPrograms, FileCheckpoints, HostDiskUsage, HostFilesystems, HostLogind, HostNodeLogs,
    HostPluginSockets, HostPodCgroups, HostPodFolders, HostPodVolumes, HostUsage, InotifyFolderWatch,
    IptablesFilter, KernelLogDevice, MachineFacts, NodeCredentialFiles, PidfdProcessWatch, StateFiles,
};
use outbound::NetworkOutbound;
use plugins::{GrpcDevicePluginConnector, GrpcPluginRegistration};
use ports::clock::SystemClock;
use ports::host::checkpoints::Checkpoints;
use ports::runtime::Runtime;

use super::with_cause;
use crate::plan::Plan;
use crate::wire::{Adapters, ApiServer, Serving};

const SYSTEM_BUS: &str = "unix:path=/run/dbus/system_bus_socket";
const LOG_LINKS: &str = "/var/log/containers";

/// Results of the start that the adapters need.
pub(super) struct StartupFacts {
    pub(super) state: PathBuf,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) runtime_name: String,
    pub(super) cgroups: HostPodCgroups,
    pub(super) facts: MachineFacts,
    pub(super) usage: HostUsage,
    pub(super) allocations: Allocations,
    pub(super) metrics: Arc<Metrics>,
    pub(super) api: Option<ApiServer>,
    pub(super) serving: Option<Serving>,
}

pub(super) fn adapters(loaded: &LoadedConfig, plan: &Plan, found: StartupFacts) -> Adapters {
    let root = &loaded.flags.root_dir;
    let folders = Arc::new(HostPodFolders::new(root, &plan.settings.pod_logs_dir, LOG_LINKS));
    // The attach/detach controller attaches volumes where it is enabled.
    let by_controller = found.api.is_some() && loaded.config.volumes.enable_controller_attach_detach;
    let attaches_as = (!by_controller).then(|| plan.settings.name.clone());
    Adapters {
        allocations: found.allocations,
        runtime: found.runtime,
        runtime_name: found.runtime_name,
        processes: Arc::new(PidfdProcessWatch),
        env_files: folders.clone(),
        logs: folders.clone(),
        folders: folders.clone(),
        messages: folders.clone(),
        volumes: Arc::new(
            HostPodVolumes::new(root)
                .with_flex_drivers(loaded.config.volumes.volume_plugin_dir.clone(), attaches_as),
        ),
        system_cgroups: Arc::new(found.cgroups.system_cgroups(Path::new("/proc"))),
        cgroups: Arc::new(found.cgroups),
        host: Arc::new(found.facts),
        credential_files: Arc::new(credential_files(root)),
        credential_programs: Arc::new(ExecCredentialPrograms::new(
            loaded.flags.image_credential_provider_bin_dir.clone().unwrap_or_default(),
        )),
        pull_records: Arc::new(StateFiles::new(root)),
        user_namespaces: folders.clone(),
        node_logs: Arc::new(HostNodeLogs::new("/var/log", "journalctl")),
        log_files: folders.clone(),
        rotated_logs: folders,
        filesystems: Arc::new(HostFilesystems),
        memory_thresholds: Arc::new(found.usage.clone()),
        usage: Arc::new(found.usage),
        disk_usage: Arc::new(HostDiskUsage::default()),
        checkpoints: Arc::new(FileCheckpoints::new(found.state)),
        state_files: Arc::new(StateFiles::new(root)),
        plugin_sockets: Arc::new(HostPluginSockets::new(root)),
        plugin_registration: Arc::new(GrpcPluginRegistration),
        watch: Arc::new(InotifyFolderWatch),
        outbound: Arc::new(NetworkOutbound::new()),
        kernel_log: Arc::new(KernelLogDevice::new("/dev/kmsg")),
        logind: Arc::new(logind()),
        packet_filter: Arc::new(IptablesFilter::new("iptables", "ip6tables")),
        clock: Arc::new(SystemClock),
        metrics: found.metrics,
        api: found.api,
        serving: found.serving,
    }
}

fn logind() -> HostLogind {
    let address = std::env::var("DBUS_SYSTEM_BUS_ADDRESS");
    HostLogind::new(address.unwrap_or_else(|_| SYSTEM_BUS.to_owned()), "/etc/systemd/logind.conf.d")
}

fn credential_files(root: &Path) -> NodeCredentialFiles {
    let working_directory = std::env::current_dir().unwrap_or_else(|_| Path::new("/").to_owned());
    let home = std::env::var_os("HOME").map(std::path::PathBuf::from);
    NodeCredentialFiles::new(root, &working_directory, home.as_deref())
}

/// Reads the allocations of pods that an earlier run of the agent recorded.
pub(super) async fn restore_allocations(
    root: &Path,
    plan: &Plan,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Allocations> {
    let files = Arc::new(StateFiles::new(root));
    let load = async |name| {
        let loaded = files.load(name).await;
        loaded.map_err(|error| anyhow::anyhow!("{}", with_cause(&error)))
    };
    let (allocated, actuated) = (load(ALLOCATED).await?, load(ACTUATED).await?);
    let allocations = Allocations::restore(files.clone(), allocated.as_deref(), actuated.as_deref())?;
    let management = plan.settings.gates.pod_level_management;
    let cpus =
        ExclusiveCpus::restore(files.clone(), root, plan.cpus.clone(), management, metrics.clone()).await?;
    let memory = PinnedMemory::restore(files, root, plan.memory.clone(), management, metrics.clone()).await?;
    let devices = PluginDevices::restore(PluginDevicesDeps {
        connector: Arc::new(GrpcDevicePluginConnector),
        folder: plan.device_plugins.clone(),
        files: Arc::new(StateFiles::new(&plan.device_plugins)),
        machine: plan.numa_nodes,
        metrics: metrics.clone(),
    });
    let managed = ManagedResources::new(plan.alignment.clone(), cpus, memory, metrics.clone());
    Ok(allocations.with_managed(managed.with_pod_level_management(management).with_devices(devices.await)))
}

/// Reconciles the mount journal with the mount table of the kernel.
pub(super) async fn reconcile_mounts(adapters: &Adapters) {
    match adapters.volumes.reconcile_mounts().await {
        Ok(found) => {
            let storage = &adapters.metrics.storage;
            storage.found_again.add(count(found.live + found.stale + found.adopted));
            storage.lost.add(count(found.stale));
            tracing::info!(
                live = found.live,
                stale = found.stale,
                adopted = found.adopted,
                "reconciled pod mounts"
            );
        }
        Err(error) => {
            tracing::warn!(error = %error.text(), "failed to reconcile the mount journal");
        }
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
