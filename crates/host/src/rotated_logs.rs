//! Rotation of log files, by descriptor.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use flate2::Compression;
use flate2::write::GzEncoder;
use model::Timestamp;
use ports::pod_folders::FileError;
use ports::rotated_logs::{LogSize, RotatedLogs};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::failure::{OnPath, blocking, refused};
use crate::folder::{Folder, kind};

/// Logs compress well even when little work is spent on them.
const EFFORT: Compression = Compression::new(3);

/// Logs below the pod log folder.
#[derive(Clone, Debug)]
pub struct HostRotatedLogs {
    pod_logs: PathBuf,
}

impl HostRotatedLogs {
    /// Logs below that folder.
    #[must_use]
    pub fn new(pod_logs: impl Into<PathBuf>) -> Self {
        Self { pod_logs: pod_logs.into() }
    }

    /// Runs work on the folder of a log and the log's name in it.
    async fn at<T: Send + 'static>(
        &self,
        log: &Path,
        work: impl FnOnce(&Folder, &str) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, FileError> {
        let (pod_logs, path) = (self.pod_logs.clone(), log.to_path_buf());
        blocking(log, move || {
            let (folder, name) = locate(&pod_logs, &path)?;
            work(&folder, &name)
        })
        .await
    }
}

#[async_trait]
impl RotatedLogs for HostRotatedLogs {
    async fn sizes(&self, logs: Vec<PathBuf>) -> Vec<LogSize> {
        let (pod_logs, count) = (self.pod_logs.clone(), logs.len());
        let look = move || sizes(&pod_logs, &logs);
        tokio::task::spawn_blocking(look).await.unwrap_or_else(|_| vec![LogSize::Foreign; count])
    }

    async fn rotated(&self, log: &Path) -> Result<Vec<String>, FileError> {
        self.at(log, |folder, log| {
            let mut found = Vec::new();
            for name in folder.names()? {
                let Some(text) = name.to_str().filter(|text| is_rotated(log, text)) else { continue };
                if folder.stat(&name)?.is_some_and(|stat| kind(&stat) == FileType::RegularFile) {
                    found.push(text.to_owned());
                }
            }
            Ok(found)
        })
        .await
    }

    async fn remove(&self, log: &Path, name: &str) -> Result<(), FileError> {
        let name = name.to_owned();
        self.at(log, move |folder, log| {
            check_rotated(folder, log, &name)?;
            match rustix::fs::unlinkat(folder, name.as_str(), AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(error) => Err(error).on_path("remove rotated log", folder.path().join(&name)),
            }
        })
        .await
    }

    async fn compress(&self, log: &Path, name: &str) -> Result<(), FileError> {
        let name = name.to_owned();
        self.at(log, move |folder, log| {
            check_rotated(folder, log, &name)?;
            compress(folder, &name)
        })
        .await
    }

    async fn move_away(&self, log: &Path, now: Timestamp) -> Result<String, FileError> {
        self.at(log, move |folder, log| {
            let name = format!("{log}.{}", stamp(now));
            let to = folder.path().join(&name);
            rustix::fs::renameat_with(folder, log, folder, &name, RenameFlags::NOREPLACE)
                .on_path("rename log to", to)?;
            Ok(name)
        })
        .await
    }

    async fn move_back(&self, log: &Path, name: &str) -> Result<(), FileError> {
        let name = name.to_owned();
        self.at(log, move |folder, log| {
            check_rotated(folder, log, &name)?;
            rustix::fs::renameat_with(folder, name.as_str(), folder, log, RenameFlags::NOREPLACE)
                .on_path("rename rotated log back to", folder.path().join(log))
        })
        .await
    }
}

/// The open folder of a log, and the log's name in it.
pub(crate) fn locate(pod_logs: &Path, log: &Path) -> Result<(Folder, String), FileError> {
    locate_below(&top(pod_logs)?, log)
}

fn top(pod_logs: &Path) -> Result<Folder, FileError> {
    Folder::open(pod_logs)?.ok_or_else(missing).on_path("open folder", pod_logs)
}

fn missing() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
}

