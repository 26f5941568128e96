//! The root of a container: its mounts, `pivot_root`, masked and read-only paths.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, open};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount};
use rustix::process::{chdir, fchdir, pivot_root, umask};

use super::errors::{During, LaunchError};
use super::sources::Sources;
use super::spec::{Access, ContainerSpec, FilesystemKind, Terminal};
use super::terminal::{self, NewTerminal};
use super::{devices, in_root, mounts};

/// Sets up the root in this process's new mount namespace and moves into it. The current directory is the new root. `proc` is a proc
/// file system of the process's PID namespace that is attached nowhere.
pub(super) fn enter(
    spec: &ContainerSpec,
    sources: Sources,
    proc: BorrowedFd<'_>,
) -> Result<Option<NewTerminal>, LaunchError> {
    umask(Mode::empty());
    // From here on nothing that is mounted here appears on the host.
    let all = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", all).during("set propagation of", "/")?;
    let Sources { root, mounts, devices } = sources;
    // Any place that every user can reach will do.
    let place =
        open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).during("open", "/")?;
    mounts::attach(root.as_fd(), place.as_fd()).during("mount root", &spec.root)?;
    for (mount, source) in spec.mounts.iter().zip(mounts) {
        mounts::make(root.as_fd(), mount, source)?;
    }
    devices::make(root.as_fd(), &spec.devices, devices)?;
    pivot(root.as_fd(), place.as_fd())?;
    let terminal = match spec.process.terminal {
        Terminal::None => None,
        Terminal::New => {
            let terminal = terminal::open(root.as_fd(), proc)?;
            terminal::mount_console(root.as_fd(), terminal.slave.as_fd())?;
            Some(terminal)
        }
    };
    make_paths_read_only(root.as_fd(), &spec.readonly_paths)?;
    mask_paths(root.as_fd(), &spec.masked_paths)?;
    if spec.root_access == Access::ReadOnly {
        mounts::make_read_only(root.as_fd(), false).during("make read-only", "/")?;
    }
    umask(Mode::from_raw_mode(0o022));
    Ok(terminal)
}

/// Makes `root` the root of this mount namespace and removes the host's mounts from it.
fn pivot(root: BorrowedFd<'_>, old: BorrowedFd<'_>) -> Result<(), LaunchError> {
    fchdir(root).during("enter", "root")?;
    pivot_root(".", ".").during("pivot to", "root")?;
    // The old root is now on top of the new one.
    fchdir(old).during("enter", "old root")?;
    unmount(".", UnmountFlags::DETACH).during("unmount", "old root")?;
    chdir("/").during("enter", "/")
}

fn make_paths_read_only(root: BorrowedFd<'_>, paths: &[PathBuf]) -> Result<(), LaunchError> {
    for path in paths {
        let Some(target) = open_existing(root, path)? else { continue };
        let tree = mounts::clone_tree(target.as_fd()).during("clone", path)?;
        mounts::make_read_only(tree.as_fd(), true).during("make read-only", path)?;
        mounts::attach(tree.as_fd(), target.as_fd()).during("mount read-only", path)?;
    }
    Ok(())
}

/// Covers files with the null device and directories with an empty file system. Only a missing path is skipped.
fn mask_paths(root: BorrowedFd<'_>, paths: &[PathBuf]) -> Result<(), LaunchError> {
    let mut empty: Option<OwnedFd> = None;
    for path in paths {
        let Some(target) = open_existing(root, path)? else { continue };
        let status = rustix::fs::fstat(target.as_fd()).during("read", path)?;
        let is_directory = FileType::from_raw_mode(status.st_mode).is_dir();
        let cover = match &empty {
            _ if !is_directory => mounts::clone_single(devices::open_null(root)?.as_fd()),
            // One file system for all directories: there can be hundreds of them, one per processor. Older kernels clone only mounts
            // that are attached.
            Some(attached) => mounts::clone_single(attached.as_fd()),
            None => Ok(empty_directory()?),
        };
        let cover = cover.during("clone cover of", path)?;
        mounts::attach(cover.as_fd(), target.as_fd()).during("mask", path)?;
        if is_directory {
            empty.get_or_insert(cover);
        }
    }
    Ok(())
}

fn empty_directory() -> Result<OwnedFd, LaunchError> {
    let options = [("nr_blocks", "1"), ("nr_inodes", "2"), ("mode", "755")];
    let options = options.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let tree = mounts::new_filesystem(FilesystemKind::Tmpfs, &options, &Default::default())?;
    mounts::make_read_only(tree.as_fd(), false).during("make read-only", "mask")?;
    Ok(tree)
}

fn open_existing(root: BorrowedFd<'_>, path: &Path) -> Result<Option<OwnedFd>, LaunchError> {
    match in_root::open(root, path, OFlags::PATH) {
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        result => result.map(Some).during("open", path),
    }
}
