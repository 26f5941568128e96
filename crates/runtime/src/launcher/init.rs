//! The code of the new process, from `clone3` to `execve`. It never returns to the launcher's code.

use std::convert::Infallible;
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::fs::{Gid, Mode, OFlags, Uid, fchown};
use rustix::io::Errno;
use rustix::process::{ioctl_tiocsctty, setsid};
use rustix::thread::{
    LinkNameSpaceType, ThreadNameSpaceType, move_into_link_name_space, move_into_thread_name_spaces,
};

use super::channel::{Channel, Order, Report};
use super::errors::{During, LaunchError};
use super::identity::{self, Program};
use super::raw::Forked;
use super::sources::Sources;
use super::spec::{CgroupNamespace, ContainerSpec, FilesystemKind, IdMappings, ProcessSpec, Terminal};
use super::terminal::{self, NewTerminal};
use super::{mounts, raw, reaper, root, user_namespace};

const FIRST_OTHER_DESCRIPTOR: u32 = 3;
/// Exit code of a process whose set-up failed. The error itself goes through the channel.
const SET_UP_FAILED: i32 = 128;

/// Namespaces of a pod to join.
pub(super) struct JoinedNamespaces(pub(super) Vec<(OwnedFd, LinkNameSpaceType)>);

/// The user namespace of a new container.
pub(super) struct JoinedUserNamespace<'a> {
    pub(super) namespace: OwnedFd,
    pub(super) ids: &'a IdMappings,
    /// Flags of `clone3` for the namespaces that it will own.
    pub(super) flags: u32,
}

/// How a process gets into its container.
pub(super) enum Place<'a> {
    /// It is the first process and makes the container.
    New { spec: &'a ContainerSpec, namespaces: JoinedNamespaces, user: Option<JoinedUserNamespace<'a>> },
    /// It joins the namespaces of a running process.
    Existing { process: BorrowedFd<'a>, ids: Option<&'a IdMappings> },
}

impl Place<'_> {
    fn ids(&self) -> Option<&IdMappings> {
        match self {
            Self::New { user, .. } => user.as_ref().map(|user| user.ids),
            Self::Existing { ids, .. } => *ids,
        }
    }
}

/// Runs the process. All errors go to the launcher.
pub(super) fn run(
    place: Place<'_>,
    container: &str,
    process: &ProcessSpec,
    stdio: Option<&[OwnedFd; 3]>,
    channel: &Channel,
) -> ! {
    let error = match set_up_and_execute(place, container, process, stdio, channel) {
        Err(error) => error,
        Ok(never) => match never {},
    };
    // The report is lost if the launcher has ended.
    let _ = channel.send(&Report::Failed(error.to_string()));
    raw::exit_now(SET_UP_FAILED)
}

fn set_up_and_execute(
    place: Place<'_>,
    container: &str,
    process: &ProcessSpec,
    stdio: Option<&[OwnedFd; 3]>,
    channel: &Channel,
) -> Result<Infallible, LaunchError> {
    close_inherited(&place, stdio, channel)?;
    // The launcher sends the order to the process that continues in the user namespace, after it was moved to its cgroups.
    let has_sibling = matches!(&place, Place::New { user: Some(_), .. });
    if !has_sibling {
        expect(channel, &Order::SetUp)?;
    }
    for stream in stdio.into_iter().flatten() {
        give_to_user(stream.as_fd(), process, place.ids())?;
    }
    let entry = prepare(place, channel)?;
    if has_sibling {
        expect(channel, &Order::SetUp)?;
    }
    if let Entry::New { spec, .. } = &entry
        && spec.namespaces.cgroup == CgroupNamespace::New
    {
        // The process is in its cgroup only now, and this cgroup becomes the root of the namespace.
        raw::unshare(libc::CLONE_NEWCGROUP).during("make", "cgroup namespace")?;
    }
    raw::reset_signals().during("reset", "signals")?;
    // Not yet a leader of anything: it was just made.
    setsid().during("start", "session")?;
    if let Some([input, output, error]) = stdio {
        raw::replace_stdio([input.as_fd(), output.as_fd(), error.as_fd()])
            .during("replace", "standard streams")?;
    }
    let is_first = matches!(entry, Entry::New { .. });
    let (proc, terminal) = enter(entry, container, process)?;
    if let Some(terminal) = terminal {
        take_terminal(terminal, process, channel)?;
    }
    if is_first {
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
    if process.arguments.is_empty() {
        // Closes the channel, which reports success.
        close_all_except(&[])?;
        reaper::reap_for_ever();
    }
    Err(program.execute())
}

/// The rest of the way into the container, after everything that needs root of the host.
enum Entry<'a> {
    New { spec: &'a ContainerSpec, namespaces: JoinedNamespaces, sources: Sources },
    Existing { process: BorrowedFd<'a>, ids: Option<&'a IdMappings> },
}

/// Takes what the container needs from the host. With a user namespace, this process enters it and a sibling continues, because mount
/// and PID namespaces belong to the user namespace in which they are made.
fn prepare<'a>(place: Place<'a>, channel: &Channel) -> Result<Entry<'a>, LaunchError> {
    match place {
        Place::Existing { process, ids } => Ok(Entry::Existing { process, ids }),
        Place::New { spec, namespaces, user } => {
            let sources = Sources::take(spec, user.as_ref().map(|user| user.namespace.as_fd()))?;
            if let Some(user) = user {
                user_namespace::enter(user.namespace.as_fd())?;
                match raw::clone_sibling(user.flags).during("make", "process")? {
                    Forked::Child => {}
                    Forked::Parent(_, pidfd) => {
                        channel.send_with(&Report::Process, &[pidfd.as_fd()])?;
                        raw::exit_now(0);
                    }
                }
            }
            Ok(Entry::New { spec, namespaces, sources })
        }
    }
}

