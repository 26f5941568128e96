//! Small files of the kernel.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use model::Timestamp;
use rustix::fs::{Dir, FileType, Mode, OFlags};

/// More than any of these files has.
const MOST: u64 = 1 << 20;
/// More than most of them have.
const PIECE: usize = 4096;

/// A path such as `/kubepods/burstable` below a folder. What climbs leads nowhere.
pub(super) fn below(root: &Path, path: &str) -> PathBuf {
    let parts = path.split('/').filter(|part| !part.is_empty() && *part != "." && *part != "..");
    parts.fold(root.to_path_buf(), |place, part| place.join(part))
}

/// The content of a file; `None` when it cannot be read.
pub(super) fn text(file: &Path) -> Option<String> {
    let mut bytes = Vec::with_capacity(512);
    File::open(file).ok()?.take(MOST).read_to_end(&mut bytes).ok()?;
    String::from_utf8(bytes).ok()
}

/// The content of a file that the kernel writes in one piece: such a one is known to be over without asking again.
fn piece<T>(mut file: File, read: impl FnOnce(&str) -> T) -> Option<T> {
    let mut bytes = [0; PIECE];
    let length = file.read(&mut bytes).ok()?;
    let first = bytes.get(..length)?;
    if length < PIECE {
        return std::str::from_utf8(first).ok().map(read);
    }
    let mut all = first.to_vec();
    file.take(MOST).read_to_end(&mut all).ok()?;
    std::str::from_utf8(&all).ok().map(read)
}

/// A folder of the kernel that was found once; its files are opened without going the whole way again.
pub(super) struct Folder(OwnedFd);

impl Folder {
    /// `None` when it does not exist.
    pub(super) fn open(path: &Path) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty()).ok().map(Self)
    }

    /// A folder directly in it.
    pub(super) fn below(&self, name: &str) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.0, name, flags, Mode::empty()).ok().map(Self)
    }

    fn file(&self, name: &str) -> Option<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.0, name, flags, Mode::empty()).ok().map(File::from)
    }

    /// A number in one of its files; `None` also for a word such as `max`.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        piece(self.file(name)?, |text| text.trim().parse().ok())?
    }

    /// One of its files; empty when it cannot be read.
    pub(super) fn table(&self, name: &str) -> Table {
        Table(self.file(name).and_then(|file| piece(file, str::to_owned)).unwrap_or_default())
    }

    /// How many lines one of its files has.
    pub(super) fn count_lines(&self, name: &str) -> u64 {
        let mut text = String::new();
        let read = self.file(name).and_then(|file| file.take(MOST).read_to_string(&mut text).ok());
        read.map_or(0, |_| text.lines().count() as u64)
    }

    /// Names of the folders in it.
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

    /// When it was last changed, which for a cgroup is when it was made.
    pub(super) fn changed_at(&self) -> Option<Timestamp> {
        let stat = rustix::fs::fstat(&self.0).ok()?;
        let nanos = i64::try_from(stat.st_mtime_nsec).ok()?;
        Some(Timestamp::from_nanos(stat.st_mtime.checked_mul(1_000_000_000)?.checked_add(nanos)?))
    }
}

/// Its lines.
pub(super) fn lines(file: &Path) -> Vec<String> {
    text(file).unwrap_or_default().lines().map(|line| line.trim().to_owned()).collect()
}

/// A number; `None` also for a word such as `max`.
pub(super) fn number(file: &Path) -> Option<u64> {
    piece(File::open(file).ok()?, |text| text.trim().parse().ok())?
}

/// The time now, as the kernel counts it.
pub(super) fn now() -> Timestamp {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    Timestamp::from_nanos(time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec))
}

/// `name value` on each line.
#[derive(Default)]
pub(super) struct Table(String);

impl Table {
    /// Empty when the file cannot be read.
    pub(super) fn read(file: &Path) -> Self {
        Self(File::open(file).ok().and_then(|file| piece(file, str::to_owned)).unwrap_or_default())
    }

    /// The values of these names, 0 without them, in one way through the text.
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

    /// The value of a name, 0 without it.
    pub(super) fn get(&self, name: &str) -> u64 {
        self.find(name).unwrap_or_default()
    }

    /// The value of a name.
    pub(super) fn find(&self, name: &str) -> Option<u64> {
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
    }

    /// Whether nothing was read.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
