//! The keeper's only thread: waits for descriptors and serves them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, WaitId, WaitIdOptions, chdir, getpid, set_child_subreaper, set_dumpable_behavior,
    setsid, umask, waitid,
};

use super::clients::Interest;
use super::connection::{Closed, Connection};
use super::container::Container;
use super::protocol::{FailureKind, Message, Request, Response, VERSION};
use super::start::{READY, SOCKET};
use super::streams::StreamSource;
use super::{exits, requests};
use crate::launcher::{ended_child, exit_signals};

pub(super) struct Keeper {
    folder: PathBuf,
    listener: UnixListener,
    child_signals: OwnedFd,
    connections: Vec<Connection>,
    pub(super) containers: BTreeMap<String, Container>,
    pub(super) shut_down: bool,
    buffer: Vec<u8>,
}

/// What a descriptor belongs to.
#[derive(Clone)]
enum Source {
    Listener,
    ChildSignals,
    Connection(usize),
    Stream(String, StreamSource),
    FirstProcess(String),
    Exec(String, String),
}

/// Runs until the runtime orders the end.
pub(super) fn run(folder: &Path) -> io::Result<()> {
    // A container must not read this process's memory or descriptors through /proc.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    set_child_subreaper(Some(getpid()))?;
    // Fails if this process leads a session already.
    let _ = setsid();
    umask(Mode::from_raw_mode(0o077));
    chdir("/")?;
    exits::make_folder(folder)?;
    let listener = listen(&folder.join(SOCKET))?;
    let mut keeper = Keeper {
        folder: folder.to_owned(),
        listener,
        child_signals: exit_signals()?,
        connections: Vec::new(),
        containers: BTreeMap::new(),
        shut_down: false,
        buffer: Vec::new(),
    };
    umask(Mode::from_raw_mode(0o022));
    announce()?;
    while !keeper.shut_down {
        keeper.serve()?;
    }
    fs::remove_file(folder.join(SOCKET))
}

/// The socket is in a folder that only root may enter.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Tells the starter that requests are accepted, and lets go of its pipe.
fn announce() -> io::Result<()> {
    rustix::io::write(rustix::stdio::stdout(), READY)?;
    let null = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDWR, Mode::empty())?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

impl Keeper {
    fn serve(&mut self) -> io::Result<()> {
        for source in self.wait()? {
            self.serve_source(source);
        }
        self.reap_orphans();
        self.finish_containers();
        // An idle keeper keeps no buffer.
        self.buffer = Vec::new();
        Ok(())
    }

