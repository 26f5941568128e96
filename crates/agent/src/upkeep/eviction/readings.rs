//! Readings of the node for eviction.

use std::path::PathBuf;
use std::time::Duration;

use decide::cgroups::qos_cgroups::QosCgroups;
use decide::eviction::{
    DiskLayout, DiskReadings, NodeReadings, Signal, disk_layout, with_container_filesystem,
};
use model::usage::FilesystemRoom;
use ports::host::usage::Detail;
use tokio::time::{Instant, timeout};

use super::{Evictor, INTERVAL};

const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// Minimum time between two checks after kernel notifications.
const NOTIFICATION_INTERVAL: Duration = Duration::from_secs(1);

/// File systems of images and containers. They do not change while the runtime runs.
#[derive(Clone, Debug)]
pub(super) struct Disks {
    layout: DiskLayout,
    images: PathBuf,
    containers: PathBuf,
}

impl Evictor {
    pub(super) fn layout(&self) -> DiskLayout {
        self.disks.as_ref().map_or(DiskLayout::Single, |disks| disks.layout)
    }

    /// Reads the file systems from the runtime, once.
    pub(super) async fn detect_disks(&mut self) {
        if self.disks.is_none()
            && let Some(disks) = self.read_disk_layout().await
        {
            tracing::info!(layout = ?disks.layout, images = %disks.images.display(), "detected disk layout");
            self.thresholds = with_container_filesystem(self.thresholds.clone(), disks.layout);
            self.disks = Some(disks);
        }
    }

    async fn read_disk_layout(&self) -> Option<Disks> {
        let filesystems = timeout(READ_TIMEOUT, self.deps.images.image_filesystems()).await;
        let filesystems = filesystems
            .ok()?
            .inspect_err(|error| tracing::debug!(%error, "failed to read file systems from the runtime"))
            .ok()?;
        let images = filesystems.images.first()?.mount_point.clone();
        // Runtimes without a separate container file system report none.
        let containers =
            filesystems.containers.first().map_or_else(|| images.clone(), |disk| disk.mount_point.clone());
        let paths = vec![self.deps.node.root_dir.clone(), images.clone(), containers.clone()];
        let devices = timeout(READ_TIMEOUT, self.deps.disks.devices(paths)).await.ok()?;
        let [Some(node), Some(of_images), Some(of_containers)] = devices.as_slice() else { return None };
        let layout = match disk_layout(node, of_images, of_containers) {
            DiskLayout::SplitImageFs if !self.deps.settings.split_disks => {
                tracing::warn!(
                    "containers have a separate disk, which is not monitored because KubeletSeparateDiskGC is off"
                );
                DiskLayout::DedicatedImageFs
            }
            layout @ (DiskLayout::Single | DiskLayout::DedicatedImageFs | DiskLayout::SplitImageFs) => layout,
        };
        Some(Disks { layout, images, containers })
    }

    /// Reads only the signals that have thresholds.
    pub(super) async fn read_node(&self) -> NodeReadings {
        let wants = |signals: &[Signal]| self.thresholds.iter().any(|own| signals.contains(&own.signal));
        let of_machine = wants(&[Signal::MemoryAvailable]);
        let of_pods = wants(&[Signal::AllocatableMemoryAvailable]);
        let of_processes = wants(&[Signal::PidAvailable]);
        let usage = &self.deps.usage;
        let cgroups = async {
            let pods = QosCgroups::of(&self.deps.node).all;
            let asked = [(of_machine, "/".to_owned()), (of_pods, pods)];
            let paths: Vec<String> =
                asked.into_iter().filter(|(needed, _)| *needed).map(|(_, path)| path).collect();
            if paths.is_empty() { Vec::new() } else { usage.cgroups(paths, Detail::Basic).await }
        };
        let processes = async { if of_processes { usage.processes().await } else { None } };
        let (cgroups, disks, processes) = tokio::join!(
            timeout(READ_TIMEOUT, cgroups),
            timeout(READ_TIMEOUT, self.read_disks()),
            timeout(READ_TIMEOUT, processes)
        );
        let mut cgroups = cgroups.unwrap_or_default().into_iter();
        NodeReadings {
            at: self.deps.clock.now(),
            memory: self.deps.node.memory_capacity,
            root: of_machine.then(|| cgroups.next().flatten()).flatten(),
            pods: of_pods.then(|| cgroups.next().flatten()).flatten(),
            disks: disks.unwrap_or_default(),
            processes: processes.unwrap_or_default(),
        }
    }

