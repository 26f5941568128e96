//! State that all requests share: folders, the image store, the known sandboxes and containers, and their names.
//!
//! The maps are in memory and complete after recovery, so that lists never wait for processes or disks. A lock on them is held for
//! single lookups and changes only.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio::task::JoinSet;

use crate::cgroups::CgroupLayout;
use crate::containers::Container;
use crate::errors::ServiceError;
use crate::events::ContainerEvent;
use crate::ids::{Match, find_by_prefix};
use crate::images::{ImageStore, Now};
use crate::keeper::SealedProgram;
use crate::launcher::capabilities::{Capability, set_of_mask};
use crate::network::NetworkSettings;
use crate::sandboxes::{PodNetworking, Sandbox};
use crate::services::CpuRates;

const SANDBOX: &str = "sandbox";
const CONTAINER: &str = "container";
/// A subscriber that is further behind is cut.
const MAX_PENDING_EVENTS: usize = 1000;

/// Where the runtime keeps its files, and what it executes.
#[derive(Clone)]
pub struct RuntimeOptions {
    /// Images, records and writable layers. They survive a reboot.
    pub root: PathBuf,
    /// Sockets, namespaces and shared memory. The path must be short: the kernel limits paths of sockets.
    pub state: PathBuf,
    /// The program that keepers execute: one that calls [`run_if_keeper`](crate::keeper::run_if_keeper).
    pub keeper_program: PathBuf,
    /// A folder with a `hosts.toml` for each registry.
    pub hosts_folder: Option<PathBuf>,
    /// How pods are connected; none leaves them with their loopback interface.
    pub network: Option<NetworkSettings>,
    /// Where streams of exec, attach and port-forward are served.
    pub streaming_address: SocketAddr,
    /// Folders with specifications of the Container Device Interface; those of later ones win.
    pub cdi_folders: Vec<PathBuf>,
    /// Images that image garbage collection leaves alone.
    pub pinned_images: Vec<String>,
    /// The image store of another runtime, instead of one below `root`.
    pub shared_images: Option<SharedImages>,
    pub now: Now,
}

/// An image store that this runtime uses as a guest.
#[derive(Clone, Debug)]
pub struct SharedImages {
    pub folder: PathBuf,
    /// Distinguishes the guests of a store.
    pub guest: String,
}

pub(crate) struct Shared {
    pub(crate) options: RuntimeOptions,
    pub(crate) boot_id: String,
    pub(crate) store: ImageStore,
    pub(crate) cgroups: CgroupLayout,
    pub(crate) network: PodNetworking,
    /// Capabilities of this process: no container has more.
    pub(crate) held: BTreeSet<Capability>,
    pub(crate) events: broadcast::Sender<ContainerEvent>,
    pub(crate) cpu_rates: CpuRates,
    objects: Mutex<Objects>,
    keeper_program: Mutex<Option<Arc<SealedProgram>>>,
    tasks: Mutex<JoinSet<()>>,
}

#[derive(Default)]
struct Objects {
    sandboxes: BTreeMap<String, Arc<Sandbox>>,
    containers: BTreeMap<String, Arc<Container>>,
    /// Ids by reserved name.
    names: BTreeMap<(&'static str, String), String>,
}

impl Shared {
    pub(crate) fn new(
        options: RuntimeOptions,
        boot_id: String,
        store: ImageStore,
        cgroups: CgroupLayout,
        network: PodNetworking,
    ) -> Self {
        let (events, _) = broadcast::channel(MAX_PENDING_EVENTS);
        Self {
            options,
            boot_id,
            store,
            cgroups,
            network,
            held: held_capabilities(),
            events,
            cpu_rates: CpuRates::default(),
            objects: Mutex::default(),
            keeper_program: Mutex::default(),
            tasks: Mutex::default(),
        }
    }

    pub(crate) fn now(&self) -> i64 {
        (self.options.now)()
    }

    /// The folder of a sandbox's records and files.
    pub(crate) fn sandbox_root(&self, id: &str) -> PathBuf {
        self.sandboxes_root().join(id)
    }

    pub(crate) fn sandboxes_root(&self) -> PathBuf {
        self.options.root.join("sandboxes")
    }

    /// The folder of a container's records and volumes.
    pub(crate) fn container_root(&self, id: &str) -> PathBuf {
        self.containers_root().join(id)
    }

    pub(crate) fn containers_root(&self) -> PathBuf {
        self.options.root.join("containers")
    }

