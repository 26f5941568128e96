//! The code of the new process, from `clone3` to `execve`. It never returns to the launcher's code.

use std::convert::Infallible;
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::fs::{Gid, Mode, Uid, fchown};
use rustix::io::Errno;
use rustix::process::setsid;
use rustix::thread::{
    LinkNameSpaceType, ThreadNameSpaceType, move_into_link_name_space, move_into_thread_name_spaces,
};

use super::channel::{Channel, Order, Report};
use super::errors::{During, LaunchError};
use super::identity::{self, Program};
use super::spec::{ContainerSpec, FilesystemKind, ProcessSpec};
use super::{mounts, raw, root};

const FIRST_OTHER_DESCRIPTOR: u32 = 3;
/// Exit code of a process whose set-up failed. The error itself goes through the channel.
const SET_UP_FAILED: i32 = 128;

/// Namespaces of a pod to join.
pub(super) struct JoinedNamespaces(pub(super) Vec<(OwnedFd, LinkNameSpaceType)>);

/// How a process gets into its container.
pub(super) enum Place<'a> {
    /// It is the first process and makes the container.
    New { spec: &'a ContainerSpec, namespaces: JoinedNamespaces },
    /// It joins the namespaces of a running process.
    Existing { process: BorrowedFd<'a> },
}

/// Runs the process. All errors go to the launcher.
pub(super) fn run(
    place: &Place<'_>,
    container: &str,
    process: &ProcessSpec,
    stdio: &[OwnedFd; 3],
    channel: &Channel,
) -> ! {
    let error = match set_up_and_execute(place, container, process, stdio, channel) {
        Err(error) => error,
        Ok(never) => match never {},
    };
    // If the launcher is gone there is nobody to report to.
    let _ = channel.send(&Report::Failed(error.to_string()));
    raw::exit_now(SET_UP_FAILED)
}

fn set_up_and_execute(
    place: &Place<'_>,
    container: &str,
    process: &ProcessSpec,
    stdio: &[OwnedFd; 3],
    channel: &Channel,
) -> Result<Infallible, LaunchError> {
    close_inherited(place, stdio, channel)?;
    expect(channel, &Order::SetUp)?;
    raw::reset_signals().during("reset", "signals")?;
    // Not yet a leader of anything: it was just made.
    setsid().during("start", "session")?;
    join_keyring(container)?;
    let [input, output, error] = stdio;
    for stream in stdio {
        give_to_user(stream.as_fd(), process)?;
    }
    raw::replace_stdio([input.as_fd(), output.as_fd(), error.as_fd()])
        .during("replace", "standard streams")?;
    let proc = enter(place)?;
    if matches!(place, Place::New { .. }) {
        make_working_directory(&process.directory)?;
    }
    let program = Program::new(process)?;
    identity::set_security_label(proc.as_fd(), &process.security_label)?;
    // The next call closes it.
    let _ = proc.into_raw_fd();
    close_all_except(&[channel.as_fd().as_raw_fd()])?;
    identity::assume(process)?;
    channel.send(&Report::Ready)?;
    expect(channel, &Order::Execute)?;
    Err(program.execute())
}

/// Enters the namespaces and the root; returns a proc file system of the process's PID namespace.
fn enter(place: &Place<'_>) -> Result<OwnedFd, LaunchError> {
    let private_proc =
        || mounts::new_filesystem(FilesystemKind::Proc, &[], &std::collections::BTreeSet::new());
    match place {
        Place::New { spec, namespaces } => {
            for (namespace, kind) in &namespaces.0 {
                move_into_link_name_space(namespace.as_fd(), Some(*kind))
                    .during("join", "namespace of the pod")?;
            }
            let proc = private_proc()?;
            root::enter(spec)?;
            Ok(proc)
        }
        Place::Existing { process } => {
            let kinds = ThreadNameSpaceType::MOUNT
                | ThreadNameSpaceType::NETWORK
                | ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION
                | ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME
                | ThreadNameSpaceType::CONTROL_GROUP;
            move_into_thread_name_spaces(*process, kinds).during("join", "namespaces of the container")?;
            private_proc()
        }
    }
}

fn expect(channel: &Channel, expected: &Order) -> Result<(), LaunchError> {
    match channel.receive::<Order>()? {
        Some(order) if order == *expected => Ok(()),
        Some(order) => Err(LaunchError::Message(format!("unexpected order {order:?}"))),
        // The launcher gave up or died: a process that is not complete must not run.
        None => raw::exit_now(SET_UP_FAILED),
    }
}

/// Keys of the launcher's session must not be visible, and containers do not share keys. An executed process gets its own ring, as
/// a ring that can be joined by name could be joined by other containers.
fn join_keyring(container: &str) -> Result<(), LaunchError> {
    let name =
        CString::new(format!("_ses.{container}")).map_err(|_| LaunchError::ZeroByte("the container id"))?;
    match raw::new_session_keyring(&name) {
        // A kernel without keys has none to leak.
        Err(Errno::NOSYS) => Ok(()),
        result => result.during("start", "session keyring"),
    }
}

/// Lets the process open `/dev/stdout` again. Fails harmlessly for files that have no owner to change.
fn give_to_user(stream: BorrowedFd<'_>, process: &ProcessSpec) -> Result<(), LaunchError> {
    let status = rustix::fs::fstat(stream).during("read", "standard stream")?;
    let kind = rustix::fs::FileType::from_raw_mode(status.st_mode);
    if !(kind.is_fifo() || kind.is_socket()) {
        return Ok(());
    }
    let user = &process.user;
    let owner = (Some(Uid::from_raw(user.uid)), Some(Gid::from_raw(user.gid)));
    fchown(stream, owner.0, owner.1).during("set owner of", "standard stream")
}

/// Makes the directory with its parents. This process is inside the container's root already.
fn make_working_directory(path: &Path) -> Result<(), LaunchError> {
    let mut reached = std::path::PathBuf::new();
    for component in path.components() {
        reached.push(component);
        match rustix::fs::mkdir(&reached, Mode::from_raw_mode(0o755)) {
            // Where it cannot be made, entering it reports the error.
            Ok(()) | Err(Errno::EXIST | Errno::ROFS | Errno::ACCESS | Errno::PERM) => {}
            Err(errno) => return Err(errno).during("make working directory", path),
        }
    }
    Ok(())
}

/// Closes copies of the launcher's descriptors: log files, sockets and streams of other containers.
fn close_inherited(place: &Place<'_>, stdio: &[OwnedFd; 3], channel: &Channel) -> Result<(), LaunchError> {
    let mut kept: Vec<RawFd> = stdio.iter().map(AsRawFd::as_raw_fd).collect();
    kept.push(channel.as_fd().as_raw_fd());
    match place {
        Place::New { namespaces, .. } => {
            kept.extend(namespaces.0.iter().map(|(namespace, _)| namespace.as_raw_fd()));
        }
        Place::Existing { process } => kept.push(process.as_raw_fd()),
    }
    close_all_except(&kept)
}

fn close_all_except(kept: &[RawFd]) -> Result<(), LaunchError> {
    let mut kept: Vec<u32> = kept.iter().filter_map(|descriptor| u32::try_from(*descriptor).ok()).collect();
    kept.sort_unstable();
    let mut first = FIRST_OTHER_DESCRIPTOR;
    for descriptor in kept {
        if descriptor > first {
            raw::close_range(first, descriptor - 1).during("close", "descriptors")?;
        }
        first = first.max(descriptor + 1);
    }
    raw::close_range(first, u32::MAX).during("close", "descriptors")
}
