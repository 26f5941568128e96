//! The folder of a run, and the names of everything that belongs to it: cgroup, bridge, roots in the image store.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use host::{HostPodCgroups, LockFile};
use model::CgroupLimits;
use ports::clock::{Clock, SystemClock};
use ports::host::pod_cgroups::PodCgroups;
use runtime::services::{RuntimeOptions, RuntimeServices, SharedImages};
use rustix::mount::UnmountFlags;
use values::fnv::Fnv64a;

use crate::command::runtime::{RuntimeFolders, runtime_options};

/// Temporary folders of runs. The path is short, because the kernel limits paths of sockets.
const RUNS: &str = "/var/lib/podward/run";
const LOCK: &str = "run.lock";
/// Begins the names of folders that are being made.
const INCOMPLETE: char = '.';
const ID_LENGTH: usize = 6;

#[derive(Debug)]
pub(super) struct RunFolder {
    root: PathBuf,
    id: String,
    is_temporary: bool,
    /// Held by the process of the run: a folder without it is a leftover.
    _lock: LockFile,
}

impl RunFolder {
    pub(super) fn temporary() -> anyhow::Result<Self> {
        let runs = Path::new(RUNS);
        make(runs)?;
        loop {
            let id = id_of(SystemClock.now().as_nanos().to_le_bytes(), std::process::id());
            let root = runs.join(&id);
            let incomplete = runs.join(format!("{INCOMPLETE}{id}"));
            match std::fs::create_dir(&incomplete) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
                result => result.with_context(|| format!("create {}", incomplete.display()))?,
            }
            let lock = lock(&incomplete)?;
            std::fs::rename(&incomplete, &root).with_context(|| format!("create {}", root.display()))?;
            return Ok(Self { root, id, is_temporary: true, _lock: lock });
        }
    }

    /// A folder of the user, which stays.
    pub(super) fn kept(root: &Path) -> anyhow::Result<Self> {
        make(root)?;
        let root = root.canonicalize().with_context(|| format!("find {}", root.display()))?;
        let lock = lock(&root)?;
        let id = id_of(Fnv64a::hash(root.as_os_str().as_encoded_bytes()).to_le_bytes(), 0);
        Ok(Self { root, id, is_temporary: false, _lock: lock })
    }

    /// Temporary folders of runs that were killed.
    pub(super) fn leftovers() -> Vec<Self> {
        let entries = std::fs::read_dir(RUNS).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| {
                let id = entry.file_name().into_string().ok()?;
                let root = entry.path();
                let lock = (!id.starts_with(INCOMPLETE)).then(|| lock(&root).ok()).flatten()?;
                Some(Self { root, id, is_temporary: true, _lock: lock })
            })
            .collect()
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn cgroup(&self) -> String {
        format!("/podward-run-{}", self.id)
    }

    pub(super) fn bridge(&self) -> String {
        format!("pwr{}", self.id)
    }

    /// Where the search for a range of pod addresses begins.
    pub(super) fn first_range(&self) -> u8 {
        self.id.bytes().fold(0, |sum: u8, byte| sum.wrapping_mul(31).wrapping_add(byte))
    }

    pub(super) fn shared_images(&self, store: &Path) -> SharedImages {
        SharedImages { folder: store.to_owned(), guest: self.id.clone() }
    }

    /// An absent folder: pods get the built-in network.
    pub(super) fn cni_conf_dir(&self) -> PathBuf {
        self.root.join("no-cni")
    }

    pub(super) async fn make_cgroup(&self, cgroups: &HostPodCgroups) -> anyhow::Result<()> {
        let made = cgroups.ensure(&self.cgroup(), &CgroupLimits::default()).await;
        made.map_err(|error| anyhow::anyhow!("create the cgroup of the run: {}", error.text()))
    }

    /// Ends and removes everything of a run that was killed.
    pub(super) async fn reset(self, store: &Path, cgroups: &HostPodCgroups) -> anyhow::Result<()> {
        let runtime = self.root.join("podward/runtime");
        if runtime.join("network").exists() {
            let options = RuntimeOptions {
                shared_images: Some(self.shared_images(store)),
                ..runtime_options(&RuntimeFolders {
                    root: &runtime,
                    state: &runtime.join("run"),
                    registry_config: &self.cni_conf_dir(),
                    bridge: &self.bridge(),
                    cni_conf_dir: &self.cni_conf_dir(),
                })
            };
            let services =
                RuntimeServices::open(options).await.context("open the runtime of a killed run")?;
            services.remove_everything().await.context("remove the pods of a killed run")?;
        }
        self.remove(cgroups).await
    }

    /// Removes what is left when no pod exists any more.
    pub(super) async fn remove(self, cgroups: &HostPodCgroups) -> anyhow::Result<()> {
        let failed = |error: ports::host::pod_folders::FileError| {
            anyhow::anyhow!("remove the cgroup of the run: {}", error.text())
        };
        cgroups.kill_processes(&self.cgroup()).await.map_err(failed)?;
        cgroups.remove(&self.cgroup()).await.map_err(failed)?;
        unmount_all(&self.root)?;
        if self.is_temporary {
            std::fs::remove_dir_all(&self.root).with_context(|| format!("remove {}", self.root.display()))?;
        }
        Ok(())
    }
}

