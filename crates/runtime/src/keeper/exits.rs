//! Exit records on disk.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::time::{ClockId, clock_gettime};

use super::protocol::ExitRecord;

const FOLDER: &str = "exits";

/// Nanoseconds since 1970.
pub(super) fn now() -> i64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

pub(super) fn make_folder(pod: &Path) -> io::Result<()> {
    match fs::create_dir(pod.join(FOLDER)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

/// Writes a record so that it survives a crash of the machine.
pub(super) fn write_exit(pod: &Path, container: &str, exit: &ExitRecord) -> io::Result<()> {
    let target = path(pod, container);
    let temporary = target.with_extension("tmp");
    let mut file = File::create(&temporary)?;
    file.write_all(&serde_json::to_vec(exit)?)?;
    file.sync_all()?;
    fs::rename(&temporary, &target)?;
    File::open(pod.join(FOLDER))?.sync_all()
}

/// The record of a container that has ended, for the case that its keeper has died.
///
/// # Errors
/// If the record exists and cannot be read.
pub fn read_exit(pod: &Path, container: &str) -> io::Result<Option<ExitRecord>> {
    match fs::read(path(pod, container)) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Container ids are checked when a container is created: 64 hexadecimal digits have no path separator.
fn path(pod: &Path, container: &str) -> PathBuf {
    pod.join(FOLDER).join(format!("{container}.json"))
}
