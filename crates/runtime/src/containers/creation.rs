//! Makes a container, completely or not at all.

mod devices;
mod machine;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use cri::v1::{ContainerConfig, ContainerEventType, ContainerMetadata};

use super::translation::{
    PidMode, SandboxView, TranslationInput, UserFiles, clean, needs_default_profile, pid_mode, resolve_user,
    security_context, stop_signal, translate,
};
use super::{Container, RECORD, SPEC, STATUS, apparmor, cdi, image_volumes, removal, rootfs_files};
use crate::cgroups::{ContainerCgroup, Placement, placement};
use crate::errors::{ServiceError, describe};
use crate::events;
use crate::ids::new_id;
use crate::images::StoredImage;
use crate::keeper::client::KeeperClientError;
use crate::keeper::protocol::Stdin;
use crate::launcher::{ContainerSpec, UserNamespace};
use crate::records::{self, ContainerRecord, LifeState, OnFile, Progress, StatusRecord, make_folder};
use crate::sandboxes::{Sandbox, SandboxFiles, hostname};
use crate::shared::{Shared, blocking};

/// Views of images for the volumes of a sandbox have names with this and the sandbox's id.
pub(crate) const VIEW_PREFIX: &str = "view-";

/// The name that a container reserves.
pub(crate) fn container_name(sandbox: &Sandbox, metadata: &ContainerMetadata) -> String {
    let pod = sandbox.record.config.metadata.clone().unwrap_or_default();
    format!("{}_{}_{}_{}_{}", metadata.name, pod.name, pod.namespace, pod.uid, metadata.attempt)
}

/// Makes a container, which waits to be started, and returns its id.
pub(crate) async fn create_container(
    shared: &Arc<Shared>,
    sandbox: &str,
    config: ContainerConfig,
) -> Result<String, ServiceError> {
    let sandbox = shared.sandbox(sandbox)?;
    if !sandbox.is_ready() {
        return Err(ServiceError::State(format!("sandbox {} is not ready", sandbox.record.id)));
    }
    let metadata = config.metadata.clone().filter(|metadata| !metadata.name.is_empty());
    let metadata = metadata.ok_or(ServiceError::Missing("container metadata"))?;
    let id = new_id().map_err(|errno| ServiceError::io("make an id", errno))?;
    shared.reserve_container_name(container_name(&sandbox, &metadata), &id)?;
    let cgroup = match cgroup_path(&sandbox, &id) {
        Ok(cgroup) => cgroup,
        Err(error) => {
            shared.release_names(&id);
            return Err(error);
        }
    };
    match make(shared, &sandbox, config, &id, cgroup.clone()).await {
        Ok(container) => {
            shared.add_container(container);
            events::publish(shared, &sandbox, &id, ContainerEventType::ContainerCreatedEvent);
            Ok(id)
        }
        Err(error) => {
            if let Err(undo) = undo_container(shared, &sandbox, &id, &cgroup).await {
                // The next start of the runtime tries again.
                tracing::warn!(container = id, error = describe(&undo), "failed to undo a container");
            }
            shared.release_names(&id);
            Err(error)
        }
    }
}

/// Undoes a container that was not completed.
pub(crate) async fn undo_container(
    shared: &Arc<Shared>,
    sandbox: &Sandbox,
    id: &str,
    cgroup: &std::path::Path,
) -> Result<(), ServiceError> {
    removal::forget_in_keeper(sandbox, id).await?;
    removal::release(shared, id, cgroup).await
}

fn cgroup_path(sandbox: &Sandbox, id: &str) -> Result<PathBuf, ServiceError> {
    let parent = sandbox.record.config.linux.as_ref().map(|linux| linux.cgroup_parent.as_str());
    match placement(parent.unwrap_or_default(), id) {
        Ok(Placement::Directory(path)) => Ok(path),
        // The sandbox was refused for the same reason.
        Ok(Placement::Scope { slice, .. }) => Err(ServiceError::setting("cgroup_parent", slice)),
        Err(error) => Err(ServiceError::setting("cgroup_parent", error.to_string())),
    }
}

