//! Starts processes: the launcher's side of [`super::init`].

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::channel::{Channel, Order, Report};
use super::errors::{During, LaunchError};
use super::init::{self, JoinedNamespaces, Place};
use super::raw::{self, Forked};
use super::spec::{ContainerSpec, Namespaces, PidNamespace, ProcessSpec};

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
}

/// Makes a container and sets up its first process.
///
/// # Errors
/// Every error of the set-up; the process is gone then.
pub fn create_container(spec: &ContainerSpec, stdio: [OwnedFd; 3]) -> Result<PreparedProcess, LaunchError> {
    let namespaces = open_namespaces(&spec.namespaces)?;
    let birth = match &spec.namespaces.pid {
        PidNamespace::New => Birth { flags: libc::CLONE_NEWNS | libc::CLONE_NEWPID, pid_namespace: None },
        PidNamespace::Host => Birth { flags: libc::CLONE_NEWNS, pid_namespace: None },
        PidNamespace::Join(path) => Birth { flags: libc::CLONE_NEWNS, pid_namespace: Some(open_file(path)?) },
    };
    let place = Place::New { spec, namespaces };
    start(&place, spec, &spec.process, stdio, &birth)
}

/// Sets up a further process in a container, whose first process is given.
///
/// # Errors
/// Every error of the set-up; the process is gone then.
pub fn create_in_container(
    container: &ContainerSpec,
    first: &Process,
    process: &ProcessSpec,
    stdio: [OwnedFd; 3],
) -> Result<PreparedProcess, LaunchError> {
    let path = PathBuf::from(format!("/proc/{}/ns/pid", first.pid.as_raw_nonzero()));
    let birth = Birth { flags: 0, pid_namespace: Some(open_file(&path)?) };
    if has_ended(first)? {
        return Err(LaunchError::NotRunning);
    }
    let place = Place::Existing { process: first.pidfd.as_fd() };
    start(&place, container, process, stdio, &birth)
}

impl PreparedProcess {
    /// Executes the program.
    ///
    /// # Errors
    /// If the program cannot be executed; the process is gone then.
    pub fn start(self) -> Result<Process, LaunchError> {
        let Self { process, channel } = self;
        let result = channel.send(&Order::Execute).and_then(|()| channel.receive::<Report>());
        match result {
            // execve closed the other end.
            Ok(None) => Ok(process),
            Ok(Some(Report::Failed(text))) => Err(end(process, LaunchError::Executable(text))),
            Ok(Some(Report::Ready)) => Err(end(process, LaunchError::Message("ready twice".to_owned()))),
            Err(error) => Err(end(process, error)),
        }
    }

    #[must_use]
    pub fn pid(&self) -> Pid {
        self.process.pid
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
    place: &Place<'_>,
    container: &ContainerSpec,
    process: &ProcessSpec,
    stdio: [OwnedFd; 3],
    birth: &Birth,
) -> Result<PreparedProcess, LaunchError> {
    check_single_thread()?;
    let (channel, other_end) = Channel::pair()?;
    let own = open_file(Path::new("/proc/self/ns/pid"))?;
    if let Some(namespace) = &birth.pid_namespace {
        // Only the processes that are made from now on are in it.
        join_pid_namespace(namespace)?;
    }
    let forked = raw::clone_process(birth.flags.cast_unsigned());
    if matches!(forked, Ok(Forked::Child)) {
        init::run(place, &container.id, process, &stdio, &other_end);
    }
    if birth.pid_namespace.is_some() {
        join_pid_namespace(&own)?;
    }
    let process_handle = match forked.during("make", "process")? {
        Forked::Parent(pid, pidfd) => Process { pid, pidfd },
        Forked::Child => raw::exit_now(1),
    };
    drop((other_end, stdio));
    let set_up = || {
        for cgroup in &container.cgroups {
            write(&cgroup.join("cgroup.procs"), &process_handle.pid.as_raw_nonzero().to_string())?;
        }
        set_oom_score(process_handle.pid, process.oom_score_adj)?;
        channel.send(&Order::SetUp)?;
        match channel.receive()? {
            Some(Report::Ready) => Ok(()),
            Some(Report::Failed(text)) => Err(LaunchError::Child(text)),
            None => Err(LaunchError::Ended),
        }
    };
    match set_up() {
        Ok(()) => Ok(PreparedProcess { process: process_handle, channel }),
        Err(error) => Err(end(process_handle, error)),
    }
}

/// A second thread could hold a lock that the new process would wait for without end.
fn check_single_thread() -> Result<(), LaunchError> {
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
            opened.push((open_file(path)?, kind));
        }
    }
    Ok(JoinedNamespaces(opened))
}

fn open_file(path: &Path) -> Result<OwnedFd, LaunchError> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).during("open", path)
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

fn kill_and_reap(process: &Process) {
    // Both fail only if the process is gone already.
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
