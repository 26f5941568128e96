//! emptyDir volumes on disk, in memory or on huge pages.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use ports::host::pod_folders::FileError;
use rustix::io::Errno;
use rustix::mount::MountFlags;

use super::{EMPTY_DIR, VolumeFolder};
use crate::errors::OnPath;
use crate::files::atomic_file;
use crate::files::folder::Folder;
use crate::pods::pod_folders::PRIVATE_MODE;

const READY: &str = "ready";
/// Containers with different users share an emptyDir.
const MODE: u32 = 0o777;
const TMPFS_MAGIC: u64 = 0x0102_1994;
const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;

#[derive(Clone, Copy, Debug)]
pub(super) enum Medium {
    Disk,
    Memory { size_limit: Option<u64> },
    HugePages { page_size: u64 },
}

impl Medium {
    fn magic(self) -> Option<u64> {
        match self {
            Self::Disk => None,
            Self::Memory { .. } => Some(TMPFS_MAGIC),
            Self::HugePages { .. } => Some(HUGETLBFS_MAGIC),
        }
    }
}

/// Creates the folder, or opens it if it is ready. `finish` runs before a new folder is marked as ready.
pub(super) fn set_up(
    volume: &VolumeFolder,
    marker: &OsStr,
    medium: Medium,
    finish: impl FnOnce(&Folder) -> Result<(), FileError>,
) -> Result<Folder, FileError> {
    let mounted = is_mounted(volume, medium)?;
    if is_marked(volume, marker)?
        && (mounted || medium.magic().is_none())
        && let Some(folder) = volume.parent.existing(&volume.name)?
    {
        return Ok(folder);
    }
    if !mounted {
        let folder = volume.parent.make_below(&volume.name, MODE)?;
        folder.set_mode(MODE)?;
        match medium {
            Medium::Disk => {}
            Medium::Memory { size_limit } => {
                volume.record_mount("tmpfs")?;
                mount_tmpfs(&folder, size_limit).on_path("mount tmpfs at", folder.path())?;
            }
            Medium::HugePages { page_size } => {
                volume.record_mount("hugetlbfs")?;
                mount_huge_pages(&folder, page_size).on_path("mount hugetlbfs at", folder.path())?;
            }
        }
    }
    // Open again, to get the root of the new mount.
    let Some(folder) = volume.parent.existing(&volume.name)? else {
        return Err(Errno::NOENT).on_path("open folder", volume.parent.path().join(&volume.name));
    };
    finish(&folder)?;
    create_marker(volume, marker)?;
    Ok(folder)
}

/// Whether the medium is mounted. Any other mount there is an error.
fn is_mounted(volume: &VolumeFolder, medium: Medium) -> Result<bool, FileError> {
    let Some(magic) = medium.magic() else { return Ok(false) };
    let Some(folder) = volume.parent.existing(&volume.name)? else { return Ok(false) };
    if !volume.parent.is_mount_point(&volume.name)? {
        return Ok(false);
    }
    let file_system = rustix::fs::fstatfs(&folder).on_path("stat", folder.path())?;
    if u64::try_from(file_system.f_type).ok() != Some(magic) {
        return Err(io::Error::from(io::ErrorKind::AlreadyExists))
            .on_path("mount over another file system at", folder.path());
    }
    match medium {
        Medium::HugePages { page_size } if u64::try_from(file_system.f_bsize).ok() != Some(page_size) => {
            Err(io::Error::other(format!("mounted with page size {}", file_system.f_bsize)))
                .on_path("use huge pages at", folder.path())
        }
        Medium::Disk | Medium::Memory { .. } | Medium::HugePages { .. } => Ok(true),
    }
}

fn marker_folder(marker: &OsStr) -> PathBuf {
    Path::new("plugins").join(EMPTY_DIR).join(marker)
}

fn is_marked(volume: &VolumeFolder, marker: &OsStr) -> Result<bool, FileError> {
    match volume.pod.existing(marker_folder(marker))? {
        Some(folder) => Ok(folder.stat(OsStr::new(READY))?.is_some()),
        None => Ok(false),
    }
}

/// Creates the marker file that upstream checks after a restart.
fn create_marker(volume: &VolumeFolder, marker: &OsStr) -> Result<(), FileError> {
    let folder = volume.pod.make_below(marker_folder(marker), PRIVATE_MODE)?;
    atomic_file::write(&folder, OsStr::new(READY), b"", 0o644)
}

/// The marker of a volume that wraps an emptyDir.
pub(super) fn wrapped_marker(name: &OsStr) -> OsString {
    let mut marker = OsString::from("wrapped_");
    marker.push(name);
    marker
}

/// Mounts with the kernel's defaults: mode 1777, and half of the memory if no limit is set. Excludes the volume from
/// swap if the kernel supports it (6.4 and later).
fn mount_tmpfs(folder: &Folder, size_limit: Option<u64>) -> io::Result<()> {
    let size = size_limit.filter(|size| *size > 0).map(|size| format!("size={size}")).unwrap_or_default();
    let separator = if size.is_empty() { "" } else { "," };
    let no_swap = CString::new(format!("{size}{separator}noswap"))?;
    let plain = CString::new(size)?;
    let mount = |options: &CStr| {
        rustix::mount::mount("tmpfs", folder.magic_path(), "tmpfs", MountFlags::empty(), options)
    };
    match mount(&no_swap) {
        Err(Errno::INVAL) => Ok(mount(&plain)?),
        result => Ok(result?),
    }
}

fn mount_huge_pages(folder: &Folder, page_size: u64) -> io::Result<()> {
    let options = CString::new(format!("pagesize={page_size}"))?;
    Ok(rustix::mount::mount(
        "nodev",
        folder.magic_path(),
        "hugetlbfs",
        MountFlags::empty(),
        options.as_c_str(),
    )?)
}