/// Enters the namespaces and the root; returns a proc file system of the process's PID namespace, and its terminal.
fn enter(
    entry: Entry<'_>,
    container: &str,
    process: &ProcessSpec,
) -> Result<(OwnedFd, Option<NewTerminal>), LaunchError> {
    let private_proc =
        || mounts::new_filesystem(FilesystemKind::Proc, &[], &std::collections::BTreeSet::new());
    match entry {
        Entry::New { spec, namespaces, sources } => {
            join_keyring(container)?;
            for (namespace, kind) in &namespaces.0 {
                move_into_link_name_space(namespace.as_fd(), Some(*kind))
                    .during("join", "namespace of the pod")?;
            }
            let proc = private_proc()?;
            let terminal = root::enter(spec, sources, proc.as_fd())?;
            Ok((proc, terminal))
        }
        Entry::Existing { process: first, ids } => {
            // The kernel refuses it where the container's own one has masks, unless this is root of the host.
            let proc = private_proc()?;
            let mut kinds = ThreadNameSpaceType::MOUNT
                | ThreadNameSpaceType::NETWORK
                | ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION
                | ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME
                | ThreadNameSpaceType::CONTROL_GROUP;
            if ids.is_some() {
                kinds |= ThreadNameSpaceType::USER;
            }
            move_into_thread_name_spaces(first, kinds).during("join", "namespaces of the container")?;
            if ids.is_some() {
                user_namespace::become_root()?;
            }
            join_keyring(container)?;
            let terminal = match process.terminal {
                Terminal::None => None,
                Terminal::New => {
                    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                    let root = rustix::fs::open("/", flags, Mode::empty()).during("open", "/")?;
                    Some(terminal::open(root.as_fd(), proc.as_fd())?)
                }
            };
            Ok((proc, terminal))
        }
    }
}

/// Makes the terminal the process's standard streams and controlling terminal, and gives the other side to the launcher.
fn take_terminal(terminal: NewTerminal, process: &ProcessSpec, channel: &Channel) -> Result<(), LaunchError> {
    let NewTerminal { master, slave } = terminal;
    ioctl_tiocsctty(&slave).during("take", "controlling terminal")?;
    // The group stays that of all terminals.
    fchown(&slave, Some(Uid::from_raw(process.user.uid)), None).during("set owner of", "terminal")?;
    raw::replace_stdio([slave.as_fd(), slave.as_fd(), slave.as_fd()])
        .during("replace", "standard streams")?;
    channel.send_with(&Report::Terminal, &[master.as_fd()])
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

/// Lets the process open `/dev/stdout` again. Fails harmlessly for files that have no owner to change. This process is root of the
/// host, so `ids` translates the user.
fn give_to_user(
    stream: BorrowedFd<'_>,
    process: &ProcessSpec,
    ids: Option<&IdMappings>,
) -> Result<(), LaunchError> {
    let status = rustix::fs::fstat(stream).during("read", "standard stream")?;
    let kind = rustix::fs::FileType::from_raw_mode(status.st_mode);
    if !(kind.is_fifo() || kind.is_socket()) {
        return Ok(());
    }
    let user = &process.user;
    let (uid, gid) = match ids {
        None => (user.uid, user.gid),
        Some(ids) => user_namespace::on_host(ids, user)
            .ok_or(LaunchError::UnmappedUser { uid: user.uid, gid: user.gid })?,
    };
    fchown(stream, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))
        .during("set owner of", "standard stream")
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
fn close_inherited(
    place: &Place<'_>,
    stdio: Option<&[OwnedFd; 3]>,
    channel: &Channel,
) -> Result<(), LaunchError> {
    let mut kept: Vec<RawFd> = stdio.into_iter().flatten().map(AsRawFd::as_raw_fd).collect();
    kept.push(channel.as_fd().as_raw_fd());
    match place {
        Place::New { namespaces, user, .. } => {
            kept.extend(namespaces.0.iter().map(|(namespace, _)| namespace.as_raw_fd()));
            kept.extend(user.iter().map(|user| user.namespace.as_raw_fd()));
        }
        Place::Existing { process, .. } => kept.push(process.as_raw_fd()),
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
