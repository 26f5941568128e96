//! Small files of the kernel.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use model::Timestamp;

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
fn piece(file: &Path) -> Option<String> {
    let mut bytes = vec![0; PIECE];
    let mut file = File::open(file).ok()?;
    let read = file.read(&mut bytes).ok()?;
    bytes.truncate(read);
    if read == PIECE {
        file.take(MOST).read_to_end(&mut bytes).ok()?;
    }
    String::from_utf8(bytes).ok()
}

/// Its lines.
pub(super) fn lines(file: &Path) -> Vec<String> {
    text(file).unwrap_or_default().lines().map(|line| line.trim().to_owned()).collect()
}

/// A number; `None` also for a word such as `max`.
pub(super) fn number(file: &Path) -> Option<u64> {
    piece(file)?.trim().parse().ok()
}

/// Names of the folders in a folder.
pub(super) fn folders_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut names: Vec<String> = names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// When something was last changed, which for a cgroup is when it was made.
pub(super) fn changed_at(path: &Path) -> Option<Timestamp> {
    let modified = fs::metadata(path).ok()?.modified().ok()?;
    let since = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(Timestamp::from_nanos(i64::try_from(since.as_nanos()).ok()?))
}

/// The time now, as the kernel counts it.
pub(super) fn now() -> Timestamp {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    Timestamp::from_nanos(time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec))
}

/// `name value` on each line.
pub(super) struct Table(String);

impl Table {
    /// Empty when the file cannot be read.
    pub(super) fn read(file: &Path) -> Self {
        Self(piece(file).unwrap_or_default())
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
