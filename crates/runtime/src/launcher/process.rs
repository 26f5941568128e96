//! Starts processes: the launcher's side of [`super::init`].

use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::channel::{Channel, Order, Report};
use super::errors::{During, LaunchError};
use super::init::{self, JoinedNamespaces, JoinedUserNamespace, Place};
use super::namespaces;
use super::raw::{self, Forked};
use super::spec::{ContainerSpec, Namespaces, PidNamespace, ProcessSpec, Terminal};

/// A process that this process must wait for.
#[derive(Debug)]
pub struct Process {
    pub pid: Pid,
    pub pidfd: OwnedFd,
}

/// A process that is set up and has not executed its program yet. Dropping it ends the process.
pub struct PreparedProcess {
    process: Process,
    channel: Channel,
    terminal: Option<OwnedFd>,
}

/// Makes a container and sets up its first process. A process without a terminal gets the three descriptors `stdio`.
///
/// # Errors
/// Every error of the set-up; the process has then ended.
pub fn create_container(
    spec: &ContainerSpec,
    stdio: Option<[OwnedFd; 3]>,
) -> Result<PreparedProcess, LaunchError> {
    let namespaces = open_namespaces(&spec.namespaces)?;
    let mut birth = match &spec.namespaces.pid {
        PidNamespace::New => Birth { flags: libc::CLONE_NEWNS | libc::CLONE_NEWPID, pid_namespace: None },
        PidNamespace::Host => Birth { flags: libc::CLONE_NEWNS, pid_namespace: None },
        PidNamespace::Join(path) => {
            Birth { flags: libc::CLONE_NEWNS, pid_namespace: Some(namespaces::open(path)?) }
        }
    };
    let user = match &spec.namespaces.user {
        None => None,
        Some(user) => Some(JoinedUserNamespace {
            namespace: namespaces::open(&user.path)?,
            ids: &user.ids,
            flags: std::mem::take(&mut birth.flags).cast_unsigned(),
        }),
    };
    start(Place::New { spec, namespaces, user }, spec, &spec.process, stdio, &birth)
}

/// Sets up a further process in a container, whose first process is given.
///
/// # Errors
/// Every error of the set-up; the process has then ended.
pub fn create_in_container(
    container: &ContainerSpec,
    first: &Process,
    process: &ProcessSpec,
    stdio: Option<[OwnedFd; 3]>,
) -> Result<PreparedProcess, LaunchError> {
    let path = PathBuf::from(format!("/proc/{}/ns/pid", first.pid.as_raw_nonzero()));
    let birth = Birth { flags: 0, pid_namespace: Some(namespaces::open(&path)?) };
    if has_ended(first)? {
        return Err(LaunchError::NotRunning);
    }
    let ids = container.namespaces.user.as_ref().map(|user| &user.ids);
    let place = Place::Existing { process: first.pidfd.as_fd(), ids };
    start(place, container, process, stdio, &birth)
}

impl PreparedProcess {
    /// Executes the program.
    ///
    /// # Errors
    /// If the program cannot be executed; the process has then ended.
    pub fn start(self) -> Result<Process, LaunchError> {
        let Self { process, channel, terminal: _ } = self;
        let result = channel.send(&Order::Execute).and_then(|()| channel.receive::<Report>());
        match result {
            // execve closed the other end.
            Ok(None) => Ok(process),
            Ok(Some(Report::Failed(text))) => Err(end(process, LaunchError::Executable(text))),
            Ok(Some(Report::Ready | Report::Process | Report::Terminal)) => {
                Err(end(process, LaunchError::Message("unexpected report".to_owned())))
            }
            Err(error) => Err(end(process, error)),
        }
    }

    #[must_use]
    pub fn pid(&self) -> Pid {
        self.process.pid
    }

    /// The master side of the process's terminal, once.
    pub fn take_terminal(&mut self) -> Option<OwnedFd> {
        self.terminal.take()
    }

    /// Ends the process instead of starting it.
    pub fn abandon(self) {
        kill_and_reap(&self.process);
    }
}

/// Namespaces that a process has from its first instruction.
struct Birth {
    /// Flags of `clone3` for new namespaces.
    flags: i32,
    /// The PID namespace to join.
    pid_namespace: Option<OwnedFd>,
}

fn start(
    place: Place<'_>,
    container: &ContainerSpec,
    process: &ProcessSpec,
    stdio: Option<[OwnedFd; 3]>,
    birth: &Birth,
) -> Result<PreparedProcess, LaunchError> {
    check_single_thread()?;
    if stdio.is_some() == (process.terminal == Terminal::New) {
        return Err(LaunchError::Message("a process has either descriptors or a terminal".to_owned()));
    }
    let has_intermediate = matches!(&place, Place::New { user: Some(_), .. });
    let (channel, other_end) = Channel::pair()?;
    let own = namespaces::open(Path::new("/proc/self/ns/pid"))?;
    if let Some(namespace) = &birth.pid_namespace {
        // Only the processes that are made from now on are in it.
        join_pid_namespace(namespace)?;
    }
    let forked = raw::clone_process(birth.flags.cast_unsigned());
    if matches!(forked, Ok(Forked::Child)) {
        init::run(place, &container.id, process, stdio.as_ref(), &other_end);
    }
    if birth.pid_namespace.is_some() {
        join_pid_namespace(&own)?;
    }
    let mut process_handle = match forked.during("make", "process")? {
        Forked::Parent(pid, pidfd) => Process { pid, pidfd },
        Forked::Child => raw::exit_now(1),
    };
    drop((other_end, stdio, place));
    if has_intermediate {
        process_handle = receive_sibling(&process_handle, &channel)?;
    }
    match set_up(container, process, &process_handle, &channel) {
        Ok(terminal) => Ok(PreparedProcess { process: process_handle, channel, terminal }),
        Err(error) => Err(end(process_handle, error)),
    }
}

