//! A container of the pod, from its creation to the record of its exit.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{WaitId, WaitIdOptions, waitid};

use super::connection::send_descriptor;
use super::exec_cgroup::{ExecCgroup, kill_all};
use super::exits;
use super::output::describe;
use super::protocol::{AttachedStreams, ExitRecord, Stage, Stdin};
use super::streams::Streams;
use crate::launcher::{
    ContainerSpec, LaunchError, PidNamespace, PreparedProcess, Process, ProcessSpec, Terminal,
    create_container, create_in_container, send_signal,
};

/// How long output is read after the exit if another process holds the pipe.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
const SIGNAL_EXIT: i32 = 128;
const START_FAILED: i32 = 128;

pub(super) struct Container {
    spec: ContainerSpec,
    oom_counter: Option<PathBuf>,
    oom_kills_before: u64,
    pub(super) streams: Streams,
    phase: Phase,
    pub(super) execs: BTreeMap<String, Exec>,
}

enum Phase {
    Created(PreparedProcess),
    Running {
        process: Process,
        started_at: i64,
    },
    /// The first process has ended; output is still read.
    Draining {
        exit: ExitRecord,
        until: Instant,
    },
    Exited(ExitRecord),
}

pub(super) struct Exec {
    pub(super) process: Process,
    cgroup: Option<ExecCgroup>,
    started_at: i64,
}

/// How a request about a container fails.
pub(super) enum ContainerError {
    WrongState(&'static str),
    Launch(LaunchError),
}

impl From<LaunchError> for ContainerError {
    fn from(error: LaunchError) -> Self {
        Self::Launch(error)
    }
}

impl Container {
    pub(super) fn create(
        spec: ContainerSpec,
        stdin: Stdin,
        log: Option<&Path>,
        oom_counter: Option<PathBuf>,
    ) -> Result<Self, LaunchError> {
        let (mut streams, stdio) = Streams::new(log, stdin, spec.process.terminal)?;
        let oom_kills_before = oom_kills(oom_counter.as_deref());
        let mut prepared = create_container(&spec, stdio)?;
        if let Some(Err(error)) = prepared.take_terminal().map(|master| streams.set_terminal(master)) {
            prepared.abandon();
            return Err(error);
        }
        let phase = Phase::Created(prepared);
        Ok(Self { spec, oom_counter, oom_kills_before, streams, phase, execs: BTreeMap::new() })
    }

    /// Executes the program. After a failure the container has ended.
    pub(super) fn start(self) -> (Self, Result<u32, ContainerError>) {
        let Self { spec, oom_counter, oom_kills_before, streams, phase, execs } = self;
        let rebuild = |phase| Self { spec, oom_counter, oom_kills_before, streams, phase, execs };
        let prepared = match phase {
            Phase::Created(prepared) => prepared,
            phase @ (Phase::Running { .. } | Phase::Draining { .. } | Phase::Exited(_)) => {
                return (rebuild(phase), Err(ContainerError::WrongState("it was started before")));
            }
        };
        match prepared.start() {
            Ok(process) => {
                let pid = process.pid.as_raw_nonzero().get().unsigned_abs();
                (rebuild(Phase::Running { process, started_at: exits::now() }), Ok(pid))
            }
            Err(error) => {
                let exit = ExitRecord {
                    code: START_FAILED,
                    signal: None,
                    oom_killed: false,
                    started_at: 0,
                    finished_at: exits::now(),
                    start_error: Some(describe(&error)),
                };
                // Draining with nothing to drain: the event loop records and reports the end.
                let phase = Phase::Draining { exit, until: Instant::now() };
                (rebuild(phase), Err(ContainerError::Launch(error)))
            }
        }
    }

    pub(super) fn exec(
        &mut self,
        exec: String,
        process: &ProcessSpec,
        descriptors: Vec<OwnedFd>,
    ) -> Result<u32, ContainerError> {
        let Some(connected) = ExecStreams::new(process.terminal, descriptors) else {
            return Err(ContainerError::WrongState("the request has not the descriptors that it needs"));
        };
        let Phase::Running { process: first, .. } = &self.phase else {
            return Err(ContainerError::WrongState("it is not running"));
        };
        if self.execs.contains_key(&exec) {
            return Err(ContainerError::WrongState("the exec id is in use"));
        }
        let mut place = self.spec.clone();
        let cgroup = ExecCgroup::make(&mut place.cgroups, &exec)
            .map_err(|error| LaunchError::Message(format!("make cgroup of exec: {error}")))?;
        let started = start_exec(&place, first, process, connected);
        match started {
            Ok(process) => {
                let pid = process.pid.as_raw_nonzero().get().unsigned_abs();
                self.execs.insert(exec, Exec { process, cgroup, started_at: exits::now() });
                Ok(pid)
            }
            Err(error) => {
                if let Some(cgroup) = cgroup {
                    cgroup.remove();
                }
                Err(error.into())
            }
        }
    }

    pub(super) fn attach(
        &mut self,
        streams: AttachedStreams,
        descriptors: Vec<OwnedFd>,
    ) -> Result<(), ContainerError> {
        match &self.phase {
            Phase::Created(_) | Phase::Running { .. } => {
                let attached = self.streams.attach(streams, descriptors);
                attached.map_err(|message| ContainerError::Launch(LaunchError::Message(message)))
            }
            Phase::Draining { .. } | Phase::Exited(_) => Err(ContainerError::WrongState("it is not running")),
        }
    }

    pub(super) fn signal(&self, signal: i32) -> Result<(), ContainerError> {
        match &self.phase {
            Phase::Running { process, .. } => send_signal(process, signal)
                .map_err(|error| ContainerError::Launch(LaunchError::Message(error.to_string()))),
            Phase::Created(_) => Err(ContainerError::WrongState("it is not running")),
            // The process has ended already.
            Phase::Draining { .. } | Phase::Exited(_) => Ok(()),
        }
    }