async fn make(
    shared: &Arc<Shared>,
    sandbox: &Arc<Sandbox>,
    config: ContainerConfig,
    id: &str,
    cgroup: PathBuf,
) -> Result<Arc<Container>, ServiceError> {
    let target_pid = target_pid(shared, sandbox, &config)?;
    let prepared = {
        let (shared, sandbox, id) = (shared.clone(), sandbox.clone(), id.to_owned());
        blocking(move || prepare(&shared, &sandbox, config, &id, cgroup, target_pid)).await?
    };
    let Prepared { record, status, spec, oom_counter } = prepared;
    let keeper = sandbox.keeper().ok_or(KeeperClientError::Gone)?;
    let stdin = match (record.config.stdin, record.config.stdin_once) {
        (false, _) => Stdin::Closed,
        (true, false) => Stdin::Open,
        (true, true) => Stdin::Once,
    };
    keeper.create(Box::new(spec), stdin, record.log.clone(), oom_counter).await?;
    let folder = shared.container_root(id);
    let record = ContainerRecord { progress: Progress::Complete, ..record };
    let written = record.clone();
    blocking(move || Ok(records::write(&folder.join(RECORD), &written)?)).await?;
    Ok(Arc::new(Container::new(record, status)))
}

/// The first process of the container whose PID namespace is joined.
fn target_pid(
    shared: &Shared,
    sandbox: &Sandbox,
    config: &ContainerConfig,
) -> Result<Option<u32>, ServiceError> {
    let PidMode::Target(target) = pid_mode(&security_context(config))? else { return Ok(None) };
    let target = shared.container(&target)?;
    match target.life() {
        LifeState::Running { pid, .. } if target.record.sandbox == sandbox.record.id => Ok(Some(pid)),
        LifeState::Running { .. } | LifeState::Created | LifeState::Exited(_) => Ok(None),
    }
}

/// State on disk and in the cgroups before the keeper creates the container.
struct Prepared {
    record: ContainerRecord,
    status: StatusRecord,
    spec: ContainerSpec,
    oom_counter: Option<PathBuf>,
}

fn prepare(
    shared: &Shared,
    sandbox: &Sandbox,
    config: ContainerConfig,
    id: &str,
    cgroup: PathBuf,
    target_pid: Option<u32>,
) -> Result<Prepared, ServiceError> {
    let name = config.image.as_ref().map(|image| image.image.clone()).unwrap_or_default();
    let image = shared.store.resolve(&name)?.ok_or_else(|| ServiceError::NoImage(name.clone()))?;
    let mut record = new_record(shared, sandbox, config, &image, id, cgroup)?;
    let folder = shared.container_root(id);
    make_folder(&folder)?;
    records::write(&folder.join(RECORD), &record)?;
    let config = &record.config;
    let user = sandbox.user_namespace();
    let root = shared.store.mount_root_for(image.id.as_str(), id, user.as_ref())?;
    let user_files = UserFiles {
        passwd: rootfs_files::read_text(&root, "etc/passwd")?,
        group: rootfs_files::read_text(&root, "etc/group")?,
    };
    let security = security_context(config);
    let mut resolved = resolve_user(&security, &image.config.user, &user_files)?;
    let cgroups = ContainerCgroup::make(&shared.cgroups, &record.cgroup)?;
    let mut mounts_of_images = BTreeMap::new();
    for (index, mount) in config.mounts.iter().enumerate() {
        match &mount.image {
            Some(volume) => {
                let source = image_volumes::mount(shared, sandbox, &volume.image, &mount.image_sub_path)?;
                mounts_of_images.insert(index, source);
            }
            None => make_missing_source(&mount.host_path)?,
        }
    }
    let edits = cdi::device_edits(config, &shared.options.cdi_folders)?;
    resolved.user.groups.extend(&edits.groups);
    let input = TranslationInput {
        id,
        config,
        image: &image.config,
        sandbox: sandbox_view(shared, sandbox)?,
        declared_volumes: declared_volumes(config, &image, (&root, user.as_ref()), &folder)?,
        root,
        user_files,
        held: &shared.held,
        cgroup_view: machine::cgroup_view(&shared.cgroups, &cgroups, security.privileged),
        cgroups: cgroups.directories(),
        seccomp_profile: machine::seccomp_profile(&security)?,
        apparmor: apparmor::host(needs_default_profile(&security)?)?,
        target_pid,
        image_mounts: mounts_of_images,
        devices: devices::requested(config, security.privileged)?,
        edits,
    };
    let translation = translate(&input)?;
    cgroups.apply(&translation.resources)?;
    cgroups.restrict_devices(&translation.device_rules)?;
    records::write(&folder.join(SPEC), &translation.spec)?;
    let resources = config.linux.clone().unwrap_or_default().resources.unwrap_or_default();
    let status = StatusRecord { state: LifeState::Created, resources };
    records::write(&folder.join(STATUS), &status)?;
    record.user = Some(translation.spec.process.user.clone());
    record.own_pid_namespace = translation.spec.namespaces.pid == crate::launcher::PidNamespace::New;
    Ok(Prepared { record, status, spec: translation.spec, oom_counter: cgroups.oom_counter() })
}