    /// The sealed program of keepers. It is copied for the first pod, because it costs memory. Blocks.
    pub(crate) fn keeper_program(&self) -> Result<Arc<SealedProgram>, ServiceError> {
        let mut program = self.keeper_program.lock();
        if let Some(program) = program.as_ref() {
            return Ok(program.clone());
        }
        let path: &Path = &self.options.keeper_program;
        let copy = SealedProgram::copy_of(path)
            .map_err(|error| ServiceError::io(crate::errors::describe(&error), std::io::ErrorKind::Other))?;
        let copy = Arc::new(copy);
        *program = Some(copy.clone());
        Ok(copy)
    }

    /// Runs a task until it ends or the runtime is dropped.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Ends all tasks. Keepers and containers continue.
    pub(crate) fn end_tasks(&self) {
        self.tasks.lock().abort_all();
    }

    pub(crate) fn sandbox(&self, prefix: &str) -> Result<Arc<Sandbox>, ServiceError> {
        found(SANDBOX, prefix, find_by_prefix(&self.objects.lock().sandboxes, prefix))
    }

    pub(crate) fn container(&self, prefix: &str) -> Result<Arc<Container>, ServiceError> {
        found(CONTAINER, prefix, find_by_prefix(&self.objects.lock().containers, prefix))
    }

    pub(crate) fn sandboxes(&self) -> Vec<Arc<Sandbox>> {
        self.objects.lock().sandboxes.values().cloned().collect()
    }

    pub(crate) fn containers(&self) -> Vec<Arc<Container>> {
        self.objects.lock().containers.values().cloned().collect()
    }

    pub(crate) fn containers_of(&self, sandbox: &str) -> Vec<Arc<Container>> {
        let objects = self.objects.lock();
        objects.containers.values().filter(|container| container.record.sandbox == sandbox).cloned().collect()
    }

    pub(crate) fn add_sandbox(&self, sandbox: Arc<Sandbox>) {
        self.objects.lock().sandboxes.insert(sandbox.record.id.clone(), sandbox);
    }

    pub(crate) fn add_container(&self, container: Arc<Container>) {
        self.objects.lock().containers.insert(container.record.id.clone(), container);
    }

    /// Forgets a sandbox and its name.
    pub(crate) fn forget_sandbox(&self, id: &str) {
        let mut objects = self.objects.lock();
        objects.sandboxes.remove(id);
        objects.names.retain(|_, owner| owner != id);
        self.cpu_rates.forget(id);
    }

    /// Forgets a container and its name.
    pub(crate) fn forget_container(&self, id: &str) {
        let mut objects = self.objects.lock();
        objects.containers.remove(id);
        objects.names.retain(|_, owner| owner != id);
        self.cpu_rates.forget(id);
    }

    pub(crate) fn reserve_sandbox_name(&self, name: String, id: &str) -> Result<(), ServiceError> {
        self.reserve(SANDBOX, name, id)
    }

    pub(crate) fn reserve_container_name(&self, name: String, id: &str) -> Result<(), ServiceError> {
        self.reserve(CONTAINER, name, id)
    }

    pub(crate) fn release_names(&self, id: &str) {
        self.objects.lock().names.retain(|_, owner| owner != id);
    }

    fn reserve(&self, kind: &'static str, name: String, id: &str) -> Result<(), ServiceError> {
        use std::collections::btree_map::Entry;
        match self.objects.lock().names.entry((kind, name)) {
            Entry::Vacant(entry) => {
                entry.insert(id.to_owned());
                Ok(())
            }
            Entry::Occupied(entry) if entry.get() == id => Ok(()),
            Entry::Occupied(entry) => {
                let (name, id) = (entry.key().1.clone(), entry.get().clone());
                Err(ServiceError::NameInUse { kind, name, id })
            }
        }
    }
}

fn found<T: Clone>(kind: &'static str, prefix: &str, found: Match<&T>) -> Result<T, ServiceError> {
    match found {
        Match::One(object) => Ok(object.clone()),
        Match::None => Err(ServiceError::NotFound { kind, id: prefix.to_owned() }),
        Match::Several => Err(ServiceError::Ambiguous { kind, prefix: prefix.to_owned() }),
    }
}

/// Runs work that blocks on a thread for it.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ServiceError> + Send + 'static,
) -> Result<T, ServiceError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| ServiceError::Panicked)?
}

fn held_capabilities() -> BTreeSet<Capability> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapPrm:")).unwrap_or_default();
    set_of_mask(u64::from_str_radix(mask.trim(), 16).unwrap_or(0))
}