fn locate_below(top: &Folder, log: &Path) -> Result<(Folder, String), FileError> {
    let outside = || refused("is not a log of a pod");
    let relative = log.strip_prefix(top.path()).map_err(|_| outside()).on_path("open log", log)?;
    let (Some(parent), Some(name)) = (relative.parent(), relative.file_name().and_then(OsStr::to_str)) else {
        return Err(outside()).on_path("open log", log);
    };
    let folder = top.existing(parent)?.ok_or_else(missing).on_path("open folder of log", log)?;
    Ok((folder, name.to_owned()))
}

fn sizes(pod_logs: &Path, logs: &[PathBuf]) -> Vec<LogSize> {
    match top(pod_logs) {
        Ok(top) => logs.iter().map(|log| size(&top, log)).collect(),
        Err(_) => vec![LogSize::Foreign; logs.len()],
    }
}

fn size(top: &Folder, log: &Path) -> LogSize {
    let stat = locate_below(top, log).and_then(|(folder, name)| folder.stat(OsStr::new(&name)));
    match stat {
        Ok(None) => LogSize::Missing,
        Ok(Some(stat)) if kind(&stat) == FileType::RegularFile => {
            LogSize::Bytes(u64::try_from(stat.st_size).unwrap_or(0))
        }
        Ok(Some(_)) | Err(_) => LogSize::Foreign,
    }
}

/// `<log>.<8 digits>-<6 digits>`, and an ending of ours or none.
pub(crate) fn is_rotated(log: &str, name: &str) -> bool {
    let Some(rest) = name.strip_prefix(log).and_then(|rest| rest.strip_prefix('.')) else { return false };
    let (Some(stamp), Some(ending)) = (rest.get(..15), rest.get(15..)) else { return false };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_stamp = stamp
        .split_once('-')
        .is_some_and(|(day, time)| day.len() == 8 && time.len() == 6 && digits(day) && digits(time));
    is_stamp && matches!(ending, "" | ".gz" | ".tmp")
}

fn check_rotated(folder: &Folder, log: &str, name: &str) -> Result<(), FileError> {
    if is_rotated(log, name) {
        return Ok(());
    }
    Err(refused("is not a rotated log")).on_path("work on", folder.path().join(name))
}

fn compress(folder: &Folder, name: &str) -> Result<(), FileError> {
    let path = folder.path().join(name);
    let Some(plain) = folder.open_file(OsStr::new(name))? else { return Ok(()) };
    let stat = rustix::fs::fstat(&plain).on_path("look at", &path)?;
    if kind(&stat) != FileType::RegularFile {
        return Err(refused("not a regular file")).on_path("compress log", path);
    }
    let (temporary, compressed) = (format!("{name}.tmp"), format!("{name}.gz"));
    let result = write_compressed(folder, &temporary, File::from(plain), stat.st_mode & 0o7777)
        .and_then(|()| Ok(rustix::fs::renameat(folder, &temporary, folder, &compressed)?));
    if result.is_err() {
        let _ = rustix::fs::unlinkat(folder, &temporary, AtFlags::empty());
    }
    result.on_path("compress log", &path)?;
    rustix::fs::unlinkat(folder, name, AtFlags::empty()).on_path("remove compressed log", path)
}

fn write_compressed(folder: &Folder, temporary: &str, mut plain: File, mode: u32) -> io::Result<()> {
    match rustix::fs::unlinkat(folder, temporary, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(folder, temporary, flags, Mode::from_raw_mode(0o600))?);
    let mut encoder = GzEncoder::new(io::BufWriter::with_capacity(64 * 1024, file), EFFORT);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = io::Read::read(&mut plain, &mut buffer)?;
        let Some(read) = buffer.get(..count).filter(|read| !read.is_empty()) else { break };
        io::Write::write_all(&mut encoder, read)?;
    }
    let file = encoder.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    rustix::fs::fchmod(file.as_fd(), Mode::from_raw_mode(mode))?;
    // The plain file goes next, so the compressed one must be on the disk.
    file.sync_all()
}

