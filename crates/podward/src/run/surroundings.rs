//! The machine and the cluster as the stages reach them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent::allocations::{ACTUATED, ALLOCATED, Allocations};
use agent::metrics::Metrics;
use config::Loaded;
use host::{
    ExecCredentialPrograms, FileCheckpoints, FileUserNamespaceRecords, HostDiskUsage, HostFilesystems,
    HostLogFiles, HostLogind, HostNodeLogs, HostPodCgroups, HostPodFolders, HostPodVolumes, HostRotatedLogs,
    HostTerminationMessages, HostUsage, InotifyFolderWatch, IptablesFilter, KernelLogDevice, MachineFacts,
    NodeCredentialFiles, PidfdProcessWatch, PullRecordFiles, StateFiles,
};
use outbound::NetworkOutbound;
use ports::checkpoints::Checkpoints;
use ports::clock::SystemClock;
use ports::runtime::Runtime;

use super::with_cause;
use crate::plan::Plan;
use crate::wire::{ApiServer, Serving, World};

/// Where the system bus listens.
const SYSTEM_BUS: &str = "unix:path=/run/dbus/system_bus_socket";
const LOG_LINKS: &str = "/var/log/containers";

/// What was found out before the stages can start.
pub(super) struct Found {
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

/// Everything outside the stages.
pub(super) fn world(loaded: &Loaded, plan: &Plan, found: Found) -> World {
    let root = &loaded.flags.root_dir;
    let Found { state, runtime, runtime_name, cgroups, facts, usage, allocations, metrics, api, serving } =
        found;
    let folders = Arc::new(HostPodFolders::new(root, &plan.settings.pod_logs_dir, LOG_LINKS));
    let messages = Arc::new(HostTerminationMessages::new(root, &plan.settings.pod_logs_dir));
    // Volumes are attached by a controller where there is one.
    let by_controller = api.is_some() && loaded.config.volumes.enable_controller_attach_detach;
    let attaches_as = (!by_controller).then(|| plan.settings.name.clone());
    World {
        allocations,
        runtime,
        runtime_name,
        processes: Arc::new(PidfdProcessWatch),
        env_files: folders.clone(),
        logs: folders.clone(),
        folders,
        messages,
        volumes: Arc::new(
            HostPodVolumes::new(root)
                .with_drivers(loaded.config.volumes.volume_plugin_dir.clone(), attaches_as),
        ),
        system_cgroups: Arc::new(cgroups.of_system(Path::new("/proc"))),
        cgroups: Arc::new(cgroups),
        host: Arc::new(facts),
        credential_files: Arc::new(credential_files(root)),
        credential_programs: Arc::new(ExecCredentialPrograms::new(
            loaded.flags.image_credential_provider_bin_dir.clone().unwrap_or_default(),
        )),
        pull_records: Arc::new(PullRecordFiles::new(root)),
        user_namespaces: Arc::new(FileUserNamespaceRecords::new(root)),
        node_logs: Arc::new(HostNodeLogs::new("/var/log", "journalctl")),
        log_files: Arc::new(HostLogFiles::new(&plan.settings.pod_logs_dir)),
        rotated_logs: Arc::new(HostRotatedLogs::new(&plan.settings.pod_logs_dir)),
        filesystems: Arc::new(HostFilesystems),
        memory_thresholds: Arc::new(usage.clone()),
        usage: Arc::new(usage),
        disk_usage: Arc::new(HostDiskUsage::default()),
        checkpoints: Arc::new(FileCheckpoints::new(state)),
        state_files: Arc::new(StateFiles::new(root)),
        watch: Arc::new(InotifyFolderWatch),
        outbound: Arc::new(NetworkOutbound::new()),
        kernel_log: Arc::new(KernelLogDevice::new("/dev/kmsg")),
        logind: Arc::new(logind()),
        packet_filter: Arc::new(IptablesFilter::new("iptables", "ip6tables")),
        clock: Arc::new(SystemClock),
        metrics,
        api,
        serving,
    }
}

/// Where the system bus is, unless the environment says otherwise.
fn logind() -> HostLogind {
    let address = std::env::var("DBUS_SYSTEM_BUS_ADDRESS");
    HostLogind::new(address.unwrap_or_else(|_| SYSTEM_BUS.to_owned()), "/etc/systemd/logind.conf.d")
}

fn credential_files(root: &Path) -> NodeCredentialFiles {
    let working_directory = std::env::current_dir().unwrap_or_else(|_| Path::new("/").to_owned());
    let home = std::env::var_os("HOME").map(std::path::PathBuf::from);
    NodeCredentialFiles::new(root, &working_directory, home.as_deref())
}

/// What an agent before this one granted to pods.
pub(super) async fn restore_allocations(root: &Path) -> anyhow::Result<Allocations> {
    let files = Arc::new(StateFiles::new(root));
    let load = async |name| {
        let loaded = files.load(name).await;
        loaded.map_err(|error| anyhow::anyhow!("{}", with_cause(&error)))
    };
    let (allocated, actuated) = (load(ALLOCATED).await?, load(ACTUATED).await?);
    Ok(Allocations::restore(files.clone(), allocated.as_deref(), actuated.as_deref())?)
}

/// Brings the journal of mounts in line with what is mounted.
pub(super) async fn reconcile_mounts(world: &World) {
    match world.volumes.reconcile_mounts().await {
        Ok(found) => {
            let storage = &world.metrics.storage;
            storage.found_again.add(count(found.live + found.stale + found.adopted));
            storage.lost.add(count(found.stale));
            tracing::info!(live = found.live, stale = found.stale, adopted = found.adopted, "mounts of pods");
        }
        Err(error) => {
            tracing::warn!(error = %error.text(), "the journal of mounts could not be brought in line");
        }
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
