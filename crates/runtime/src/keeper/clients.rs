//! Clients that are attached to a container.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, write};

use super::protocol::AttachedStreams;
use crate::logs::Stream;

/// Output that a client has not read yet, beyond what its pipe holds. A client that falls further behind is detached.
const MAX_UNSENT_BYTES: usize = 4 << 20;
const MAX_CLIENTS: usize = 32;

pub(super) type ClientId = u64;

#[derive(Debug, Default)]
pub(super) struct Clients {
    clients: BTreeMap<ClientId, Client>,
    next: ClientId,
}

#[derive(Debug)]
struct Client {
    input: Option<OwnedFd>,
    outputs: [Option<ClientOutput>; 2],
}

#[derive(Debug)]
struct ClientOutput {
    pipe: OwnedFd,
    unsent: VecDeque<u8>,
    /// Nothing more follows: the pipe is closed when everything was sent.
    is_complete: bool,
}

/// A descriptor of a client that is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientSource {
    Input,
    Output(Stream),
}

impl Clients {
    /// Adds a client with its descriptors, in the order of the fields of `streams`.
    pub(super) fn add(
        &mut self,
        streams: AttachedStreams,
        descriptors: Vec<OwnedFd>,
    ) -> Result<ClientId, String> {
        if self.clients.len() >= MAX_CLIENTS {
            return Err(format!("the container has {MAX_CLIENTS} clients already"));
        }
        if descriptors.len() != streams.count() {
            return Err(format!("{} descriptors are needed", streams.count()));
        }
        for descriptor in &descriptors {
            let set =
                fcntl_getfl(descriptor).and_then(|flags| fcntl_setfl(descriptor, flags | OFlags::NONBLOCK));
            set.map_err(|errno| format!("set flags of a descriptor: {errno}"))?;
        }
        let mut descriptors = descriptors.into_iter();
        let input = streams.stdin.then(|| descriptors.next()).flatten();
        let mut output = |chosen: bool| {
            let pipe = chosen.then(|| descriptors.next()).flatten()?;
            Some(ClientOutput { pipe, unsent: VecDeque::new(), is_complete: false })
        };
        let outputs = [output(streams.stdout), output(streams.stderr)];
        let id = self.next;
        self.next += 1;
        self.clients.insert(id, Client { input, outputs });
        Ok(id)
    }

    /// Descriptors to poll, each with its interest. A pipe without unsent output is polled for its end.
    pub(super) fn sources(
        &self,
        accepts_input: bool,
    ) -> impl Iterator<Item = (ClientId, ClientSource, BorrowedFd<'_>, Interest)> {
        self.clients.iter().flat_map(move |(id, client)| {
            let input = client.input.iter().filter(move |_| accepts_input);
            let input = input.map(|input| (*id, ClientSource::Input, input.as_fd(), Interest::Readable));
            let outputs = [Stream::Stdout, Stream::Stderr].into_iter().zip(&client.outputs);
            let outputs = outputs.filter_map(|(stream, output)| {
                let output = output.as_ref()?;
                let interest = if output.unsent.is_empty() { Interest::Closed } else { Interest::Writable };
                Some((*id, ClientSource::Output(stream), output.pipe.as_fd(), interest))
            });
            input.chain(outputs)
        })
    }

    /// Gives output to all clients.
    pub(super) fn send(&mut self, stream: Stream, bytes: &[u8]) {
        self.clients.retain(|_, client| client.send(stream, bytes).is_ok());
    }

    /// Serves a pipe that has space again, or that its reader has closed.
    pub(super) fn flush(&mut self, id: ClientId, stream: Stream) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let Some(slot) = client.outputs.get_mut(stream.index()) else { return };
        let ended = slot.as_mut().is_some_and(|output| output.flush().is_err() || output.has_no_reader());
        let sent = slot.as_ref().is_some_and(|output| output.is_complete && output.unsent.is_empty());
        if ended || sent {
            *slot = None;
        }
        self.remove_finished(id);
    }

    pub(super) fn input(&self, id: ClientId) -> Option<BorrowedFd<'_>> {
        self.clients.get(&id)?.input.as_ref().map(AsFd::as_fd)
    }

    pub(super) fn close_input(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.input = None;
        }
        self.remove_finished(id);
    }

    /// The container takes no more input.
    pub(super) fn close_inputs(&mut self) {
        for client in self.clients.values_mut() {
            client.input = None;
        }
        self.clients.retain(|_, client| !client.is_finished());
    }

    /// Ends the output of a client after what it has not read yet.
    pub(super) fn finish(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.finish();
        }
        self.remove_finished(id);
    }

    /// Ends the output of all clients.
    pub(super) fn finish_all(&mut self) {
        self.clients.values_mut().for_each(Client::finish);
        self.clients.retain(|_, client| !client.is_finished());
    }

    /// A client whose streams have all ended is removed.
    fn remove_finished(&mut self, id: ClientId) {
        if self.clients.get(&id).is_some_and(Client::is_finished) {
            self.clients.remove(&id);
        }
    }
}

