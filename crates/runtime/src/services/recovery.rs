//! Recovery at the start of the runtime: sandboxes and containers that still run, that ended meanwhile, or that are incomplete.
//!
//! One broken record does not block the others: it is logged and left as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use crate::containers::{
    Container, RECORD as CONTAINER_RECORD, STATUS, container_name, end_lost_container, exit_of_record, lost,
    save_status, undo_container,
};
use crate::errors::{ServiceError, describe};
use crate::keeper::protocol::Stage;
use crate::keeper::read_exit;
use crate::network::LiveAttachment;
use crate::records::{
    self, ContainerRecord, LifeState, Progress, RecordError, SandboxRecord, StatusRecord, subfolders,
};
use crate::sandboxes::{
    RECORD as SANDBOX_RECORD, Sandbox, attach_keeper, keeper_lost, remove_state_folder, sandbox_name,
    undo_sandbox,
};
use crate::shared::{Shared, blocking};

/// All records on disk.
#[derive(Default)]
struct Found {
    sandboxes: Vec<SandboxRecord>,
    containers: Vec<(ContainerRecord, Option<StatusRecord>)>,
    /// Folders of unreadable records. What they name is left alone.
    unreadable: bool,
}

pub(super) async fn recover(shared: &Arc<Shared>) -> Result<(), ServiceError> {
    let found = {
        let shared = shared.clone();
        blocking(move || read_all(&shared)).await?
    };
    let mut half_done = Vec::new();
    for record in found.sandboxes {
        let name = record.config.metadata.as_ref().map(sandbox_name).unwrap_or_default();
        shared.reserve_sandbox_name(name, &record.id)?;
        let complete = record.progress == Progress::Complete;
        if !complete {
            half_done.push(record.clone());
        }
        shared.add_sandbox(Arc::new(Sandbox::new(record, false)));
    }
    for (record, status) in found.containers {
        recover_container(shared, record, status).await;
    }
    for sandbox in shared.sandboxes() {
        if !sandbox.is_stopped() && sandbox.record.progress == Progress::Complete {
            recover_sandbox(shared, &sandbox).await;
        }
    }
    for record in half_done {
        match undo_sandbox(shared, &record).await {
            Ok(()) => shared.forget_sandbox(&record.id),
            Err(error) => {
                tracing::warn!(
                    sandbox = record.id,
                    error = describe(&error),
                    "failed to undo a sandbox, keeping it as not ready"
                );
            }
        }
    }
    let live: Vec<_> = shared
        .sandboxes()
        .iter()
        .filter(|sandbox| !sandbox.is_stopped() && !sandbox.uses_host_network())
        .map(|sandbox| LiveAttachment { sandbox_id: sandbox.record.id.clone() })
        .collect();
    if found.unreadable {
        tracing::warn!("records could not be read, so nothing without a record is removed");
        return Ok(());
    }
    if let Err(error) = shared.network.recover(&live).await {
        tracing::warn!(error = describe(&error), "failed to clean up the pod networks");
    }
    sweep(shared).await
}

fn read_all(shared: &Shared) -> Result<Found, ServiceError> {
    let mut found = Found::default();
    let mut unreadable = |error: &RecordError| {
        tracing::error!(error = describe(error), "failed to read a record, leaving it alone");
    };
    for id in subfolders(&shared.sandboxes_root())? {
        match records::read::<SandboxRecord>(&shared.sandbox_root(&id).join(SANDBOX_RECORD)) {
            Ok(record) => found.sandboxes.extend(record),
            Err(error) => {
                found.unreadable = true;
                unreadable(&error);
            }
        }
    }
    for id in subfolders(&shared.containers_root())? {
        let folder = shared.container_root(&id);
        match records::read::<ContainerRecord>(&folder.join(CONTAINER_RECORD)) {
            Ok(None) => {}
            Ok(Some(record)) => {
                let status = records::read::<StatusRecord>(&folder.join(STATUS));
                let status = status.inspect_err(&mut unreadable).ok().flatten();
                found.containers.push((record, status));
            }
            Err(error) => {
                found.unreadable = true;
                unreadable(&error);
            }
        }
    }
    Ok(found)
}

/// Makes a container known again, or undoes it if it was not complete.
async fn recover_container(shared: &Arc<Shared>, record: ContainerRecord, status: Option<StatusRecord>) {
    let Ok(sandbox) = shared.sandbox(&record.sandbox) else {
        // Without its sandbox no request can name it.
        tracing::warn!(container = record.id, "removing a container without a sandbox");
        let empty = Sandbox::new(orphan_sandbox(&record), false);
        log_failure(&record.id, undo_container(shared, &empty, &record.id, &record.cgroup).await);
        return;
    };
    if record.progress == Progress::Preparing {
        log_failure(&record.id, undo_container(shared, &sandbox, &record.id, &record.cgroup).await);
        return;
    }
    let status = status.unwrap_or_else(|| {
        let exit = lost(0, shared.now());
        let resources = record.config.linux.clone().unwrap_or_default().resources.unwrap_or_default();
        StatusRecord { state: LifeState::Exited(exit), resources }
    });
    let name = record.config.metadata.as_ref().map(|metadata| container_name(&sandbox, metadata));
    // Names were unique when the records were written.
    let _ = shared.reserve_container_name(name.unwrap_or_default(), &record.id);
    shared.add_container(Arc::new(Container::new(record, status)));
}

fn log_failure(container: &str, result: Result<(), ServiceError>) {
    if let Err(error) = result {
        tracing::warn!(container, error = describe(&error), "failed to undo a container");
    }
}