/// The process that continues inside the user namespace. The one that has made it ends.
fn receive_sibling(intermediate: &Process, channel: &Channel) -> Result<Process, LaunchError> {
    let received = match channel.receive_with() {
        Ok(Some((Report::Process, Some(pidfd)))) => Ok(pidfd),
        Ok(Some((Report::Failed(text), _))) => Err(LaunchError::Child(text)),
        Ok(Some(_)) => Err(LaunchError::Message("unexpected report".to_owned())),
        Ok(None) => Err(LaunchError::Ended),
        Err(error) => Err(error),
    };
    kill_and_reap(intermediate);
    let pidfd = received?;
    Ok(Process { pid: pid_of(&pidfd)?, pidfd })
}

/// The number of a process in this PID namespace.
fn pid_of(pidfd: &OwnedFd) -> Result<Pid, LaunchError> {
    let path = format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd());
    let text = fs::read_to_string(&path).map_err(|error| LaunchError::Message(format!("{path}: {error}")))?;
    let number = text.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse().ok());
    number.and_then(Pid::from_raw).ok_or(LaunchError::Ended)
}

/// Lets a process set itself up; returns its terminal.
fn set_up(
    container: &ContainerSpec,
    process: &ProcessSpec,
    handle: &Process,
    channel: &Channel,
) -> Result<Option<OwnedFd>, LaunchError> {
    for cgroup in &container.cgroups {
        write(&cgroup.join("cgroup.procs"), &handle.pid.as_raw_nonzero().to_string())?;
    }
    set_oom_score(handle.pid, process.oom_score_adj)?;
    channel.send(&Order::SetUp)?;
    let mut terminal = None;
    loop {
        match channel.receive_with()? {
            Some((Report::Terminal, Some(master))) => terminal = Some(master),
            Some((Report::Ready, _)) => break,
            Some((Report::Failed(text), _)) => return Err(LaunchError::Child(text)),
            Some((Report::Process | Report::Terminal, _)) => {
                return Err(LaunchError::Message("unexpected report".to_owned()));
            }
            None => return Err(LaunchError::Ended),
        }
    }
    if terminal.is_some() == (process.terminal == Terminal::New) {
        return Ok(terminal);
    }
    Err(LaunchError::Message("the terminal is missing".to_owned()))
}

/// A second thread could hold a lock that the new process would wait for without end.
pub(super) fn check_single_thread() -> Result<(), LaunchError> {
    let tasks = fs::read_dir("/proc/self/task").map_err(|error| LaunchError::Message(error.to_string()))?;
    match tasks.count() {
        1 => Ok(()),
        threads => Err(LaunchError::Threads(threads)),
    }
}

fn open_namespaces(namespaces: &Namespaces) -> Result<JoinedNamespaces, LaunchError> {
    let wanted = [
        (&namespaces.network, LinkNameSpaceType::Network),
        (&namespaces.ipc, LinkNameSpaceType::InterProcessCommunication),
        (&namespaces.uts, LinkNameSpaceType::HostNameAndNISDomainName),
    ];
    let mut opened = Vec::new();
    for (path, kind) in wanted {
        if let Some(path) = path {
            opened.push((namespaces::open(path)?, kind));
        }
    }
    Ok(JoinedNamespaces(opened))
}

fn join_pid_namespace(namespace: &OwnedFd) -> Result<(), LaunchError> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::ProcessID))
        .during("join", "PID namespace")
}

/// A process that is not privileged enough may not lower the score below its own.
fn set_oom_score(pid: Pid, asked: i32) -> Result<(), LaunchError> {
    let path = PathBuf::from(format!("/proc/{}/oom_score_adj", pid.as_raw_nonzero()));
    let Err(error) = fs::write(&path, asked.to_string()) else { return Ok(()) };
    if error.kind() != std::io::ErrorKind::PermissionDenied {
        return Err(LaunchError::Message(format!("write {}: {error}", path.display())));
    }
    let own = fs::read_to_string("/proc/self/oom_score_adj").unwrap_or_default();
    let own: i32 = own.trim().parse().unwrap_or(0);
    write(&path, &own.max(asked).to_string())
}

fn write(path: &Path, text: &str) -> Result<(), LaunchError> {
    fs::write(path, text).map_err(|error| LaunchError::Message(format!("write {}: {error}", path.display())))
}

/// Ends a process whose start failed, and returns the reason.
fn end(process: Process, reason: LaunchError) -> LaunchError {
    kill_and_reap(&process);
    drop(process);
    reason
}

pub(super) fn kill_and_reap(process: &Process) {
    // Both fail only if the process has already ended.
    let _ = pidfd_send_signal(&process.pidfd, Signal::KILL);
    let _ = waitid(WaitId::PidFd(process.pidfd.as_fd()), WaitIdOptions::EXITED);
}

/// Sends a signal to a process.
///
/// # Errors
/// If the number is no signal. A process that has ended is no error.
pub fn send_signal(process: &Process, signal: i32) -> Result<(), LaunchError> {
    match raw::pidfd_send_signal(process.pidfd.as_fd(), signal) {
        Err(Errno::SRCH) => Ok(()),
        result => result.during("signal", "process"),
    }
}

/// Whether a process has ended and was not waited for. Until then its number belongs to it.
fn has_ended(process: &Process) -> Result<bool, LaunchError> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = waitid(WaitId::PidFd(process.pidfd.as_fd()), options).during("read state of", "process")?;
    Ok(status.is_some())
}