/// The event that a descriptor is polled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interest {
    Readable,
    Writable,
    Closed,
}

/// The client does not read, or has left.
struct Detached;

impl Client {
    fn send(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), Detached> {
        let Some(slot) = self.outputs.get_mut(stream.index()) else { return Ok(()) };
        let Some(output) = slot else { return Ok(()) };
        if output.unsent.len() + bytes.len() > MAX_UNSENT_BYTES {
            return Err(Detached);
        }
        output.unsent.extend(bytes);
        if output.flush().is_err() {
            *slot = None;
        }
        if self.is_finished() { Err(Detached) } else { Ok(()) }
    }

    fn finish(&mut self) {
        self.input = None;
        for slot in &mut self.outputs {
            if let Some(output) = slot {
                output.is_complete = true;
                if output.unsent.is_empty() {
                    *slot = None;
                }
            }
        }
    }

    fn is_finished(&self) -> bool {
        self.input.is_none() && self.outputs.iter().all(Option::is_none)
    }
}

impl ClientOutput {
    /// Polled again, because output may have been sent since the event for which this client is served.
    fn has_no_reader(&self) -> bool {
        let mut pipe = [PollFd::new(&self.pipe, PollFlags::empty())];
        let polled = poll(&mut pipe, Some(&Timespec::default()));
        polled.is_ok() && pipe.iter().any(|pipe| !pipe.revents().is_empty())
    }

    /// Writes what the pipe takes.
    fn flush(&mut self) -> Result<(), Detached> {
        loop {
            let (next, _) = self.unsent.as_slices();
            if next.is_empty() {
                break;
            }
            match write(&self.pipe, next) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(_) => return Err(Detached),
            }
        }
        self.unsent = VecDeque::new();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;

    use rustix::pipe::{PipeFlags, pipe_with};

    use super::*;

    const STDOUT: AttachedStreams = AttachedStreams { stdin: false, stdout: true, stderr: false };

    fn client(clients: &mut Clients) -> (ClientId, File) {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        (clients.add(STDOUT, vec![writer]).unwrap(), File::from(reader))
    }

    #[test]
    fn client_that_does_not_read_is_detached_and_others_continue() {
        let mut clients = Clients::default();
        let (_, mut slow) = client(&mut clients);
        let chunk = [7; 64 * 1024];
        for _ in 0..65 {
            clients.send(Stream::Stdout, &chunk);
        }
        assert_eq!(clients.clients.len(), 1);
        let (_, mut quick) = client(&mut clients);
        clients.send(Stream::Stdout, &[8]);
        assert_eq!(clients.clients.len(), 1, "one pipe and four mebibytes are the limit");
        clients.finish_all();
        assert!(clients.clients.is_empty());
        let mut output = Vec::new();
        quick.read_to_end(&mut output).unwrap();
        assert_eq!(output, [8]);
        slow.read_to_end(&mut output).unwrap();
        assert_eq!(output.len(), 64 * 1024 + 1, "what was in the pipe is still delivered");
    }

    #[test]
    fn unsent_output_is_delivered_after_the_end() {
        let mut clients = Clients::default();
        let (id, mut reader) = client(&mut clients);
        clients.send(Stream::Stdout, &[7; 200_000]);
        clients.finish(id);
        assert_eq!(clients.clients.len(), 1);
        let mut output = Vec::new();
        while !clients.clients.is_empty() {
            let mut chunk = [0; 64 * 1024];
            let read = reader.read(&mut chunk).unwrap();
            output.extend_from_slice(&chunk[..read]);
            clients.flush(id, Stream::Stdout);
        }
        reader.read_to_end(&mut output).unwrap();
        assert_eq!(output, vec![7; 200_000]);
    }

    #[test]
    fn client_without_unsent_output_stays_when_it_is_served() {
        let mut clients = Clients::default();
        let (id, _reader) = client(&mut clients);
        clients.flush(id, Stream::Stdout);
        assert_eq!(clients.clients.len(), 1);
    }

    #[test]
    fn client_that_closes_its_pipe_is_removed() {
        let mut clients = Clients::default();
        let (id, reader) = client(&mut clients);
        drop(reader);
        clients.flush(id, Stream::Stdout);
        assert!(clients.clients.is_empty());
        let (_, reader) = client(&mut clients);
        drop(reader);
        clients.send(Stream::Stdout, b"x");
        assert!(clients.clients.is_empty());
    }

    #[test]
    fn number_of_clients_and_descriptors_is_checked() {
        let mut clients = Clients::default();
        let readers: Vec<_> = (0..MAX_CLIENTS).map(|_| client(&mut clients)).collect();
        let (_reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        assert!(clients.add(STDOUT, vec![writer]).is_err());
        drop(readers);
        assert!(Clients::default().add(STDOUT, Vec::new()).is_err());
    }
}
