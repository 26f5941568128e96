//! Pod folders, log folders and log links.

mod logs;
mod removal;
#[cfg(test)]
mod tests;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use model::PodUid;
use ports::host::pod_folders::{FileError, PodFolders};
use ports::served::pod_logs::{LogFolder, PodLogs};

use crate::errors::{OnPath, blocking, entry_name, invalid_input};
use crate::files::atomic_file;
use crate::files::folder::Folder;
use crate::hanging_io::run_may_hang;
use crate::mount_table;

/// Mode of the root folder, of pod folders and of the pod log folder: other users must not access them.
pub(crate) const PRIVATE_MODE: u32 = 0o750;
const LOG_FOLDER_MODE: u32 = 0o755;

/// Files of pods: their folders, logs, termination messages, environment files and user namespace records.
#[derive(Clone, Debug)]
pub struct HostPodFolders {
    pub(crate) root: PathBuf,
    pub(crate) pod_logs: PathBuf,
    log_links: PathBuf,
}

impl HostPodFolders {
    /// `root` is usually `/var/lib/kubelet`, `pod_logs` `/var/log/pods` and `log_links` `/var/log/containers`. Folders are
    /// created on first use.
    #[must_use]
    pub fn new(
        root: impl Into<PathBuf>,
        pod_logs: impl Into<PathBuf>,
        log_links: impl Into<PathBuf>,
    ) -> Self {
        Self { root: root.into(), pod_logs: pod_logs.into(), log_links: log_links.into() }
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, FileError> {
        let folders = self.clone();
        blocking(&self.root, move || work(&folders)).await
    }

    fn write_file(
        &self,
        uid: &PodUid,
        relative: &Path,
        content: &[u8],
        mode: u32,
    ) -> Result<PathBuf, FileError> {
        let pod = make_pod(&self.root, uid)?;
        let path = pod.path().join(relative);
        let (Some(name), Some(parent)) = (relative.file_name(), relative.parent()) else {
            return Err(invalid_input("not a file name")).on_path("write file", path);
        };
        if parent.as_os_str().is_empty() {
            atomic_file::write(&pod, name, content, mode)?;
        } else {
            atomic_file::write(&pod.make_below(parent, PRIVATE_MODE)?, name, content, mode)?;
        }
        Ok(path)
    }
}

#[async_trait]
impl PodFolders for HostPodFolders {
    async fn make_pod_folders(&self, uid: &PodUid) -> Result<(), FileError> {
        let uid = uid.clone();
        self.run(move |folders| {
            let pod = make_pod(&folders.root, &uid)?;
            pod.make_below("volumes", PRIVATE_MODE)?;
            pod.make_below("plugins", PRIVATE_MODE)?;
            Ok(())
        })
        .await
    }

    async fn write_pod_file(
        &self,
        uid: &PodUid,
        relative: &Path,
        content: &[u8],
        mode: u32,
    ) -> Result<PathBuf, FileError> {
        let (uid, relative, content) = (uid.clone(), relative.to_path_buf(), content.to_vec());
        self.run(move |folders| folders.write_file(&uid, &relative, &content, mode)).await
    }

    async fn list_pod_folders(&self) -> Result<Vec<PodUid>, FileError> {
        self.run(|folders| {
            let Some(pods) = Folder::open(&folders.root.join("pods"))? else { return Ok(Vec::new()) };
            let names = pods.folder_names()?;
            Ok(names.iter().filter_map(|name| name.to_str().map(PodUid::from)).collect())
        })
        .await
    }

    async fn remove_pod_folder(&self, uid: &PodUid) -> Result<(), FileError> {
        let uid = uid.clone();
        self.run(move |folders| {
            let name = entry_name(uid.as_str())?;
            let Some(pods) = Folder::open(&folders.root.join("pods"))? else { return Ok(()) };
            removal::remove_pod(&pods, name.as_os_str())
        })
        .await
    }