fn make(folder: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.with_context(|| format!("create {}", folder.display()))
}

fn lock(folder: &Path) -> anyhow::Result<LockFile> {
    LockFile::acquire(&folder.join(LOCK))
        .map_err(|error| anyhow::anyhow!("{error}; is another `podward run` using this folder?"))
}

fn id_of(number: [u8; 8], process: u32) -> String {
    const DIGITS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut hash = Fnv64a::hash(&[&number[..], &process.to_le_bytes()].concat());
    let mut id = String::new();
    for _ in 0..ID_LENGTH {
        let digit = usize::try_from(hash % 36).ok().and_then(|digit| DIGITS.get(digit));
        id.push(char::from(digit.copied().unwrap_or(b'0')));
        hash /= 36;
    }
    id
}

/// Unmounts everything at and below a folder. Nothing may be mounted there when it is deleted.
fn unmount_all(root: &Path) -> anyhow::Result<()> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").context("read /proc/self/mountinfo")?;
    for point in mount_points(&table, root).into_iter().rev() {
        rustix::mount::unmount(&point, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
            .with_context(|| format!("unmount {}", point.display()))?;
    }
    let table = std::fs::read_to_string("/proc/self/mountinfo").context("read /proc/self/mountinfo")?;
    if let Some(point) = mount_points(&table, root).first() {
        bail!("{} is still mounted", point.display());
    }
    Ok(())
}

/// In mount order.
fn mount_points(table: &str, root: &Path) -> Vec<PathBuf> {
    let points = table.lines().filter_map(|line| line.split(' ').nth(4));
    // Of the characters that the table escapes, only spaces are common.
    points
        .map(|point| PathBuf::from(point.replace("\\040", " ")))
        .filter(|point| point.starts_with(root))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_short_words() {
        let id = id_of([1; 8], 7);
        assert_eq!(id.len(), 6);
        assert!(id.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase()), "{id}");
        assert_ne!(id, id_of([1; 8], 8));
    }

    #[test]
    fn finds_mounts_below_a_folder() {
        let table = "1 0 8:1 / / rw - ext4 x rw\n2 1 0:1 / /run/a rw - tmpfs x rw\n3 2 0:2 / /run/a/b\\040c rw - tmpfs x rw\n4 1 0:1 / /run/ab rw - tmpfs x rw\n";
        let points = mount_points(table, Path::new("/run/a"));
        assert_eq!(points, [PathBuf::from("/run/a"), PathBuf::from("/run/a/b c")]);
    }
}
