//! Containers: from the request to the end, and the settings that every container has without a request.
//!
//! `translation` turns a request into a [`ContainerSpec`](crate::launcher::ContainerSpec) and limits without touching the machine;
//! `creation` gathers what it needs and makes the container; the other modules are about its life.

mod apparmor;
mod cdi;
mod creation;
mod default_mounts;
mod exec;
mod image_volumes;
mod life;
mod pause;
mod publish;
mod removal;
mod rootfs_files;
mod stop;
mod translation;
mod update;

use std::path::PathBuf;

use cri::v1::LinuxContainerResources;
use parking_lot::Mutex;
use tokio::sync::watch;

pub(crate) use creation::{VIEW_PREFIX, container_name, create_container, undo_container};
pub use default_mounts::default_mounts;
pub(crate) use exec::{exec_process, exec_sync};
pub(crate) use life::{
    container_exited, end_lost_container, exit_of_record, lost, save_status, start_container,
};
pub(crate) use pause::{end_pause_process, start_pause_process};
pub(crate) use publish::{published_container, published_status};
pub(crate) use removal::{forget_in_keeper, remove_container};
pub(crate) use stop::{kill_container, stop_container};
pub(crate) use update::update_resources;

use crate::records::{ContainerRecord, Exit, LifeState, StatusRecord};
use crate::shared::Shared;

/// Names of the files in a container's folder.
pub(crate) const RECORD: &str = "container.json";
pub(crate) const STATUS: &str = "status.json";
pub(crate) const SPEC: &str = "spec.json";

pub(crate) struct Container {
    pub(crate) record: ContainerRecord,
    /// Orders start, update and removal. Stopping does not take it, because it waits.
    pub(crate) operation: tokio::sync::Mutex<()>,
    life: watch::Sender<LifeState>,
    resources: Mutex<LinuxContainerResources>,
    /// Orders writes of the status to disk.
    saving: tokio::sync::Mutex<()>,
    /// Whether the stop signal was sent: it is sent once.
    stop_signal_sent: Mutex<bool>,
}

impl Container {
    pub(crate) fn new(record: ContainerRecord, status: StatusRecord) -> Self {
        let (life, _) = watch::channel(status.state);
        Self {
            record,
            operation: tokio::sync::Mutex::new(()),
            life,
            resources: Mutex::new(status.resources),
            saving: tokio::sync::Mutex::new(()),
            stop_signal_sent: Mutex::new(false),
        }
    }

    pub(crate) fn life(&self) -> LifeState {
        self.life.borrow().clone()
    }

    /// Receives every later state.
    pub(crate) fn watch(&self) -> watch::Receiver<LifeState> {
        self.life.subscribe()
    }

    /// Notes that the container runs, unless it has ended already.
    pub(crate) fn set_running(&self, pid: u32, started_at: i64) {
        self.life.send_if_modified(|life| {
            let created = *life == LifeState::Created;
            if created {
                *life = LifeState::Running { pid, started_at };
            }
            created
        });
    }

    /// Notes that the container has ended. Returns whether that is news.
    pub(crate) fn set_exited(&self, exit: Exit) -> bool {
        self.life.send_if_modified(|life| {
            let lives = !matches!(life, LifeState::Exited(_));
            if lives {
                *life = LifeState::Exited(exit);
            }
            lives
        })
    }

    pub(crate) fn resources(&self) -> LinuxContainerResources {
        self.resources.lock().clone()
    }

    pub(crate) fn set_resources(&self, resources: LinuxContainerResources) {
        *self.resources.lock() = resources;
    }

    pub(crate) fn status_record(&self) -> StatusRecord {
        StatusRecord { state: self.life(), resources: self.resources() }
    }

    pub(crate) fn status_path(&self, shared: &Shared) -> PathBuf {
        shared.container_root(&self.record.id).join(STATUS)
    }

    /// Whether this is the first request to send the stop signal.
    pub(crate) fn claim_stop_signal(&self) -> bool {
        !std::mem::replace(&mut *self.stop_signal_sent.lock(), true)
    }
}