/// A record with which nothing is connected.
fn orphan_sandbox(container: &ContainerRecord) -> SandboxRecord {
    SandboxRecord {
        version: records::VERSION,
        id: container.sandbox.clone(),
        progress: Progress::Preparing,
        config: cri::v1::PodSandboxConfig::default(),
        runtime_handler: String::new(),
        created_at: 0,
        boot_id: String::new(),
        folder: PathBuf::new(),
        cgroup: PathBuf::new(),
        addresses: Vec::new(),
        stopped: true,
    }
}

/// Adopts the keeper of a sandbox, or ends what is left of it.
async fn recover_sandbox(shared: &Arc<Shared>, sandbox: &Arc<Sandbox>) {
    if sandbox.record.boot_id != shared.boot_id {
        // Everything ended with the machine.
        end_all(shared, sandbox).await;
        return;
    }
    let stages = match adopt(shared, sandbox).await {
        Ok(stages) => stages,
        Err(error) => {
            let id = &sandbox.record.id;
            tracing::warn!(
                sandbox = id,
                error = describe(&error),
                "the keeper of a pod is gone, ending the pod's containers"
            );
            keeper_lost(shared, sandbox).await;
            return;
        }
    };
    sandbox.set_ready();
    let shares_pids = sandbox.namespace_options().pid == i32::from(cri::v1::NamespaceMode::Pod);
    if shares_pids && !matches!(stages.get(&sandbox.record.id), Some(Stage::Running { .. })) {
        sandbox.set_not_ready();
    }
    for container in shared.containers_of(&sandbox.record.id) {
        match (container.life(), stages.get(&container.record.id)) {
            (LifeState::Exited(_), _) | (LifeState::Created, Some(Stage::Created)) => {}
            (_, Some(Stage::Running { pid, started_at })) => {
                container.set_running(*pid, *started_at);
                save_status(shared, &container).await;
            }
            (_, Some(Stage::Exited(exit))) => {
                container.set_exited(exit_of_record(exit));
                save_status(shared, &container).await;
            }
            (life, None | Some(Stage::Created)) => {
                let started_at =
                    if let LifeState::Running { started_at, .. } = life { started_at } else { 0 };
                let (folder, id) = (sandbox.record.folder.clone(), container.record.id.clone());
                let recorded = tokio::task::spawn_blocking(move || read_exit(&folder, &id)).await;
                let recorded = recorded.ok().and_then(Result::ok).flatten();
                let exit =
                    recorded.map_or_else(|| lost(started_at, shared.now()), |exit| exit_of_record(&exit));
                container.set_exited(exit);
                save_status(shared, &container).await;
            }
        }
    }
}

async fn adopt(
    shared: &Arc<Shared>,
    sandbox: &Arc<Sandbox>,
) -> Result<BTreeMap<String, Stage>, ServiceError> {
    attach_keeper(shared, sandbox, None).await?;
    let keeper = sandbox.keeper().ok_or(crate::keeper::client::KeeperClientError::Gone)?;
    let known: BTreeSet<_> = shared
        .containers_of(&sandbox.record.id)
        .iter()
        .map(|container| container.record.id.clone())
        .collect();
    let mut stages = BTreeMap::new();
    for state in keeper.list().await? {
        if state.container != sandbox.record.id && !known.contains(&state.container) {
            // It was being made when the runtime was killed.
            keeper.remove(&state.container).await?;
        }
        stages.insert(state.container, state.stage);
    }
    Ok(stages)
}

/// Reports the containers of a sandbox of another boot as ended.
async fn end_all(shared: &Arc<Shared>, sandbox: &Arc<Sandbox>) {
    for container in shared.containers_of(&sandbox.record.id) {
        end_lost_container(shared, sandbox, &container).await;
    }
}

/// Removes what belongs to no record: folders of sandboxes, root file systems and views.
async fn sweep(shared: &Arc<Shared>) -> Result<(), ServiceError> {
    let shared = shared.clone();
    blocking(move || {
        let sandboxes = shared.sandboxes();
        let folders: BTreeSet<_> = sandboxes.iter().map(|sandbox| sandbox.record.folder.clone()).collect();
        for name in subfolders(&shared.options.state)? {
            let folder = shared.options.state.join(name);
            if !folders.contains(&folder) {
                log_sweep(remove_state_folder(&folder));
            }
        }
        let containers: BTreeSet<_> =
            shared.containers().iter().map(|container| container.record.id.clone()).collect();
        for owner in shared.store.root_owners()? {
            let used = match owner.strip_prefix(crate::containers::VIEW_PREFIX) {
                Some(view) => sandboxes.iter().any(|sandbox| view.starts_with(&sandbox.record.id)),
                None => containers.contains(&owner),
            };
            if !used {
                log_sweep(shared.store.unmount_root(&owner).map_err(Into::into));
            }
        }
        for (root, known) in [
            (shared.containers_root(), containers),
            (shared.sandboxes_root(), sandboxes.iter().map(|sandbox| sandbox.record.id.clone()).collect()),
        ] {
            for name in subfolders(&root)?.into_iter().filter(|name| !known.contains(name)) {
                let removed = std::fs::remove_dir_all(root.join(&name));
                log_sweep(removed.map_err(|source| ServiceError::io(format!("remove {name}"), source)));
            }
        }
        Ok(())
    })
    .await
}

fn log_sweep(result: Result<(), ServiceError>) {
    if let Err(error) = result {
        tracing::warn!(error = describe(&error), "failed to remove what belongs to no pod");
    }
}
