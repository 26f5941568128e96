//! Rotates container logs, by descriptor.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use flate2::Compression;
use flate2::write::GzEncoder;
use model::Timestamp;
use ports::host::pod_folders::FileError;
use ports::host::rotated_logs::{LogSize, RotatedLogs};
use rustix::fs::{AtFlags, FileType, Mode, RenameFlags};

use crate::errors::{OnPath, blocking, invalid_input};
use crate::files::folder::{Folder, file_type};
use crate::pods::HostPodFolders;

/// Logs compress well even at a low level.
const COMPRESSION: Compression = Compression::new(3);

impl HostPodFolders {
    async fn in_log_folder<T: Send + 'static>(
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
impl RotatedLogs for HostPodFolders {
    async fn sizes(&self, logs: Vec<PathBuf>) -> Vec<LogSize> {
        let (pod_logs, count) = (self.pod_logs.clone(), logs.len());
        let work = move || sizes(&pod_logs, &logs);
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| vec![LogSize::Foreign; count])
    }

    async fn rotated(&self, log: &Path) -> Result<Vec<String>, FileError> {
        self.in_log_folder(log, |folder, log| {
            let mut found = Vec::new();
            for name in folder.names()? {
                let Some(text) = name.to_str().filter(|text| is_rotated(log, text)) else { continue };
                if folder.is(&name, FileType::RegularFile)? {
                    found.push(text.to_owned());
                }
            }
            Ok(found)
        })
        .await
    }

    async fn remove(&self, log: &Path, name: &str) -> Result<(), FileError> {
        let name = name.to_owned();
        self.in_log_folder(log, move |folder, log| {
            check_rotated(folder, log, &name)?;
            folder.remove_file(OsStr::new(&name), "remove rotated log")
        })
        .await
    }

    async fn compress(&self, log: &Path, name: &str) -> Result<(), FileError> {
        let name = name.to_owned();
        self.in_log_folder(log, move |folder, log| {
            check_rotated(folder, log, &name)?;
            compress(folder, &name)
        })
        .await
    }

    async fn move_away(&self, log: &Path, now: Timestamp) -> Result<String, FileError> {
        self.in_log_folder(log, move |folder, log| {
            let name = format!("{log}.{}", timestamp(now));
            let to = folder.path().join(&name);
            rustix::fs::renameat_with(folder, log, folder, &name, RenameFlags::NOREPLACE)
                .on_path("rename log to", to)?;
            Ok(name)
        })
        .await
    }

    async fn move_back(&self, log: &Path, name: &str) -> Result<(), FileError> {
        let name = name.to_owned();
        self.in_log_folder(log, move |folder, log| {
            check_rotated(folder, log, &name)?;
            rustix::fs::renameat_with(folder, name.as_str(), folder, log, RenameFlags::NOREPLACE)
                .on_path("rename rotated log back to", folder.path().join(log))
        })
        .await
    }
}

/// Opens the folder of a log; returns it with the log's file name.
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
    let outside = || invalid_input("is not a log of a pod");
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
        Ok(Some(stat)) if file_type(&stat) == FileType::RegularFile => {
            LogSize::Bytes(u64::try_from(stat.st_size).unwrap_or(0))
        }
        Ok(Some(_)) | Err(_) => LogSize::Foreign,
    }
}

/// Whether a name is `<log>.<8 digits>-<6 digits>`, with or without a known suffix.
pub(crate) fn is_rotated(log: &str, name: &str) -> bool {
    let Some(rest) = name.strip_prefix(log).and_then(|rest| rest.strip_prefix('.')) else { return false };
    let (Some(timestamp), Some(suffix)) = (rest.get(..15), rest.get(15..)) else { return false };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_timestamp = timestamp
        .split_once('-')
        .is_some_and(|(day, time)| day.len() == 8 && time.len() == 6 && digits(day) && digits(time));
    is_timestamp && matches!(suffix, "" | ".gz" | ".tmp")
}

fn check_rotated(folder: &Folder, log: &str, name: &str) -> Result<(), FileError> {
    if is_rotated(log, name) {
        return Ok(());
    }
    Err(invalid_input("is not a rotated log")).on_path("work on", folder.path().join(name))
}

