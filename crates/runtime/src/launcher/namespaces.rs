//! The pinned namespaces of a pod.

use std::fs::OpenOptions;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, fstatfs};
use rustix::mount::{UnmountFlags, mount_bind, unmount};

use super::channel::{Channel, Order, Report};
use super::errors::{During, LaunchError};
use super::process::{Process, check_single_thread, kill_and_reap};
use super::raw::{self, Forked};
use super::spec::PodNamespaces;
use super::user_namespace;

const NSFS_MAGIC: u64 = 0x6e73_6673;

/// Opens a namespace, such as a pinned one.
pub(super) fn open(path: &Path) -> Result<OwnedFd, LaunchError> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).during("open", path)?;
    let kind = fstatfs(file.as_fd()).during("read file system of", path)?.f_type;
    // An empty file means that the pin was lost, for example by a restart of the machine.
    if u64::try_from(kind).ok() == Some(NSFS_MAGIC) {
        return Ok(file);
    }
    Err(LaunchError::Message(format!("{} is not a namespace", path.display())))
}

/// Makes the namespaces of a pod, and pins each to its file. After an error nothing is pinned.
///
/// # Errors
/// If a namespace cannot be made or pinned.
pub fn make_pod_namespaces(namespaces: &PodNamespaces) -> Result<(), LaunchError> {
    check_single_thread()?;
    let wanted = [
        (namespaces.user.as_ref().map(|user| &user.path), libc::CLONE_NEWUSER, "user"),
        (namespaces.network.as_ref(), libc::CLONE_NEWNET, "net"),
        (namespaces.ipc.as_ref(), libc::CLONE_NEWIPC, "ipc"),
        (namespaces.uts.as_ref(), libc::CLONE_NEWUTS, "uts"),
    ];
    let flags = wanted.iter().filter(|(path, ..)| path.is_some()).fold(0, |flags, (_, flag, _)| flags | flag);
    let user = flags & libc::CLONE_NEWUSER;
    let (channel, other_end) = Channel::pair()?;
    let process = match raw::clone_process(user.cast_unsigned()).during("make", "user namespace")? {
        Forked::Parent(pid, pidfd) => Process { pid, pidfd },
        Forked::Child => {
            drop(channel);
            hold_namespaces(flags & !user, user != 0, &other_end);
        }
    };
    drop(other_end);
    let pid = process.pid.as_raw_nonzero().get();
    let mut pinned = Vec::new();
    let mut pin_all = || {
        if let Some(user) = &namespaces.user {
            user_namespace::write_mappings(pid, &user.ids)?;
        }
        channel.send(&Order::SetUp)?;
        match channel.receive()? {
            Some(Report::Ready) => {}
            Some(Report::Failed(text)) => return Err(LaunchError::Child(text)),
            Some(Report::Process | Report::Terminal) | None => return Err(LaunchError::Ended),
        }
        for (path, _, name) in &wanted {
            if let Some(path) = path {
                pin(&Path::new("/proc").join(pid.to_string()).join("ns").join(name), path)?;
                pinned.push(*path);
            }
        }
        Ok(())
    };
    let result = pin_all();
    kill_and_reap(&process);
    if result.is_err() {
        for path in pinned {
            // The first error is reported.
            let _ = unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
        }
    }
    result
}

/// Makes namespaces as root of the user namespace, to which their files shall belong, and waits until it is killed.
fn hold_namespaces(namespaces: i32, has_user: bool, channel: &Channel) -> ! {
    let make = || {
        if channel.receive::<Order>()?.is_none() {
            return Err(LaunchError::Ended);
        }
        if has_user {
            user_namespace::become_root()?;
        }
        raw::unshare(namespaces).during("make", "namespaces")
    };
    let report = match make() {
        Ok(()) => Report::Ready,
        Err(error) => Report::Failed(error.to_string()),
    };
    // If the keeper has died, there is no other receiver.
    let _ = channel.send(&report);
    let _ = channel.receive::<Order>();
    raw::exit_now(0)
}

fn pin(namespace: &Path, path: &Path) -> Result<(), LaunchError> {
    let made = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    made.map_err(|error| LaunchError::Message(format!("make {}: {error}", path.display())))?;
    mount_bind(namespace, path).during("pin namespace to", path)
}
