//! The standard streams of a container: its output, its input, and the clients that are attached to both.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, fcntl_setfl};
use rustix::io::{Errno, fcntl_dupfd_cloexec, read};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::termios::{Winsize, tcsetwinsize};

use super::clients::{ClientId, ClientSource, Clients, Interest};
use super::input::Input;
use super::output::{Output, STREAMS};
use super::protocol::{AttachedStreams, Stdin};
use crate::launcher::{LaunchError, Terminal, TerminalSize};
use crate::logs::Stream;

const INPUT_READ_BYTES: usize = 16 * 1024;

#[derive(Debug)]
pub(super) struct Streams {
    output: Output,
    input: Input,
    clients: Clients,
    stdin: Stdin,
    terminal: Terminal,
}

/// A descriptor of a container's streams that is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamSource {
    Output(Stream),
    Input,
    Client(ClientId, ClientSource),
}

impl Streams {
    /// Opens the log, and makes the standard streams of a container without a terminal.
    pub(super) fn new(
        log: Option<&Path>,
        stdin: Stdin,
        terminal: Terminal,
    ) -> Result<(Self, Option<[OwnedFd; 3]>), LaunchError> {
        let make = || match terminal {
            Terminal::New => Ok(Pipes { outputs: [None, None], input: None, stdio: None }),
            Terminal::None => make_pipes(stdin),
        };
        let pipes =
            make().map_err(|errno| LaunchError::Message(format!("make standard streams: {errno}")))?;
        let output = Output::new(log, pipes.outputs)?;
        let input = Input::new(pipes.input);
        Ok((Self { output, input, clients: Clients::default(), stdin, terminal }, pipes.stdio))
    }

    /// Takes the master side of the terminal, which does not block.
    pub(super) fn set_terminal(&mut self, master: OwnedFd) -> Result<(), LaunchError> {
        let copy = fcntl_dupfd_cloexec(&master, 3)
            .map_err(|errno| LaunchError::Message(format!("copy the descriptor of the terminal: {errno}")))?;
        self.input = Input::new(Some(copy));
        self.output.set_terminal(master);
        Ok(())
    }

    pub(super) fn resize(&self, size: TerminalSize) -> Result<(), String> {
        let master = self.output.source(Stream::Stdout).filter(|_| self.terminal == Terminal::New);
        let master = master.ok_or("the container has no terminal")?;
        let size = Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(master, size).map_err(|errno| format!("set the size of the terminal: {errno}"))
    }

    pub(super) fn attach(
        &mut self,
        streams: AttachedStreams,
        descriptors: Vec<OwnedFd>,
    ) -> Result<(), String> {
        if self.terminal == Terminal::New && streams.stderr {
            return Err("a container with a terminal has no standard error".to_owned());
        }
        let client = self.clients.add(streams, descriptors)?;
        if !self.input.is_open() {
            self.clients.close_input(client);
        }
        Ok(())
    }

    pub(super) fn sources(&self) -> Vec<(StreamSource, BorrowedFd<'_>, Interest)> {
        let outputs = STREAMS.into_iter().filter_map(|stream| {
            Some((StreamSource::Output(stream), self.output.source(stream)?, Interest::Readable))
        });
        let input = self.input.waits_for_space();
        let input = input.map(|target| (StreamSource::Input, target, Interest::Writable));
        let clients = self.clients.sources(self.input.accepts_more());
        let clients = clients.map(|(id, source, descriptor, interest)| {
            (StreamSource::Client(id, source), descriptor, interest)
        });
        outputs.chain(input).chain(clients).collect()
    }

    pub(super) fn serve(&mut self, source: StreamSource, buffer: &mut Vec<u8>) {
        match source {
            StreamSource::Output(stream) => {
                self.output.read(stream, &mut self.clients, buffer);
                if self.terminal == Terminal::New && self.output.is_closed() {
                    self.close_input();
                }
            }
            StreamSource::Input => self.flush_input(),
            StreamSource::Client(id, ClientSource::Output(stream)) => self.clients.flush(id, stream),
            StreamSource::Client(id, ClientSource::Input) => self.read_client(id),
        }
    }

    fn read_client(&mut self, id: ClientId) {
        // The container may have closed its input since the descriptors were collected.
        let Some(input) = self.clients.input(id).filter(|_| self.input.accepts_more()) else { return };
        let mut buffer = [0; INPUT_READ_BYTES];
        match read(input, &mut buffer) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Ok(0) | Err(_) => self.end_client_input(id),
            Ok(bytes) => {
                self.input.send(buffer.get(..bytes).unwrap_or_default());
                self.close_unused_inputs();
            }
        }
    }

    /// The client has closed its input. With `Once` that ends the container's input; otherwise it ends the client's session.
    fn end_client_input(&mut self, id: ClientId) {
        if self.stdin == Stdin::Once && self.terminal == Terminal::None {
            self.clients.close_input(id);
            self.close_input();
        } else {
            self.clients.finish(id);
        }
    }

    fn flush_input(&mut self) {
        self.input.flush();
        self.close_unused_inputs();
    }

    fn close_unused_inputs(&mut self) {
        if !self.input.is_open() {
            self.clients.close_inputs();
        }
    }

    fn close_input(&mut self) {
        self.input.close();
        self.clients.close_inputs();
    }

    /// Whether all output was read.
    pub(super) fn is_closed(&self) -> bool {
        self.output.is_closed()
    }

    /// Takes what is still in the pipes and closes them. Clients get what they have not read yet, and then the end.
    pub(super) fn close(&mut self, buffer: &mut Vec<u8>) {
        self.close_input();
        self.output.close(&mut self.clients, buffer);
        self.clients.finish_all();
    }

    pub(super) fn reopen_log(&mut self) -> Result<(), String> {
        self.output.reopen_log()
    }
}

struct Pipes {
    outputs: [Option<OwnedFd>; 2],
    input: Option<OwnedFd>,
    /// For the container.
    stdio: Option<[OwnedFd; 3]>,
}

fn make_pipes(stdin: Stdin) -> rustix::io::Result<Pipes> {
    let (out_reader, out_writer) = pipe_with(PipeFlags::CLOEXEC)?;
    let (error_reader, error_writer) = pipe_with(PipeFlags::CLOEXEC)?;
    fcntl_setfl(&out_reader, OFlags::NONBLOCK)?;
    fcntl_setfl(&error_reader, OFlags::NONBLOCK)?;
    let (in_reader, input) = match stdin {
        Stdin::Closed => {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            (rustix::fs::open("/dev/null", flags, Mode::empty())?, None)
        }
        Stdin::Open | Stdin::Once => {
            let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
            fcntl_setfl(&writer, OFlags::NONBLOCK)?;
            (reader, Some(writer))
        }
    };
    Ok(Pipes {
        outputs: [Some(out_reader), Some(error_reader)],
        input,
        stdio: Some([in_reader, out_writer, error_writer]),
    })
}
