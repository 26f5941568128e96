//! Reads files inside a container's root file system, which may contain anything.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, open, openat2};
use rustix::io::Errno;

use crate::errors::ServiceError;

/// More users than any image has; a larger file is an attack.
const MAX_BYTES: u64 = 10 << 20;

/// The content of a text file; empty if it is missing. Links are followed inside the root only.
pub(super) fn read_text(root: &Path, path: &str) -> Result<String, ServiceError> {
    let problem = |error: std::io::Error| ServiceError::io(format!("read {path} of the image"), error);
    let folder = open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let folder = folder.map_err(|errno| problem(errno.into()))?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let file: OwnedFd = match openat2(&folder, path, flags, Mode::empty(), resolve) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(String::new()),
        file => file.map_err(|errno| problem(errno.into()))?,
    };
    let status = rustix::fs::fstat(&file).map_err(|errno| problem(errno.into()))?;
    if !FileType::from_raw_mode(status.st_mode).is_file() {
        return Err(problem(std::io::Error::other("it is not a regular file")));
    }
    let mut content = Vec::new();
    File::from(file).take(MAX_BYTES + 1).read_to_end(&mut content).map_err(problem)?;
    if content.len() as u64 > MAX_BYTES {
        return Err(problem(std::io::Error::other("it is too large")));
    }
    Ok(String::from_utf8_lossy(&content).into_owned())
}

/// The real path of a directory below `root`, with links resolved inside the root. None if it is missing.
pub(super) fn directory_in(root: &Path, path: &Path) -> Result<Option<std::path::PathBuf>, ServiceError> {
    use std::os::fd::AsRawFd;
    let problem =
        |error: std::io::Error| ServiceError::io(format!("open {} of the image", path.display()), error);
    let folder = open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let folder = folder.map_err(|errno| problem(errno.into()))?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let directory = match openat2(&folder, path, flags, Mode::empty(), resolve) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        directory => directory.map_err(|errno| problem(errno.into()))?,
    };
    let link = format!("/proc/self/fd/{}", directory.as_raw_fd());
    std::fs::read_link(link).map(Some).map_err(problem)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_cannot_leave_the_root() {
        let root = tempfile::tempdir().unwrap();
        let etc = root.path().join("etc");
        std::fs::create_dir(&etc).unwrap();
        symlink("/etc/hostname", etc.join("passwd")).unwrap();
        assert_eq!(read_text(root.path(), "etc/passwd").unwrap(), "");
        std::fs::write(etc.join("hostname"), "inside").unwrap();
        assert_eq!(read_text(root.path(), "etc/passwd").unwrap(), "inside");
        symlink("/../..", root.path().join("up")).unwrap();
        let real = directory_in(root.path(), Path::new("up")).unwrap().unwrap();
        assert_eq!(real, root.path().canonicalize().unwrap());
        assert_eq!(directory_in(root.path(), Path::new("missing")).unwrap(), None);
    }

    #[test]
    fn only_regular_files_are_read() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("etc/passwd")).unwrap();
        assert!(read_text(root.path(), "etc/passwd").is_err());
    }
}
