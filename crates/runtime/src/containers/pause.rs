//! The first process of a PID namespace that the containers of a pod share. It waits for processes that lost their parent.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::errors::ServiceError;
use crate::keeper::client::{KeeperClient, KeeperClientError};
use crate::keeper::protocol::Stdin;
use crate::launcher::{
    Access, CgroupNamespace, ContainerSpec, DeviceNodes, FileOwners, Namespaces, NewPrivileges, PidNamespace,
    ProcessSpec, SecurityLabel, Terminal, User, UserNamespace,
};
use crate::sandboxes::{Sandbox, keep_namespace};
use crate::shared::blocking;

/// Starts the process and keeps its namespace. Its id is the sandbox's.
pub(crate) async fn start_pause_process(sandbox: &Sandbox) -> Result<(), ServiceError> {
    let keeper = sandbox.keeper().ok_or(KeeperClientError::Gone)?;
    let root = sandbox.record.folder.join("empty");
    let folder = root.clone();
    blocking(move || Ok(crate::records::make_folder(&folder)?)).await?;
    let id = &sandbox.record.id;
    keeper.create(Box::new(spec(id, root, sandbox.user_namespace())), Stdin::Closed, None, None).await?;
    let pid = keeper.start(id).await?;
    let file = sandbox.namespaces().pid();
    blocking(move || keep_namespace(Path::new(&format!("/proc/{pid}/ns/pid")), &file)).await
}

/// Ends the process, if there is one.
pub(crate) async fn end_pause_process(sandbox: &Sandbox, keeper: &KeeperClient) -> Result<(), ServiceError> {
    const SIGKILL: i32 = 9;
    let id = &sandbox.record.id;
    match keeper.signal(id, SIGKILL).await {
        Err(KeeperClientError::Refused { .. } | KeeperClientError::Gone) => return Ok(()),
        result => result?,
    }
    keeper.wait_until_removed(id).await?;
    Ok(())
}

/// A process without any rights, in an empty folder.
fn spec(id: &str, root: PathBuf, user: Option<UserNamespace>) -> ContainerSpec {
    ContainerSpec {
        id: id.to_owned(),
        root,
        root_access: Access::ReadOnly,
        root_owners: FileOwners::Mapped,
        namespaces: Namespaces {
            network: None,
            ipc: None,
            uts: None,
            pid: PidNamespace::New,
            cgroup: CgroupNamespace::Host,
            user,
        },
        mounts: Vec::new(),
        devices: DeviceNodes::None,
        masked_paths: Vec::new(),
        readonly_paths: Vec::new(),
        process: ProcessSpec {
            // The launcher waits for orphans instead of executing a program.
            arguments: Vec::new(),
            environment: Vec::new(),
            directory: PathBuf::from("/"),
            user: User { uid: 65535, gid: 65535, groups: Vec::new() },
            capabilities: BTreeSet::new(),
            new_privileges: NewPrivileges::Forbidden,
            seccomp: None,
            security_label: SecurityLabel::None,
            oom_score_adj: -998,
            resource_limits: Vec::new(),
            terminal: Terminal::None,
        },
        cgroups: Vec::new(),
    }
}
