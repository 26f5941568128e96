//! Reads small files of `/proc` and the cgroup file systems.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use model::Timestamp;
use rustix::fs::{Dir, FileType, Mode, OFlags};

/// Larger than any of these files.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Memory limits from here on mean no limit.
const NO_LIMIT: u64 = 1 << 62;
/// Larger than most of these files.
const CHUNK_BYTES: usize = 4096;

/// Joins a path such as `/kubepods/burstable` to a folder. Ignores `.` and `..`.
pub(super) fn below(root: &Path, path: &str) -> PathBuf {
    let parts = path.split('/').filter(|part| !part.is_empty() && *part != "." && *part != "..");
    parts.fold(root.to_path_buf(), |path, part| path.join(part))
}

/// `None` if the file cannot be read.
pub(super) fn text(file: &Path) -> Option<String> {
    let mut bytes = Vec::with_capacity(512);
    File::open(file).ok()?.take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
    String::from_utf8(bytes).ok()
}

/// Reads a file that the kernel returns in one read if the buffer is large enough, which saves the second read.
fn with_content<T>(mut file: File, read: impl FnOnce(&str) -> T) -> Option<T> {
    let mut bytes = [0; CHUNK_BYTES];
    let length = file.read(&mut bytes).ok()?;
    let first = bytes.get(..length)?;
    if length < CHUNK_BYTES {
        return std::str::from_utf8(first).ok().map(read);
    }
    let mut all = first.to_vec();
    file.take(MAX_FILE_BYTES).read_to_end(&mut all).ok()?;
    std::str::from_utf8(&all).ok().map(read)
}

/// An open folder, which saves a path lookup per file.
pub(super) struct KernelFolder(OwnedFd);

impl KernelFolder {
    /// `None` if it does not exist.
    pub(super) fn open(path: &Path) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty()).ok().map(Self)
    }

    /// Opens a direct child.
    pub(super) fn below(&self, name: &str) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.0, name, flags, Mode::empty()).ok().map(Self)
    }

    fn file(&self, name: &str) -> Option<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.0, name, flags, Mode::empty()).ok().map(File::from)
    }

    /// A number in a file; `None` also for text such as `max`.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        with_content(self.file(name)?, |text| text.trim().parse().ok())?
    }

    /// A limit in bytes; `None` for no limit, `max` included.
    pub(super) fn limit(&self, name: &str) -> Option<u64> {
        self.number(name).filter(|limit| *limit < NO_LIMIT)
    }

    /// Empty if the file cannot be read.
    pub(super) fn table(&self, name: &str) -> Table {
        Table(self.file(name).and_then(|file| with_content(file, str::to_owned)).unwrap_or_default())
    }

    pub(super) fn count_lines(&self, name: &str) -> u64 {
        let mut text = String::new();
        let read = self.file(name).and_then(|file| file.take(MAX_FILE_BYTES).read_to_string(&mut text).ok());
        read.map_or(0, |_| text.lines().count() as u64)
    }

    /// Sorted names of the subfolders.
    pub(super) fn folders(&self) -> Vec<String> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(entries) = rustix::fs::openat(&self.0, ".", flags, Mode::empty()).and_then(Dir::new) else {
            return Vec::new();
        };
        let names = entries.flatten().filter(|entry| entry.file_type() == FileType::Directory);
        let names = names.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
        let mut names: Vec<String> = names.filter(|name| name != "." && name != "..").collect();
        names.sort();
        names
    }

    /// The modification time, which for a cgroup is its creation time.
    pub(super) fn changed_at(&self) -> Option<Timestamp> {
        let stat = rustix::fs::fstat(&self.0).ok()?;
        let nanos = i64::try_from(stat.st_mtime_nsec).ok()?;
        Some(Timestamp::from_nanos(stat.st_mtime.checked_mul(1_000_000_000)?.checked_add(nanos)?))
    }
}

pub(super) fn lines(file: &Path) -> Vec<String> {
    text(file).unwrap_or_default().lines().map(|line| line.trim().to_owned()).collect()
}

/// `None` also for text such as `max`.
pub(super) fn number(file: &Path) -> Option<u64> {
    with_content(File::open(file).ok()?, |text| text.trim().parse().ok())?
}

/// The current time.
pub(super) fn now() -> Timestamp {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    Timestamp::from_nanos(time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec))
}

/// A file with `name value` on each line.
#[derive(Default)]
pub(super) struct Table(String);

impl Table {
    /// Empty if the file cannot be read.
    pub(super) fn read(file: &Path) -> Self {
        Self(File::open(file).ok().and_then(|file| with_content(file, str::to_owned)).unwrap_or_default())
    }

    /// The values of these names, 0 if missing, in one pass over the text.
    pub(super) fn values<const N: usize>(&self, names: [&str; N]) -> [u64; N] {
        let mut values = [0; N];
        for line in self.0.lines() {
            let Some((name, value)) = line.split_once(' ') else { continue };
            let known = names.iter().zip(&mut values).find(|(known, _)| **known == name);
            if let Some((_, slot)) = known {
                *slot = value.trim().parse().unwrap_or_default();
            }
        }
        values
    }

    /// The value of a name, 0 if missing.
    pub(super) fn get(&self, name: &str) -> u64 {
        self.find(name).unwrap_or_default()
    }

    pub(super) fn find(&self, name: &str) -> Option<u64> {
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