    async fn shared_group(&self, uid: &PodUid, volume: &Path) -> Result<Option<u32>, FileError> {
        let (root, uid, volume) = (self.root.clone(), uid.clone(), volume.to_path_buf());
        // The disk of the volume may hang.
        let inspect = move || {
            let Some(pods) = Folder::open(&root.join("pods"))? else { return Ok(None) };
            let pods = pods.real_path()?;
            let relative: PathBuf = volume.iter().skip_while(|name| *name != uid.as_str()).skip(1).collect();
            let own_path = pods.join(uid.as_str()).join(&relative);
            let table = mount_table::table()?;
            let others = mount_table::at_or_below(&table, &pods).into_iter();
            let mut others = others.map(|mount| &mount.mount_point).filter(|point| **point != own_path);
            if !others.any(|point| point.ends_with(&relative)) {
                return Ok(None);
            }
            let found = std::fs::metadata(&volume).on_path("stat", &volume)?;
            Ok(Some(found.gid()))
        };
        run_may_hang(inspect).await.on_path("run file work on", &self.root)?
    }
}

#[async_trait]
impl PodLogs for HostPodFolders {
    async fn make_log_folder(&self, folder: &LogFolder, container: &str) -> Result<(), FileError> {
        let (folder, container) = (folder.clone(), container.to_owned());
        self.run(move |folders| {
            let path = Path::new(&logs::folder_name(&folder)?).join(entry_name(&container)?);
            Folder::make(&folders.pod_logs, PRIVATE_MODE)?.make_below(path, LOG_FOLDER_MODE)?;
            Ok(())
        })
        .await
    }

    async fn highest_log_number(
        &self,
        folder: &LogFolder,
        container: &str,
    ) -> Result<Option<u32>, FileError> {
        let (folder, container) = (folder.clone(), container.to_owned());
        self.run(move |folders| logs::highest_number(&folders.pod_logs, &folder, &container)).await
    }

    async fn link_container_log(&self, link: &str, target: &Path) -> Result<(), FileError> {
        let (link, target) = (link.to_owned(), target.to_path_buf());
        self.run(move |folders| {
            let links = Folder::make(&folders.log_links, LOG_FOLDER_MODE)?;
            logs::point_link(&links, entry_name(&link)?.as_os_str(), &target)
        })
        .await
    }

    async fn remove_log(&self, log: &Path, link: &str) -> Result<(), FileError> {
        let (log, link) = (log.to_path_buf(), link.to_owned());
        self.run(move |folders| {
            logs::remove_log(&folders.pod_logs, &log)?;
            match Folder::open(&folders.log_links)? {
                Some(links) => logs::remove_link(&links, entry_name(&link)?.as_os_str()),
                None => Ok(()),
            }
        })
        .await
    }

    async fn list_log_folders(&self) -> Result<Vec<LogFolder>, FileError> {
        self.run(|folders| {
            let Some(logs) = Folder::open(&folders.pod_logs)? else { return Ok(Vec::new()) };
            let names = logs.folder_names()?;
            Ok(names.iter().filter_map(|name| logs::parse_folder_name(name.to_str()?)).collect())
        })
        .await
    }

    async fn remove_log_folder(&self, folder: &LogFolder) -> Result<(), FileError> {
        let folder = folder.clone();
        self.run(move |folders| {
            let Some(logs) = Folder::open(&folders.pod_logs)? else { return Ok(()) };
            crate::files::tree::remove(&logs, logs::folder_name(&folder)?.as_ref())
        })
        .await
    }

    async fn remove_dead_log_links(&self) -> Result<(), FileError> {
        self.run(|folders| {
            let Some(links) = Folder::open(&folders.log_links)? else { return Ok(()) };
            logs::remove_dead_links(&links, &folders.pod_logs)
        })
        .await
    }
}

/// Opens `pods/<uid>` below the root folder, creating missing folders.
pub(crate) fn make_pod(root: &Path, uid: &PodUid) -> Result<Folder, FileError> {
    let relative = Path::new("pods").join(entry_name(uid.as_str())?);
    Folder::make(root, PRIVATE_MODE)?.make_below(relative, PRIVATE_MODE)
}

/// Opens `pods/<uid>` below the root folder, if it exists.
pub(crate) fn existing_pod(root: &Path, uid: &PodUid) -> Result<Option<Folder>, FileError> {
    let name = entry_name(uid.as_str())?;
    Folder::open(&root.join("pods"))?.map_or(Ok(None), |pods| pods.existing(name))
}