/// `20060102-150405` in the node's time zone, as upstream names rotated logs.
#[expect(unsafe_code, reason = "the standard library has no local time")]
fn stamp(now: Timestamp) -> String {
    let seconds: libc::time_t = now.as_nanos().div_euclid(1_000_000_000);
    // SAFETY: `tm` is plain data for which all zeroes are valid, and `localtime_r` only writes to it.
    let time = unsafe {
        let mut time: libc::tm = std::mem::zeroed();
        libc::localtime_r(&raw const seconds, &raw mut time);
        time
    };
    format!(
        "{:04}{:02}{:02}-{:02}{:02}{:02}",
        time.tm_year + 1900,
        time.tm_mon + 1,
        time.tm_mday,
        time.tm_hour,
        time.tm_min,
        time.tm_sec
    )
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);

    struct Place {
        scratch: tempfile::TempDir,
        logs: HostRotatedLogs,
        log: PathBuf,
    }

    fn place() -> Place {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("logs/ns_pod_uid/main");
        std::fs::create_dir_all(&folder).unwrap();
        let log = folder.join("0.log");
        std::fs::write(&log, "hello\n").unwrap();
        Place { logs: HostRotatedLogs::new(scratch.path().join("logs")), scratch, log }
    }

    impl Place {
        fn beside(&self, name: &str) -> PathBuf {
            self.log.with_file_name(name)
        }
    }

    #[tokio::test]
    async fn a_log_is_moved_away_compressed_and_never_overwritten() {
        let place = place();
        let name = place.logs.move_away(&place.log, NOW).await.unwrap();
        assert!(is_rotated("0.log", &name), "{name}");
        assert_eq!(place.logs.sizes(vec![place.log.clone()]).await, [LogSize::Missing]);
        std::fs::write(&place.log, "more\n").unwrap();
        assert!(place.logs.move_away(&place.log, NOW).await.is_err(), "would overwrite");
        assert!(place.logs.move_back(&place.log, &name).await.is_err(), "would overwrite");

        place.logs.compress(&place.log, &name).await.unwrap();
        assert_eq!(place.logs.rotated(&place.log).await.unwrap(), [format!("{name}.gz")]);
        let mut text = String::new();
        let packed = File::open(place.beside(&format!("{name}.gz"))).unwrap();
        flate2::read::GzDecoder::new(packed).read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello\n");
    }

    #[tokio::test]
    async fn a_log_comes_back_when_nothing_took_its_place() {
        let place = place();
        let name = place.logs.move_away(&place.log, NOW).await.unwrap();
        place.logs.move_back(&place.log, &name).await.unwrap();
        assert_eq!(std::fs::read_to_string(&place.log).unwrap(), "hello\n");
    }

    #[tokio::test]
    async fn links_and_foreign_files_are_left_alone() {
        let place = place();
        let secret = place.scratch.path().join("secret");
        std::fs::write(&secret, "secret").unwrap();
        symlink(&secret, place.beside("0.log.20260101-000000")).unwrap();
        symlink(&secret, place.beside("1.log")).unwrap();
        for foreign in ["0.log.notes", "0.log.20260101-000000.bak", "10.log.20260101-000000"] {
            std::fs::write(place.beside(foreign), "x").unwrap();
        }
        assert!(place.logs.rotated(&place.log).await.unwrap().is_empty());
        assert!(place.logs.compress(&place.log, "0.log.20260101-000000").await.is_err());
        assert!(place.logs.remove(&place.log, "0.log.notes").await.is_err());
        assert!(place.logs.remove(&place.log, "../../../secret").await.is_err());
        let sizes = place.logs.sizes(vec![place.beside("1.log"), secret.clone(), place.log.clone()]).await;
        assert_eq!(sizes, [LogSize::Foreign, LogSize::Foreign, LogSize::Bytes(6)]);
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), "secret");
    }

    #[tokio::test]
    async fn a_folder_that_became_a_link_is_not_entered() {
        let place = place();
        let folder = place.scratch.path().join("logs/ns_pod_uid");
        std::fs::rename(&folder, place.scratch.path().join("elsewhere")).unwrap();
        symlink(place.scratch.path().join("elsewhere"), &folder).unwrap();
        assert_eq!(place.logs.sizes(vec![place.log.clone()]).await, [LogSize::Foreign]);
        assert!(place.logs.move_away(&place.log, NOW).await.is_err());
    }
}
