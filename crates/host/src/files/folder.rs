//! An open folder, relative to which everything below it is opened.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use ports::host::pod_folders::FileError;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::errors::{IfExists, OnPath, invalid_input};

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Containers control the content of their volumes, so no path below a folder may follow a symlink.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

/// A folder by descriptor. Its path is used for error messages only.
#[derive(Debug)]
pub(crate) struct Folder {
    descriptor: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// Opens a folder that the operator configured, following symlinks; `None` if it is missing.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>, FileError> {
        let opened =
            rustix::fs::open(path, FOLDER, Mode::empty()).if_exists().on_path("open folder", path)?;
        Ok(opened.map(|descriptor| Self { descriptor, path: path.to_path_buf() }))
    }

    /// Opens a folder that the operator configured, creating it with `mode` (and its parents with 0755) if missing.
    pub(crate) fn make(path: &Path, mode: u32) -> Result<Self, FileError> {
        if let Some(folder) = Self::open(path)? {
            return Ok(folder);
        }
        if let Some(parent) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o755).create(parent).on_path("make folder", parent)?;
        }
        let created =
            is_new(rustix::fs::mkdir(path, Mode::from_raw_mode(mode))).on_path("make folder", path)?;
        let descriptor = rustix::fs::open(path, FOLDER, Mode::empty()).on_path("open folder", path)?;
        let folder = Self { descriptor, path: path.to_path_buf() };
        if created {
            folder.set_mode(mode)?;
        }
        Ok(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A path of exactly this folder, even if it was renamed since it was opened.
    pub(crate) fn magic_path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.descriptor.as_raw_fd()))
    }

    /// The path of this folder in the kernel's mount table.
    pub(crate) fn real_path(&self) -> Result<PathBuf, FileError> {
        std::fs::read_link(self.magic_path()).on_path("resolve folder", &self.path)
    }

    /// Opens a folder below this one, `None` if it is missing. Rejects symlinks and `..`.
    pub(crate) fn existing(&self, relative: impl AsRef<Path>) -> Result<Option<Self>, FileError> {
        let relative = relative.as_ref();
        let path = self.path.join(relative);
        let opened = open_beneath(self, relative, FOLDER, ResolveFlags::empty());
        let opened = opened.if_exists().on_path("open folder", &path)?;
        Ok(opened.map(|descriptor| Self { descriptor, path }))
    }

    /// Opens a folder below this one. Creates missing folders on the path with `mode`, regardless of the umask.
    pub(crate) fn make_below(&self, relative: impl AsRef<Path>, mode: u32) -> Result<Self, FileError> {
        let relative = relative.as_ref();
        let plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
        if !plain || relative.as_os_str().is_empty() {
            return Err(invalid_input("not a plain path below its folder"))
                .on_path("make folder", self.path.join(relative));
        }
        let mut names = relative.iter();
        let mut folder = self.make_entry(names.next().unwrap_or_default(), mode)?;
        for name in names {
            folder = folder.make_entry(name, mode)?;
        }
        Ok(folder)
    }

    /// Opens an entry of this folder for reading, `None` if it is missing. Does not block on a FIFO.
    pub(crate) fn open_file(&self, name: &OsStr) -> Result<Option<OwnedFd>, FileError> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = open_beneath(self, Path::new(name), flags, ResolveFlags::empty());
        opened.if_exists().on_path("open file", self.path.join(name))
    }

    /// The content of an entry, `None` if it is missing. `operation` is for error messages.
    pub(crate) fn read_file(
        &self,
        name: &OsStr,
        operation: &'static str,
    ) -> Result<Option<Vec<u8>>, FileError> {
        let Some(file) = self.open_file(name)? else { return Ok(None) };
        let mut content = Vec::new();
        File::from(file).read_to_end(&mut content).on_path(operation, self.path.join(name))?;
        Ok(Some(content))
    }

    /// Creates a file for writing, with mode 0600. Removes an older file of that name.
    pub(crate) fn create_file(&self, name: &OsStr) -> io::Result<File> {
        rustix::fs::unlinkat(self, name, AtFlags::empty()).if_exists()?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(self, name, flags, Mode::from_raw_mode(0o600))?.into())
    }

    /// The target of a symlink.
    pub(crate) fn link_target(&self, name: &OsStr) -> Result<PathBuf, Errno> {
        let target = rustix::fs::readlinkat(self, name, Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }

    pub(crate) fn names(&self) -> Result<Vec<OsString>, FileError> {
        self.names_where(|_, _| Ok(true))
    }

    /// Names of the entries that are folders, not symlinks to folders.
    pub(crate) fn folder_names(&self) -> Result<Vec<OsString>, FileError> {
        self.names_where(|name, listed_as| match listed_as {
            // Some file systems do not report the type of an entry.
            FileType::Unknown => self.is(name, FileType::Directory),
            listed_as => Ok(listed_as == FileType::Directory),
        })
    }

    fn names_where(
        &self,
        is_selected: impl Fn(&OsStr, FileType) -> Result<bool, FileError>,
    ) -> Result<Vec<OsString>, FileError> {
        let mut names = Vec::new();
        for entry in Dir::read_from(self).on_path("list folder", &self.path)? {
            let entry = entry.on_path("list folder", &self.path)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." && is_selected(name, entry.file_type())? {
                names.push(name.to_os_string());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Does not follow symlinks; `None` if the entry is missing.
    pub(crate) fn stat(&self, name: &OsStr) -> Result<Option<Stat>, FileError> {
        let stat = rustix::fs::statat(self, name, AtFlags::SYMLINK_NOFOLLOW);
        stat.if_exists().on_path("stat", self.path.join(name))
    }

    /// Removes an empty folder, if it exists.
    pub(crate) fn remove_empty(&self, name: &OsStr) -> Result<(), FileError> {
        let removed = rustix::fs::unlinkat(self, name, AtFlags::REMOVEDIR);
        removed.if_exists().on_path("remove folder", self.path.join(name)).map(drop)
    }

    /// Removes an entry that is not a folder, if it exists. `operation` is for error messages.
    pub(crate) fn remove_file(&self, name: &OsStr, operation: &'static str) -> Result<(), FileError> {
        let removed = rustix::fs::unlinkat(self, name, AtFlags::empty());
        removed.if_exists().on_path(operation, self.path.join(name)).map(drop)
    }

    /// Whether an entry is of this type; `false` if it is missing. Does not follow symlinks.
    pub(crate) fn is(&self, name: &OsStr, kind: FileType) -> Result<bool, FileError> {
        Ok(self.stat(name)?.is_some_and(|stat| file_type(&stat) == kind))
    }

    pub(crate) fn is_mount_point(&self, name: &OsStr) -> Result<bool, FileError> {
        match open_beneath(self, Path::new(name), OFlags::PATH | OFlags::CLOEXEC, ResolveFlags::NO_XDEV) {
            Ok(_) => Ok(false),
            Err(Errno::XDEV) => Ok(true),
            Err(error) => Err(error).on_path("check for a mount at", self.path.join(name)),
        }
    }

    /// Whether a path resolves to a folder below this one. Follows symlinks that stay below.
    pub(crate) fn resolves_to_folder(&self, relative: &Path) -> Result<bool, FileError> {
        match resolve_beneath(self, relative, FOLDER) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(error) => Err(error).on_path("stat", self.path.join(relative)),
        }
    }

    pub(crate) fn set_mode(&self, mode: u32) -> Result<(), FileError> {
        rustix::fs::fchmod(self, Mode::from_raw_mode(mode)).on_path("set mode of", &self.path)
    }

    fn make_entry(&self, name: &OsStr, mode: u32) -> Result<Self, FileError> {
        let path = self.path.join(name);
        let created = is_new(rustix::fs::mkdirat(self, name, Mode::from_raw_mode(mode)))
            .on_path("make folder", &path)?;
        let descriptor = open_beneath(self, Path::new(name), FOLDER, ResolveFlags::empty())
            .on_path("open folder", &path)?;
        let folder = Self { descriptor, path };
        if created {
            folder.set_mode(mode)?;
        }
        Ok(folder)
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

pub(crate) fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Opens the folder `name` of `parent`, unless another mount is attached there.
pub(crate) fn open_same_mount(parent: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    open_beneath(parent, Path::new(name), FOLDER, ResolveFlags::NO_XDEV)
}

/// Opens a path, following symlinks as long as they stay below `parent`.
pub(crate) fn resolve_beneath(parent: impl AsFd, relative: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    open_resolved(parent, relative, flags, ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS)
}

fn open_beneath(
    parent: impl AsFd,
    relative: &Path,
    flags: OFlags,
    extra_flags: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    open_resolved(parent, relative, flags, BENEATH | extra_flags)
}

fn open_resolved(
    parent: impl AsFd,
    relative: &Path,
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    // The kernel returns EAGAIN if a concurrent rename could have let the path escape.
    const MAX_TRIES: usize = 64;
    for _ in 0..MAX_TRIES {
        match rustix::fs::openat2(parent.as_fd(), relative, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            result => return result,
        }
    }
    Err(Errno::AGAIN)
}

/// Whether mkdir created the folder, as opposed to finding it.
fn is_new(result: Result<(), Errno>) -> Result<bool, Errno> {
    match result {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn creates_missing_folders_with_the_requested_mode() {
        let scratch = tempfile::tempdir().unwrap();
        let root = Folder::make(&scratch.path().join("a/root"), 0o750).unwrap();
        root.make_below("x/y", 0o777).unwrap();
        let mode =
            |path: &str| std::fs::metadata(scratch.path().join(path)).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode("a/root"), mode("a/root/x"), mode("a/root/x/y")), (0o750, 0o777, 0o777));
    }

    #[test]
    fn rejects_symlinks_and_dot_dot_below() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(scratch.path().join("root")).unwrap();
        std::fs::create_dir_all(scratch.path().join("outside/inner")).unwrap();
        symlink("../outside", scratch.path().join("root/link")).unwrap();
        let root = Folder::open(&scratch.path().join("root")).unwrap().unwrap();
        for path in ["link", "link/inner", "../outside", "/etc"] {
            assert!(root.existing(path).is_err(), "{path}");
        }
        for path in ["link/new", "../outside/new", "/tmp", ""] {
            assert!(root.make_below(path, 0o755).is_err(), "{path}");
        }
        assert!(root.existing("missing").unwrap().is_none());
        assert!(!scratch.path().join("outside/new").exists());
    }
}
