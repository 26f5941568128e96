//! Paths inside a container's root. The content of the root is hostile and may change between two system calls, so each path is
//! resolved by the kernel with the root as its limit, and the descriptor is used from then on.

use std::path::{Component, Path, PathBuf};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use super::errors::{During, LaunchError};

/// `openat2` returns EAGAIN if a rename runs at the same time.
const TRIES: usize = 128;

/// The kind of a mount destination.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    File,
}

/// Opens an existing path; symlinks are followed with the container's root as `/`.
pub(super) fn open(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    resolve(root, path, flags | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::IN_ROOT)
}

/// Opens an existing directory, none of whose path is a symlink.
pub(super) fn open_real_directory(root: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, LaunchError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve_flags = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
    resolve(root, path, flags, Mode::empty(), resolve_flags).during("open directory of the container", path)
}

/// Opens a mount destination, and makes it with its parents where it is missing.
pub(super) fn open_or_create(root: BorrowedFd<'_>, path: &Path, kind: Kind) -> Result<OwnedFd, LaunchError> {
    match open(root, path, OFlags::PATH) {
        Err(Errno::NOENT) => {}
        result => return result.during("open mount destination", path),
    }
    let mut names: Vec<_> = plain_components(path)?;
    let last = names.pop();
    let mut reached = PathBuf::from("/");
    for name in names {
        reached.push(name);
        create(root, &reached, Kind::Directory)?;
    }
    if let Some(name) = last {
        reached.push(name);
        create(root, &reached, kind)?;
    }
    open(root, path, OFlags::PATH).during("open mount destination", path)
}

/// Makes one missing entry. The parent is resolved in the root; the entry itself is never followed.
fn create(root: BorrowedFd<'_>, path: &Path, kind: Kind) -> Result<(), LaunchError> {
    match open(root, path, OFlags::PATH) {
        Ok(_) => return Ok(()),
        Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno).during("open mount destination", path),
    }
    let parent = path.parent().unwrap_or(Path::new("/"));
    let name = path.file_name().unwrap_or_default();
    let parent = open(root, parent, OFlags::PATH | OFlags::DIRECTORY).during("open directory", parent)?;
    let result = match kind {
        Kind::Directory => rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755)),
        Kind::File => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
            rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(0o644)).map(drop)
        }
    };
    match result {
        Err(Errno::EXIST) => Ok(()),
        result => result.during("make mount destination", path),
    }
}

/// The names of an absolute path, which must not contain `..`.
fn plain_components(path: &Path) -> Result<Vec<&std::ffi::OsStr>, LaunchError> {
    let refused = || LaunchError::Destination {
        path: path.display().to_string(),
        reason: "it is not an absolute path without ..",
    };
    let mut names = Vec::new();
    let mut components = path.components();
    if components.next() != Some(Component::RootDir) {
        return Err(refused());
    }
    for component in components {
        match component {
            Component::Normal(name) => names.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Err(refused()),
        }
    }
    Ok(names)
}

fn resolve(
    root: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    mode: Mode,
    resolve: ResolveFlags,
) -> rustix::io::Result<OwnedFd> {
    for _ in 0..TRIES {
        match openat2(root.as_fd(), path, flags, mode, resolve | ResolveFlags::NO_MAGICLINKS) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            result => return result,
        }
    }
    Err(Errno::AGAIN)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn root_of(folder: &Path) -> OwnedFd {
        rustix::fs::open(folder, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap()
    }

    #[test]
    fn creates_missing_parents_and_file() {
        let folder = tempfile::tempdir().unwrap();
        let root = root_of(folder.path());
        open_or_create(root.as_fd(), Path::new("/a/b/file"), Kind::File).unwrap();
        assert!(folder.path().join("a/b/file").is_file());
    }

    #[test]
    fn symlink_to_the_outside_stays_in_the_root() {
        let outside = tempfile::tempdir().unwrap();
        let folder = tempfile::tempdir().unwrap();
        symlink(outside.path(), folder.path().join("link")).unwrap();
        symlink("../../../../..", folder.path().join("up")).unwrap();
        let root = root_of(folder.path());
        let target = open_or_create(root.as_fd(), Path::new("/up/x"), Kind::Directory);
        assert!(target.is_ok() && folder.path().join("x").is_dir());
        // The link's target is missing inside the root; nothing is made through a dangling link.
        assert!(open_or_create(root.as_fd(), Path::new("/link/x"), Kind::Directory).is_err());
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn path_with_parent_components_is_not_created() {
        let folder = tempfile::tempdir().unwrap();
        let root = root_of(folder.path());
        assert!(open_or_create(root.as_fd(), Path::new("/a/../../b"), Kind::Directory).is_err());
        assert!(open_or_create(root.as_fd(), Path::new("relative"), Kind::Directory).is_err());
    }

    #[test]
    fn symlink_is_no_real_directory() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("real")).unwrap();
        symlink("real", folder.path().join("proc")).unwrap();
        let root = root_of(folder.path());
        assert!(open_real_directory(root.as_fd(), Path::new("/real")).is_ok());
        assert!(open_real_directory(root.as_fd(), Path::new("/proc")).is_err());
    }
}