fn compress(folder: &Folder, name: &str) -> Result<(), FileError> {
    let path = folder.path().join(name);
    let Some(plain) = folder.open_file(OsStr::new(name))? else { return Ok(()) };
    let stat = rustix::fs::fstat(&plain).on_path("stat", &path)?;
    if file_type(&stat) != FileType::RegularFile {
        return Err(invalid_input("not a regular file")).on_path("compress log", path);
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

fn write_compressed(folder: &Folder, temporary: &str, plain: File, mode: u32) -> io::Result<()> {
    let file = folder.create_file(OsStr::new(temporary))?;
    let mut encoder = GzEncoder::new(io::BufWriter::with_capacity(64 * 1024, file), COMPRESSION);
    io::copy(&mut io::BufReader::with_capacity(64 * 1024, plain), &mut encoder)?;
    let file = encoder.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    rustix::fs::fchmod(file.as_fd(), Mode::from_raw_mode(mode))?;
    // The plain file is removed next, so the compressed one must be on disk.
    file.sync_all()
}

/// `20060102-150405` in the node's time zone, as upstream names rotated logs.
#[expect(unsafe_code, reason = "the standard library has no local time")]
fn timestamp(now: Timestamp) -> String {
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

    struct Fixture {
        scratch: tempfile::TempDir,
        logs: HostPodFolders,
        log: PathBuf,
    }

    fn fixture() -> Fixture {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("logs/ns_pod_uid/main");
        std::fs::create_dir_all(&folder).unwrap();
        let log = folder.join("0.log");
        std::fs::write(&log, "hello\n").unwrap();
        Fixture { logs: HostPodFolders::new("", scratch.path().join("logs"), ""), scratch, log }
    }

    impl Fixture {
        fn beside(&self, name: &str) -> PathBuf {
            self.log.with_file_name(name)
        }
    }

    #[tokio::test]
    async fn rotated_log_is_compressed_and_never_overwritten() {
        let fixture = fixture();
        let name = fixture.logs.move_away(&fixture.log, NOW).await.unwrap();
        assert!(is_rotated("0.log", &name), "{name}");
        assert_eq!(fixture.logs.sizes(vec![fixture.log.clone()]).await, [LogSize::Missing]);
        std::fs::write(&fixture.log, "more\n").unwrap();
        assert!(fixture.logs.move_away(&fixture.log, NOW).await.is_err(), "would overwrite");
        assert!(fixture.logs.move_back(&fixture.log, &name).await.is_err(), "would overwrite");

        fixture.logs.compress(&fixture.log, &name).await.unwrap();
        assert_eq!(fixture.logs.rotated(&fixture.log).await.unwrap(), [format!("{name}.gz")]);
        let mut text = String::new();
        let packed = File::open(fixture.beside(&format!("{name}.gz"))).unwrap();
        flate2::read::GzDecoder::new(packed).read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello\n");
    }

    #[tokio::test]
    async fn log_is_moved_back_if_its_name_is_free() {
        let fixture = fixture();
        let name = fixture.logs.move_away(&fixture.log, NOW).await.unwrap();
        fixture.logs.move_back(&fixture.log, &name).await.unwrap();
        assert_eq!(std::fs::read_to_string(&fixture.log).unwrap(), "hello\n");
    }

    #[tokio::test]
    async fn ignores_links_and_foreign_files() {
        let fixture = fixture();
        let secret = fixture.scratch.path().join("secret");
        std::fs::write(&secret, "secret").unwrap();
        symlink(&secret, fixture.beside("0.log.20260101-000000")).unwrap();
        symlink(&secret, fixture.beside("1.log")).unwrap();
        for foreign in ["0.log.notes", "0.log.20260101-000000.bak", "10.log.20260101-000000"] {
            std::fs::write(fixture.beside(foreign), "x").unwrap();
        }
        assert!(fixture.logs.rotated(&fixture.log).await.unwrap().is_empty());
        assert!(fixture.logs.compress(&fixture.log, "0.log.20260101-000000").await.is_err());
        assert!(fixture.logs.remove(&fixture.log, "0.log.notes").await.is_err());
        assert!(fixture.logs.remove(&fixture.log, "../../../secret").await.is_err());
        let sizes =
            fixture.logs.sizes(vec![fixture.beside("1.log"), secret.clone(), fixture.log.clone()]).await;
        assert_eq!(sizes, [LogSize::Foreign, LogSize::Foreign, LogSize::Bytes(6)]);
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), "secret");
    }

    #[tokio::test]
    async fn does_not_enter_a_folder_that_became_a_link() {
        let fixture = fixture();
        let folder = fixture.scratch.path().join("logs/ns_pod_uid");
        std::fs::rename(&folder, fixture.scratch.path().join("elsewhere")).unwrap();
        symlink(fixture.scratch.path().join("elsewhere"), &folder).unwrap();
        assert_eq!(fixture.logs.sizes(vec![fixture.log.clone()]).await, [LogSize::Foreign]);
        assert!(fixture.logs.move_away(&fixture.log, NOW).await.is_err());
    }
}
