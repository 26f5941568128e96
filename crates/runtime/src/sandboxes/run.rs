//! Makes a sandbox, completely or not at all.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use cri::v1::{ContainerEventType, NamespaceMode, PodSandboxConfig};
use rustix::mount::{MountFlags, mount};

use super::keeper_watch::KeeperProcess;
use super::namespaces::NamespaceRequest;
use super::{RECORD, Sandbox, SandboxFiles, attach_keeper, settings, sysctls, undo_sandbox};
use crate::cgroups::{ContainerCgroup, Placement, Resources, placement};
use crate::containers::start_pause_process;
use crate::errors::{ServiceError, describe};
use crate::events;
use crate::ids::new_id;
use crate::keeper::client::KeeperClient;
use crate::keeper::start_keeper;
use crate::launcher::PodNamespaces;
use crate::records::{self, OnFile, Progress, SandboxRecord, make_folder};
use crate::shared::{Shared, blocking};

/// Length of the folder names of sandboxes: paths of sockets are limited.
const FOLDER_NAME_LENGTH: usize = 16;
const SHARED_MEMORY_OPTIONS: &std::ffi::CStr = c"mode=1777,size=67108864";

/// Makes a sandbox and returns its id.
pub(crate) async fn run_sandbox(
    shared: &Arc<Shared>,
    config: PodSandboxConfig,
    handler: String,
) -> Result<String, ServiceError> {
    let metadata = settings::check(&config, &handler)?;
    let id = new_id().map_err(|errno| ServiceError::io("make an id", errno))?;
    shared.reserve_sandbox_name(settings::sandbox_name(&metadata), &id)?;
    let result = make(shared, config, handler, &id).await;
    if result.is_err() && shared.sandbox(&id).is_err() {
        shared.release_names(&id);
    }
    result
}

async fn make(
    shared: &Arc<Shared>,
    config: PodSandboxConfig,
    handler: String,
    id: &str,
) -> Result<String, ServiceError> {
    let record = new_record(shared, config, handler, id)?;
    match prepare(shared, &record).await {
        Ok(sandbox) => {
            sandbox.set_ready();
            shared.add_sandbox(sandbox.clone());
            events::publish(shared, &sandbox, id, ContainerEventType::ContainerCreatedEvent);
            events::publish(shared, &sandbox, id, ContainerEventType::ContainerStartedEvent);
            Ok(id.to_owned())
        }
        Err(error) => {
            if let Err(undo) = undo_sandbox(shared, &record).await {
                // The caller can stop and remove what is left.
                tracing::warn!(
                    sandbox = id,
                    error = describe(&undo),
                    "failed to undo a sandbox, keeping it as not ready"
                );
                shared.add_sandbox(Arc::new(Sandbox::new(record, false)));
            }
            Err(error)
        }
    }
}

fn new_record(
    shared: &Shared,
    config: PodSandboxConfig,
    handler: String,
    id: &str,
) -> Result<SandboxRecord, ServiceError> {
    let parent = config.linux.as_ref().map(|linux| linux.cgroup_parent.as_str()).unwrap_or_default();
    let cgroup = match placement(parent, id) {
        Ok(Placement::Directory(path)) => path,
        Ok(Placement::Scope { slice, .. }) => {
            let problem = format!(
                "{slice:?} is a slice of systemd, and this runtime writes cgroups itself: set cgroupDriver to cgroupfs"
            );
            return Err(ServiceError::setting("cgroup_parent", problem));
        }
        Err(error) => return Err(ServiceError::setting("cgroup_parent", error.to_string())),
    };
    let name = id.get(..FOLDER_NAME_LENGTH).unwrap_or(id);
    Ok(SandboxRecord {
        version: records::VERSION,
        id: id.to_owned(),
        progress: Progress::Preparing,
        config,
        runtime_handler: handler,
        created_at: shared.now(),
        boot_id: shared.boot_id.clone(),
        folder: shared.options.state.join(name),
        cgroup,
        addresses: Vec::new(),
        stopped: false,
    })
}