    async fn read_disks(&self) -> DiskReadings {
        let wants = |space: Signal, inodes: Signal| {
            self.thresholds.iter().any(|own| own.signal == space || own.signal == inodes)
        };
        let node = wants(Signal::NodeFsAvailable, Signal::NodeFsInodesFree);
        let images = wants(Signal::ImageFsAvailable, Signal::ImageFsInodesFree);
        let containers = wants(Signal::ContainerFsAvailable, Signal::ContainerFsInodesFree);
        let known = self.disks.as_ref();
        let paths: [Option<PathBuf>; 3] = [
            node.then(|| self.deps.node.root_dir.clone()),
            known.filter(|_| images).map(|disks| disks.images.clone()),
            known.filter(|_| containers).map(|disks| disks.containers.clone()),
        ];
        let mut asked: Vec<PathBuf> = paths.iter().flatten().cloned().collect();
        asked.sort();
        asked.dedup();
        if asked.is_empty() {
            return DiskReadings::default();
        }
        let rooms = self.deps.disks.rooms(asked.clone()).await;
        let room = |path: Option<PathBuf>| -> Option<FilesystemRoom> {
            let found = asked.iter().position(|own| Some(own) == path.as_ref())?;
            *rooms.get(found)?
        };
        let [node, images, containers] = paths.map(room);
        DiskReadings { node, images, containers }
    }

    /// Waits for the next interval, or for a memory notification of the kernel.
    pub(super) async fn wait_for_next_check(&self) {
        let begun = Instant::now();
        let marks =
            if self.deps.settings.kernel_notification { self.memory_thresholds() } else { Vec::new() };
        if marks.is_empty() {
            return tokio::time::sleep(INTERVAL).await;
        }
        let words = marks.iter().map(|(cgroup, bytes)| self.deps.memory.crossed(cgroup, *bytes));
        if timeout(INTERVAL, futures::future::select_all(words)).await.is_ok() {
            tracing::info!("kernel reports that memory crossed a threshold");
            tokio::time::sleep_until(begun + NOTIFICATION_INTERVAL).await;
        }
    }

    /// The memory use at which each threshold is reached. The kernel also counts page cache, which the thresholds do not.
    fn memory_thresholds(&self) -> Vec<(String, u64)> {
        let pods = QosCgroups::of(&self.deps.node).all;
        let mark = |own: &decide::eviction::Threshold| {
            let (cgroup, found) = match own.signal {
                Signal::MemoryAvailable => ("/".to_owned(), self.sight.root.as_ref()?),
                Signal::AllocatableMemoryAvailable => (pods.clone(), self.sight.pods.as_ref()?),
                Signal::NodeFsAvailable
                | Signal::NodeFsInodesFree
                | Signal::ImageFsAvailable
                | Signal::ImageFsInodesFree
                | Signal::ContainerFsAvailable
                | Signal::ContainerFsInodesFree
                | Signal::PidAvailable => return None,
            };
            let seen = self.watch.last_observations().get(&own.signal)?;
            let kept = own.value.of(seen.capacity);
            let caches = found.memory.usage.saturating_sub(found.memory.working_set);
            let limit = u64::try_from(seen.capacity.saturating_sub(kept)).ok()?;
            Some((cgroup, limit.saturating_add(caches)))
        };
        self.thresholds.iter().filter_map(mark).collect()
    }
}