    /// Sleeps until something happens, and lists the sources to serve.
    fn wait(&self) -> io::Result<Vec<Source>> {
        let mut sources = vec![Source::Listener, Source::ChildSignals];
        let mut descriptors =
            vec![PollFd::new(&self.listener, PollFlags::IN), PollFd::new(&self.child_signals, PollFlags::IN)];
        for (index, connection) in self.connections.iter().enumerate() {
            let out = if connection.has_unsent() { PollFlags::OUT } else { PollFlags::empty() };
            sources.push(Source::Connection(index));
            descriptors.push(PollFd::from_borrowed_fd(connection.socket(), PollFlags::IN | out));
        }
        for (id, container) in &self.containers {
            for (source, descriptor, interest) in container.streams.sources() {
                let flags = match interest {
                    Interest::Readable => PollFlags::IN,
                    Interest::Writable => PollFlags::OUT,
                    // Errors are always reported.
                    Interest::Closed => PollFlags::empty(),
                };
                sources.push(Source::Stream(id.clone(), source));
                descriptors.push(PollFd::from_borrowed_fd(descriptor, flags));
            }
            if let Some(process) = container.running_process() {
                sources.push(Source::FirstProcess(id.clone()));
                descriptors.push(PollFd::from_borrowed_fd(process.pidfd.as_fd(), PollFlags::IN));
            }
            for (exec, state) in &container.execs {
                sources.push(Source::Exec(id.clone(), exec.clone()));
                descriptors.push(PollFd::from_borrowed_fd(state.process.pidfd.as_fd(), PollFlags::IN));
            }
        }
        match poll(&mut descriptors, self.timeout().as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let ready =
            sources.into_iter().zip(&descriptors).filter(|(_, descriptor)| !descriptor.revents().is_empty());
        Ok(ready.map(|(source, _)| source).collect())
    }

    fn timeout(&self) -> Option<Timespec> {
        let deadline = self.containers.values().filter_map(Container::drain_deadline).min()?;
        let left = deadline.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        Timespec::try_from(left).ok()
    }

    fn serve_source(&mut self, source: Source) {
        match source {
            Source::Listener => self.accept(),
            Source::ChildSignals => {
                // The content is of no interest: all children are looked at.
                let _ = rustix::io::read(&self.child_signals, &mut [0; 1024][..]);
            }
            Source::Connection(index) => self.serve_connection(index),
            Source::Stream(id, source) => {
                if let Some(container) = self.containers.get_mut(&id) {
                    container.streams.serve(source, &mut self.buffer);
                }
            }
            Source::FirstProcess(id) => {
                if let Some(container) = self.containers.get_mut(&id) {
                    container.end_first_process();
                }
            }
            Source::Exec(id, exec) => {
                let exit = self.containers.get_mut(&id).and_then(|container| container.end_exec(&exec));
                if let Some(exit) = exit {
                    self.report(&Message::ExecExited { container: id, exec, exit });
                }
            }
        }
    }

    fn accept(&mut self) {
        if let Ok((socket, _)) = self.listener.accept() {
            self.connections.extend(Connection::new(socket.into()));
        }
    }

    fn serve_connection(&mut self, index: usize) {
        // The list may have become shorter since the descriptors were collected.
        if index >= self.connections.len() {
            return;
        }
        let mut connection = self.connections.swap_remove(index);
        if connection.flush().and_then(|()| self.serve_requests(&mut connection)).is_ok() {
            self.connections.push(connection);
            let last = self.connections.len() - 1;
            self.connections.swap(index, last);
        }
    }

    fn serve_requests(&mut self, connection: &mut Connection) -> Result<(), Closed> {
        connection.read()?;
        while let Some(request) = connection.next_request().map_err(|_| Closed)? {
            let descriptors = connection.take_descriptors(request.descriptors());
            if let Request::Hello { version } = request {
                connection.greeted = version == VERSION;
            } else if !connection.greeted {
                let message = format!("this keeper speaks version {VERSION}");
                let response = Response::Failed { kind: FailureKind::BadRequest, message };
                connection.send(&Message::Response(response))?;
                continue;
            }
            let response = requests::handle(self, request, descriptors);
            connection.send(&Message::Response(response))?;
        }
        Ok(())
    }

    /// Waits for processes that lost their parent; those with a record are left to it.
    fn reap_orphans(&self) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let known: Vec<_> = self
            .containers
            .values()
            .flat_map(|container| {
                container
                    .running_process()
                    .into_iter()
                    .chain(container.execs.values().map(|exec| &exec.process))
            })
            .map(|process| process.pid)
            .collect();
        while let Some(pid) = ended_child().filter(|pid| !known.contains(pid)) {
            let _ = waitid(WaitId::Pid(pid), options);
        }
    }

    fn finish_containers(&mut self) {
        let now = Instant::now();
        let finished: Vec<_> = self
            .containers
            .iter()
            .filter_map(|(id, container)| Some((id.clone(), container.finished(now)?.clone())))
            .collect();
        for (id, exit) in finished {
            // A full disk delays nothing: the record is still reported, and lost only if the keeper dies too.
            let _ = exits::write_exit(&self.folder, &id, &exit);
            if let Some(container) = self.containers.get_mut(&id) {
                container.set_exited(exit.clone(), &mut self.buffer);
            }
            self.report(&Message::ContainerExited { container: id, exit });
        }
    }

    fn report(&mut self, message: &Message) {
        self.connections.retain_mut(|connection| !connection.greeted || connection.send(message).is_ok());
    }
}