fn new_record(
    shared: &Shared,
    sandbox: &Sandbox,
    config: ContainerConfig,
    image: &StoredImage,
    id: &str,
    cgroup: PathBuf,
) -> Result<ContainerRecord, ServiceError> {
    let requested = config.image.as_ref().map(|image| image.image.clone()).unwrap_or_default();
    let logs = &sandbox.record.config.log_directory;
    let log = (!logs.is_empty() && !config.log_path.is_empty())
        .then(|| PathBuf::from(logs).join(config.log_path.trim_start_matches('/')));
    Ok(ContainerRecord {
        version: records::VERSION,
        id: id.to_owned(),
        sandbox: sandbox.record.id.clone(),
        progress: Progress::Preparing,
        created_at: shared.now(),
        image_id: image.id.to_string(),
        image_ref: image.digests.first().cloned().unwrap_or_else(|| image.id.to_string()),
        image_name: image.tags.first().cloned().unwrap_or(requested),
        stop_signal: stop_signal(&config, &image.config)?,
        user: None,
        log,
        cgroup,
        own_pid_namespace: false,
        config,
    })
}

fn sandbox_view(shared: &Shared, sandbox: &Sandbox) -> Result<SandboxView, ServiceError> {
    Ok(SandboxView {
        files: SandboxFiles::in_folder(&shared.sandbox_root(&sandbox.record.id)),
        shared_memory: sandbox.shared_memory(),
        namespaces: sandbox.namespaces(),
        options: sandbox.namespace_options(),
        privileged: sandbox.security().privileged,
        hostname: hostname(&sandbox.record.config, !sandbox.uses_host_network())?,
        user: sandbox.user_namespace(),
    })
}

/// A missing folder of the host is made, as other runtimes do.
fn make_missing_source(path: &str) -> Result<(), ServiceError> {
    use std::os::unix::fs::DirBuilderExt;
    let path = std::path::Path::new(path);
    if !path.is_absolute() || path.exists() {
        return Ok(());
    }
    Ok(std::fs::DirBuilder::new().recursive(true).mode(0o755).create(path).on_file("make", path)?)
}

/// Folders for the volumes that the image declares and the request does not mount.
fn declared_volumes(
    config: &ContainerConfig,
    image: &StoredImage,
    (root, user): (&std::path::Path, Option<&UserNamespace>),
    folder: &std::path::Path,
) -> Result<Vec<(String, PathBuf)>, ServiceError> {
    let mut volumes = Vec::new();
    for (number, path) in image.config.volumes.iter().enumerate() {
        let destination = clean(path);
        let requested = config.mounts.iter().any(|mount| clean(&mount.container_path) == destination);
        if requested || destination == "/" {
            continue;
        }
        let source = folder.join("volumes").join(number.to_string());
        image_volumes::copy_declared(root, &destination, &source)?;
        if let Some(user) = user {
            image_volumes::give_to_root(&source, user)?;
        }
        volumes.push((destination, source));
    }
    Ok(volumes)
}