    pub(super) fn kill_exec(&self, exec: &str) {
        if let Some(exec) = self.execs.get(exec) {
            // It may have ended meanwhile.
            let _ = send_signal(&exec.process, libc::SIGKILL);
            if let Some(cgroup) = &exec.cgroup {
                cgroup.kill();
            }
        }
    }

    /// Reads how an executed process ended.
    pub(super) fn end_exec(&mut self, id: &str) -> Option<ExitRecord> {
        let exec = self.execs.get(id)?;
        let exit = wait(&exec.process, exec.started_at)?;
        if let Some(cgroup) = &exec.cgroup {
            cgroup.remove();
        }
        self.execs.remove(id);
        Some(exit)
    }

    /// Reads how the first process ended. The kernel has killed all others of its PID namespace; without a namespace of the
    /// container's own, what is left of the container is killed here.
    pub(super) fn end_first_process(&mut self) {
        let Phase::Running { process, started_at } = &self.phase else { return };
        let Some(mut exit) = wait(process, *started_at) else { return };
        exit.oom_killed = oom_kills(self.oom_counter.as_deref()) > self.oom_kills_before;
        if self.spec.namespaces.pid != PidNamespace::New
            && let Some(cgroup) = self.spec.cgroups.first()
        {
            for exec in self.execs.keys() {
                self.kill_exec(exec);
            }
            kill_all(cgroup);
        }
        self.phase = Phase::Draining { exit, until: Instant::now() + DRAIN_TIMEOUT };
    }

    /// The exit, once all output was read and all executed processes have ended, or when that takes too long.
    pub(super) fn finished(&self, now: Instant) -> Option<&ExitRecord> {
        match &self.phase {
            Phase::Draining { exit, until } => {
                let complete = self.streams.is_closed() && self.execs.is_empty();
                (complete || *until <= now).then_some(exit)
            }
            Phase::Created(_) | Phase::Running { .. } | Phase::Exited(_) => None,
        }
    }

    pub(super) fn drain_deadline(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Draining { until, .. } => Some(*until),
            Phase::Created(_) | Phase::Running { .. } | Phase::Exited(_) => None,
        }
    }

    pub(super) fn set_exited(&mut self, exit: ExitRecord, buffer: &mut Vec<u8>) {
        self.streams.close(buffer);
        self.phase = Phase::Exited(exit);
    }

    pub(super) fn running_process(&self) -> Option<&Process> {
        match &self.phase {
            Phase::Running { process, .. } => Some(process),
            Phase::Created(_) | Phase::Draining { .. } | Phase::Exited(_) => None,
        }
    }

    pub(super) fn stage(&self) -> Stage {
        match &self.phase {
            Phase::Created(_) => Stage::Created,
            Phase::Running { process, started_at } => {
                let pid = process.pid.as_raw_nonzero().get().unsigned_abs();
                Stage::Running { pid, started_at: *started_at }
            }
            // Not reported as an exit before it is on disk.
            Phase::Draining { exit, .. } => Stage::Running { pid: 0, started_at: exit.started_at },
            Phase::Exited(exit) => Stage::Exited(exit.clone()),
        }
    }

    /// Whether the keeper may forget the container. A created one is ended.
    pub(super) fn release(self) -> Result<(), Box<Self>> {
        match self.phase {
            Phase::Created(prepared) => {
                prepared.abandon();
                Ok(())
            }
            Phase::Exited(_) => Ok(()),
            Phase::Running { .. } | Phase::Draining { .. } => Err(Box::new(self)),
        }
    }
}

/// Descriptors that came with the request to execute a process.
enum ExecStreams {
    Descriptors([OwnedFd; 3]),
    ConsoleSocket(OwnedFd),
}

impl ExecStreams {
    fn new(terminal: Terminal, descriptors: Vec<OwnedFd>) -> Option<Self> {
        match terminal {
            Terminal::None => descriptors.try_into().ok().map(Self::Descriptors),
            Terminal::New => {
                let [socket] = descriptors.try_into().ok()?;
                Some(Self::ConsoleSocket(socket))
            }
        }
    }
}

fn start_exec(
    container: &ContainerSpec,
    first: &Process,
    process: &ProcessSpec,
    streams: ExecStreams,
) -> Result<Process, LaunchError> {
    let socket = match streams {
        ExecStreams::Descriptors(stdio) => {
            return create_in_container(container, first, process, Some(stdio))?.start();
        }
        ExecStreams::ConsoleSocket(socket) => socket,
    };
    let mut prepared = create_in_container(container, first, process, None)?;
    let Some(master) = prepared.take_terminal() else {
        prepared.abandon();
        return Err(LaunchError::Ended);
    };
    if let Err(errno) = send_descriptor(&socket, master.as_fd()) {
        prepared.abandon();
        return Err(LaunchError::Message(format!("send the terminal: {errno}")));
    }
    prepared.start()
}

fn wait(process: &Process, started_at: i64) -> Option<ExitRecord> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    let status = waitid(WaitId::PidFd(process.pidfd.as_fd()), options).ok()??;
    let signal = status.terminating_signal();
    Some(ExitRecord {
        code: signal.map_or_else(|| status.exit_status().unwrap_or(255), |signal| SIGNAL_EXIT + signal),
        signal,
        oom_killed: false,
        started_at,
        finished_at: exits::now(),
        start_error: None,
    })
}

/// The value of `oom_kill`. A counter that cannot be read any more counts nothing.
fn oom_kills(counter: Option<&Path>) -> u64 {
    let text = counter.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok()).unwrap_or(0)
}
