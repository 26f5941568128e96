//! Sandboxes: the namespaces, files, network, cgroup and keeper that the containers of a pod share.
//!
//! The only process of a sandbox is its keeper, and a first process of the PID namespace if its containers share one.

mod files;
mod keeper_watch;
mod namespaces;
mod pod_network;
mod publish;
mod remove;
mod run;
mod settings;
mod stop;
mod sysctls;
mod undo;

use std::path::PathBuf;
use std::sync::Arc;

use cri::v1::{LinuxSandboxSecurityContext, NamespaceMode, NamespaceOption};
use parking_lot::Mutex;

pub(crate) use files::SandboxFiles;
pub(crate) use keeper_watch::{attach_keeper, keeper_lost};
pub(crate) use namespaces::{NamespaceFiles, keep as keep_namespace, unmount_all};
pub(crate) use pod_network::PodNetworking;
pub(crate) use publish::{published_sandbox, sandbox_status};
pub(crate) use remove::remove_sandbox;
pub(crate) use run::{hostname, run_sandbox};
pub(crate) use settings::sandbox_name;
pub(crate) use stop::stop_sandbox;
pub(crate) use undo::{remove_state_folder, undo_sandbox};

use crate::keeper::client::KeeperClient;
use crate::launcher::UserNamespace;
use crate::network::{InterfaceCounters, interface_counters};
use crate::records::SandboxRecord;

/// Name of the record in a sandbox's folder.
pub(crate) const RECORD: &str = "sandbox.json";

pub(crate) struct Sandbox {
    pub(crate) record: SandboxRecord,
    /// Orders everything that changes the sandbox.
    pub(crate) operation: tokio::sync::Mutex<()>,
    state: Mutex<SandboxState>,
}

#[derive(Default)]
struct SandboxState {
    ready: bool,
    /// Everything was released.
    stopped: bool,
    /// The end of the keeper is no failure any more.
    stopping: bool,
    keeper: Option<Arc<KeeperClient>>,
}

impl Sandbox {
    pub(crate) fn new(record: SandboxRecord, ready: bool) -> Self {
        let state = SandboxState { ready, stopped: record.stopped, ..SandboxState::default() };
        Self { record, operation: tokio::sync::Mutex::new(()), state: Mutex::new(state) }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.state.lock().ready
    }

    pub(crate) fn set_ready(&self) {
        self.state.lock().ready = true;
    }

    pub(crate) fn set_not_ready(&self) {
        self.state.lock().ready = false;
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.state.lock().stopped
    }

    pub(crate) fn keeper(&self) -> Option<Arc<KeeperClient>> {
        self.state.lock().keeper.clone()
    }

    pub(crate) fn set_keeper(&self, keeper: Option<Arc<KeeperClient>>) {
        self.state.lock().keeper = keeper;
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.state.lock().stopping
    }

    pub(crate) fn set_stopping(&self) {
        let mut state = self.state.lock();
        state.stopping = true;
        state.ready = false;
    }

    pub(crate) fn set_stopped(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        state.ready = false;
    }

    pub(crate) fn security(&self) -> LinuxSandboxSecurityContext {
        self.record.config.linux.clone().unwrap_or_default().security_context.unwrap_or_default()
    }

    pub(crate) fn namespace_options(&self) -> NamespaceOption {
        self.security().namespace_options.unwrap_or_default()
    }

    /// The pod's user namespace. The request was checked when the sandbox was made.
    pub(crate) fn user_namespace(&self) -> Option<UserNamespace> {
        let ids = settings::id_mappings(&self.namespace_options()).ok().flatten()?;
        Some(UserNamespace { path: self.namespaces().user(), ids })
    }

    pub(crate) fn uses_host_network(&self) -> bool {
        self.namespace_options().network == i32::from(NamespaceMode::Node)
    }

    /// Traffic of the pod; empty for a pod in the host's network and for one that is being removed. Blocks.
    pub(crate) fn interface_counters(&self) -> Vec<InterfaceCounters> {
        if self.uses_host_network() {
            return Vec::new();
        }
        interface_counters(&self.namespaces().network()).unwrap_or_default()
    }

    pub(crate) fn namespaces(&self) -> NamespaceFiles {
        NamespaceFiles::in_folder(&self.record.folder)
    }

    /// The file system of `/dev/shm`; the host's if the pod shares the node's IPC namespace.
    pub(crate) fn shared_memory(&self) -> PathBuf {
        if self.namespace_options().ipc == i32::from(NamespaceMode::Node) {
            return PathBuf::from("/dev/shm");
        }
        self.record.folder.join("shm")
    }
}
