//! Terminals of containers. The devpts file system belongs to the container, so everything that is opened in it is checked.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, fstat, fstatfs, makedev, openat};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, unlockpt};

use super::errors::{During, LaunchError};
use super::{in_root, mounts};

const DEVPTS_SUPER_MAGIC: u64 = 0x1cd1;
const MULTIPLEXER: &str = "/dev/pts/ptmx";
const CONSOLE: &str = "console";

/// Both sides of a new terminal.
pub(super) struct NewTerminal {
    /// For the keeper or the runtime; it does not block.
    pub(super) master: OwnedFd,
    /// For the process in the container.
    pub(super) slave: OwnedFd,
}

/// Makes a terminal in the container's devpts. `root` is the container's root, `proc` a proc file system that no container can mount
/// over.
pub(super) fn open(root: BorrowedFd<'_>, proc: BorrowedFd<'_>) -> Result<NewTerminal, LaunchError> {
    let path = Path::new(MULTIPLEXER);
    let found = in_root::open(root, path, OFlags::PATH | OFlags::NOFOLLOW).during("open", path)?;
    check_multiplexer(found.as_fd())?;
    // The same file is opened again, whatever the path leads to by now.
    let link = format!("thread-self/fd/{}", found.as_raw_fd());
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let master = openat(proc, link, flags, Mode::empty()).during("open", path)?;
    unlockpt(&master).during("unlock", "terminal")?;
    // Opens the other side of this terminal without its path.
    let slave = ioctl_tiocgptpeer(&master, OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
        .during("open", "terminal")?;
    Ok(NewTerminal { master, slave })
}

fn check_multiplexer(file: BorrowedFd<'_>) -> Result<(), LaunchError> {
    let status = fstat(file).during("read", MULTIPLEXER)?;
    let magic = fstatfs(file).during("read file system of", MULTIPLEXER)?.f_type;
    let is_device =
        FileType::from_raw_mode(status.st_mode).is_char_device() && status.st_rdev == makedev(5, 2);
    if is_device && u64::try_from(magic).ok() == Some(DEVPTS_SUPER_MAGIC) {
        return Ok(());
    }
    Err(LaunchError::Destination {
        path: MULTIPLEXER.to_owned(),
        reason: "it is not the multiplexer of a devpts file system",
    })
}

/// Mounts the process's side on `/dev/console`.
pub(super) fn mount_console(root: BorrowedFd<'_>, slave: BorrowedFd<'_>) -> Result<(), LaunchError> {
    let folder = in_root::open_real_directory(root, Path::new("/dev"))?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
    match openat(&folder, CONSOLE, flags, Mode::from_raw_mode(0o600)) {
        Ok(_) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno).during("make", "/dev/console"),
    }
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let target = openat(&folder, CONSOLE, flags, Mode::empty()).during("open", "/dev/console")?;
    let kind = FileType::from_raw_mode(fstat(target.as_fd()).during("read", "/dev/console")?.st_mode);
    if !(kind.is_file() || kind.is_char_device()) {
        return Err(LaunchError::Destination {
            path: "/dev/console".to_owned(),
            reason: "it is neither a file nor a device",
        });
    }
    let tree = mounts::clone_single(slave).during("clone", "terminal")?;
    mounts::attach(tree.as_fd(), target.as_fd()).during("mount on", "/dev/console")
}
