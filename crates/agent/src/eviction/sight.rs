//! What is read of the node.

use std::path::PathBuf;
use std::time::Duration;

use decide::eviction::{DiskLayout, DiskSight, NodeSight, Signal, layout, with_container_disk};
use decide::qos_cgroups::QosCgroups;
use model::usage::FilesystemRoom;
use ports::usage::Detail;
use tokio::time::{Instant, timeout};

use super::{Guard, INTERVAL};

/// Longest wait for one reading.
const LIMIT: Duration = Duration::from_secs(5);
/// Shortest time between two looks that the kernel asks for.
const BREATH: Duration = Duration::from_secs(1);

/// Where images and containers lie. Runtimes do not move them.
#[derive(Clone, Debug)]
pub(super) struct Disks {
    layout: DiskLayout,
    images: PathBuf,
    containers: PathBuf,
}

impl Guard {
    /// How disks are laid out, as far as it is known.
    pub(super) fn layout(&self) -> DiskLayout {
        self.disks.as_ref().map_or(DiskLayout::One, |disks| disks.layout)
    }

    /// Asks the runtime where it has its files, until it answers.
    pub(super) async fn learn_disks(&mut self) {
        if self.disks.is_none()
            && let Some(disks) = self.ask_for_disks().await
        {
            tracing::info!(layout = ?disks.layout, images = %disks.images.display(), "disks of the node");
            self.thresholds = with_container_disk(self.thresholds.clone(), disks.layout);
            self.disks = Some(disks);
        }
    }

    async fn ask_for_disks(&self) -> Option<Disks> {
        let told = timeout(LIMIT, self.parts.images.image_filesystems()).await;
        let told =
            told.ok()?.inspect_err(|error| tracing::debug!(%error, "the runtime names no disks")).ok()?;
        let images = told.images.first()?.mount_point.clone();
        // Runtimes whose containers have no disk of their own name none.
        let containers =
            told.containers.first().map_or_else(|| images.clone(), |disk| disk.mount_point.clone());
        let paths = vec![self.parts.node.root_dir.clone(), images.clone(), containers.clone()];
        let devices = timeout(LIMIT, self.parts.disks.devices(paths)).await.ok()?;
        let [Some(node), Some(of_images), Some(of_containers)] = devices.as_slice() else { return None };
        let layout = match layout(node, of_images, of_containers) {
            DiskLayout::ImagesAndContainersApart if !self.parts.settings.split_disks => {
                tracing::warn!(
                    "containers have a disk of their own, but KubeletSeparateDiskGC is off: it is not watched"
                );
                DiskLayout::ImagesApart
            }
            layout @ (DiskLayout::One | DiskLayout::ImagesApart | DiskLayout::ImagesAndContainersApart) => {
                layout
            }
        };
        Some(Disks { layout, images, containers })
    }

    /// Reads what the thresholds are about, and nothing else.
    pub(super) async fn look(&self) -> NodeSight {
        let wants = |signals: &[Signal]| self.thresholds.iter().any(|own| signals.contains(&own.signal));
        let of_machine = wants(&[Signal::MemoryAvailable]);
        let of_pods = wants(&[Signal::AllocatableMemoryAvailable]);
        let of_processes = wants(&[Signal::PidAvailable]);
        let usage = &self.parts.usage;
        let cgroups = async {
            let pods = QosCgroups::of(&self.parts.node).all;
            let asked = [(of_machine, "/".to_owned()), (of_pods, pods)];
            let paths: Vec<String> =
                asked.into_iter().filter(|(wanted, _)| *wanted).map(|(_, path)| path).collect();
            if paths.is_empty() { Vec::new() } else { usage.cgroups(paths, Detail::Basic).await }
        };
        let processes = async { if of_processes { usage.processes().await } else { None } };
        let (cgroups, disks, processes) = tokio::join!(
            timeout(LIMIT, cgroups),
            timeout(LIMIT, self.look_at_disks()),
            timeout(LIMIT, processes)
        );
        let mut cgroups = cgroups.unwrap_or_default().into_iter();
        NodeSight {
            at: self.parts.clock.now(),
            memory: self.parts.node.memory_capacity,
            root: of_machine.then(|| cgroups.next().flatten()).flatten(),
            pods: of_pods.then(|| cgroups.next().flatten()).flatten(),
            disks: disks.unwrap_or_default(),
            processes: processes.unwrap_or_default(),
        }
    }

    async fn look_at_disks(&self) -> DiskSight {
        let wants = |space: Signal, inodes: Signal| {
            self.thresholds.iter().any(|own| own.signal == space || own.signal == inodes)
        };
        let node = wants(Signal::NodeFsAvailable, Signal::NodeFsInodesFree);
        let images = wants(Signal::ImageFsAvailable, Signal::ImageFsInodesFree);
        let containers = wants(Signal::ContainerFsAvailable, Signal::ContainerFsInodesFree);
        let known = self.disks.as_ref();
        let paths: [Option<PathBuf>; 3] = [
            node.then(|| self.parts.node.root_dir.clone()),
            known.filter(|_| images).map(|disks| disks.images.clone()),
            known.filter(|_| containers).map(|disks| disks.containers.clone()),
        ];
        let mut asked: Vec<PathBuf> = paths.iter().flatten().cloned().collect();
        asked.sort();
        asked.dedup();
        if asked.is_empty() {
            return DiskSight::default();
        }
        let rooms = self.parts.disks.rooms(asked.clone()).await;
        let room = |path: Option<PathBuf>| -> Option<FilesystemRoom> {
            let found = asked.iter().position(|own| Some(own) == path.as_ref())?;
            *rooms.get(found)?
        };
        let [node, images, containers] = paths.map(room);
        DiskSight { node, images, containers }
    }

    /// Waits for the next look: by the clock, or because the kernel says that memory crossed a threshold.
    pub(super) async fn rest(&self) {
        let begun = Instant::now();
        let marks = if self.parts.settings.kernel_notification { self.marks() } else { Vec::new() };
        if marks.is_empty() {
            return tokio::time::sleep(INTERVAL).await;
        }
        let words = marks.iter().map(|(cgroup, bytes)| self.parts.memory.crossed(cgroup, *bytes));
        if timeout(INTERVAL, futures::future::select_all(words)).await.is_ok() {
            tracing::info!("the kernel says that memory crosses a threshold");
            tokio::time::sleep_until(begun + BREATH).await;
        }
    }

    /// The memory use at which each threshold is reached. The kernel counts caches that the thresholds do not.
    fn marks(&self) -> Vec<(String, u64)> {
        let pods = QosCgroups::of(&self.parts.node).all;
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
            let seen = self.watch.last().get(&own.signal)?;
            let kept = own.value.of(seen.capacity);
            let caches = found.memory.usage.saturating_sub(found.memory.working_set);
            let limit = u64::try_from(seen.capacity.saturating_sub(kept)).ok()?;
            Some((cgroup, limit.saturating_add(caches)))
        };
        self.thresholds.iter().filter_map(mark).collect()
    }
}