async fn prepare(shared: &Arc<Shared>, record: &SandboxRecord) -> Result<Arc<Sandbox>, ServiceError> {
    let process = {
        let (shared, record) = (shared.clone(), record.clone());
        blocking(move || {
            let folder = shared.sandbox_root(&record.id);
            make_folder(&folder)?;
            records::write(&folder.join(RECORD), &record)?;
            make_files(&record, &folder)?;
            make_keeper(&shared, &record)
        })
        .await?
    };
    make_namespaces(record).await?;
    let mut complete = SandboxRecord { progress: Progress::Complete, ..record.clone() };
    let sandbox = Sandbox::new(record.clone(), false);
    if !sandbox.uses_host_network() {
        complete.addresses = shared.network.set_up(record).await?;
    }
    let sandbox = Arc::new(Sandbox::new(complete.clone(), false));
    attach_keeper(shared, &sandbox, Some(process)).await?;
    if sandbox.namespace_options().pid == i32::from(NamespaceMode::Pod) {
        start_pause_process(&sandbox).await?;
    }
    let path = shared.sandbox_root(&record.id).join(RECORD);
    blocking(move || Ok(records::write(&path, &complete)?)).await?;
    Ok(sandbox)
}

/// Makes everything that needs no process.
fn make_files(record: &SandboxRecord, root: &Path) -> Result<(), ServiceError> {
    let sandbox = Sandbox::new(record.clone(), false);
    let own = settings::own_namespaces(&sandbox.namespace_options());
    let hostname = hostname(&record.config, own.uts)?;
    let sysctls = sysctls::sysctls(&requested_sysctls(record), own)?;
    make_folder(&record.folder)?;
    SandboxFiles::in_folder(root).write(&hostname, record.config.dns_config.as_ref())?;
    if own.ipc {
        let folder = sandbox.shared_memory();
        make_folder(&folder)?;
        let flags = MountFlags::NOSUID | MountFlags::NOEXEC | MountFlags::NODEV;
        mount("shm", &folder, "tmpfs", flags, SHARED_MEMORY_OPTIONS).on_file("mount", &folder)?;
    }
    let namespaces = sandbox.namespaces();
    namespaces.make_folder()?;
    if own.user {
        // They belong to the user namespace, which only the keeper can make.
        return Ok(());
    }
    namespaces.make(NamespaceRequest { own, hostname, sysctls, exist: false })
}

fn requested_sysctls(record: &SandboxRecord) -> BTreeMap<String, String> {
    record.config.linux.iter().flat_map(|linux| linux.sysctls.clone()).collect()
}

/// Lets the keeper make the pod's user namespace and those that it owns, and sets them up. Other pods have their namespaces already.
async fn make_namespaces(record: &SandboxRecord) -> Result<(), ServiceError> {
    let sandbox = Sandbox::new(record.clone(), false);
    let Some(user) = sandbox.user_namespace() else { return Ok(()) };
    let own = settings::own_namespaces(&sandbox.namespace_options());
    let files = sandbox.namespaces();
    let request = PodNamespaces {
        user: Some(user),
        network: own.network.then(|| files.network()),
        ipc: own.ipc.then(|| files.ipc()),
        uts: own.uts.then(|| files.uts()),
    };
    let (keeper, _exits) = KeeperClient::connect(&record.folder).await?;
    keeper.make_pod_namespaces(request).await?;
    let hostname = hostname(&record.config, own.uts)?;
    let sysctls = sysctls::sysctls(&requested_sysctls(record), own)?;
    blocking(move || files.make(NamespaceRequest { own, hostname, sysctls, exist: true })).await
}

/// The requested name; without one, or in the host's network, the node's.
pub(crate) fn hostname(config: &PodSandboxConfig, own: bool) -> Result<String, ServiceError> {
    if own && !config.hostname.is_empty() {
        return Ok(config.hostname.clone());
    }
    let name = rustix::system::uname();
    Ok(name.nodename().to_string_lossy().into_owned())
}

/// Starts the keeper in the sandbox's own cgroup.
fn make_keeper(shared: &Shared, record: &SandboxRecord) -> Result<KeeperProcess, ServiceError> {
    const LEAST_SHARES: u64 = 2;
    let cgroup = ContainerCgroup::make(&shared.cgroups, &record.cgroup)?;
    cgroup.apply(&Resources { cpu_shares: Some(LEAST_SHARES), ..Resources::default() })?;
    let program = shared.keeper_program()?;
    let (child, _socket) = start_keeper(&program, &record.folder)?;
    let process = KeeperProcess::new(child);
    process.enter(&cgroup)?;
    Ok(process)
}
