//! Sockets to the kernel. A socket belongs to the network namespace of the thread that opened it.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_send_buffer_size_force, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::{Message, find};

/// The kernel answers at once; this only ends the wait for an answer that never comes.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The kernel's largest part of an answer is 32 KiB.
const RECEIVE_BYTES: usize = 64 * 1024;
/// A whole table of rules is one message.
const SEND_BUFFER_BYTES: usize = 16 * 1024 * 1024;
/// More parts of one answer mean an error in this code.
const MAX_PARTS: usize = 100_000;

const HEADER_BYTES: usize = 16;
const ERROR: u16 = libc::NLMSG_ERROR as u16;
const DONE: u16 = libc::NLMSG_DONE as u16;
/// The kernel's own text about an error.
const ERROR_TEXT: u16 = 1;
/// Set if attributes follow the error, and if the request is not repeated before them.
const HAS_ATTRIBUTES: u16 = 0x200;
const IS_CAPPED: u16 = 0x100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::network) enum NetlinkProtocol {
    Route,
    Netfilter,
}

/// The kernel refused a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::network) struct NetlinkError {
    pub(in crate::network) errno: Errno,
    /// The kernel's explanation, often empty.
    pub(in crate::network) detail: String,
}

impl From<Errno> for NetlinkError {
    fn from(errno: Errno) -> Self {
        Self { errno, detail: String::new() }
    }
}

#[derive(Debug)]
pub(in crate::network) struct NetlinkSocket {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl NetlinkSocket {
    pub(in crate::network) fn open(protocol: NetlinkProtocol) -> Result<Self, Errno> {
        Self::open_with_groups(protocol, 0)
    }

    /// Also receives the events of the groups in this bit mask.
    pub(in crate::network) fn open_with_groups(
        protocol: NetlinkProtocol,
        groups: u32,
    ) -> Result<Self, Errno> {
        let protocol = match protocol {
            NetlinkProtocol::Route => None,
            NetlinkProtocol::Netfilter => Some(netlink::NETFILTER),
        };
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
        set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER_TIMEOUT))?;
        if protocol.is_some() {
            set_socket_send_buffer_size_force(&socket, SEND_BUFFER_BYTES)?;
        }
        set_option(&socket, libc::NETLINK_EXT_ACK)?;
        set_option(&socket, libc::NETLINK_CAP_ACK)?;
        Ok(Self { socket, sequence: 0, buffer: vec![0; RECEIVE_BYTES] })
    }

    /// Sends a request with `NLM_F_ACK` and waits until the kernel has executed it.
    pub(in crate::network) fn request(&mut self, message: Message) -> Result<(), NetlinkError> {
        self.ask(message, |_| {})
    }

    /// Sends a request, and hands over the content of each message of the answer.
    pub(in crate::network) fn ask(
        &mut self,
        message: Message,
        mut each: impl FnMut(&[u8]),
    ) -> Result<(), NetlinkError> {
        self.sequence += 1;
        let sequence = self.sequence;
        let request = message.encode(sequence).ok_or(Errno::MSGSIZE)?;
        self.send(&request)?;
        self.receive(|received| match received {
            Received { sequence: other, .. } if other != sequence => None,
            Received { kind: ERROR, error, .. } => Some(error),
            Received { kind: DONE, .. } => Some(Ok(())),
            Received { content, .. } => {
                each(content);
                None
            }
        })
    }

    /// Sends messages as one transaction of a netfilter subsystem: the kernel applies all or none.
    pub(in crate::network) fn transact(&mut self, messages: Vec<Message>) -> Result<(), NetlinkError> {
        let first = self.sequence + 1;
        let mut request = Vec::new();
        for message in messages {
            self.sequence += 1;
            request.extend(message.encode(self.sequence).ok_or(Errno::MSGSIZE)?);
        }
        // Only the last message before the end of the batch asks for an answer; errors come before it.
        let answered = self.sequence - 1;
        self.send(&request)?;
        self.receive(|received| match received {
            Received { sequence, .. } if sequence < first => None,
            Received { kind: ERROR, error: Err(error), .. } => Some(Err(error)),
            Received { kind: ERROR, sequence, .. } if sequence == answered => Some(Ok(())),
            Received { .. } => None,
        })
    }

    /// Reads events and answers until `each` returns a result.
    pub(in crate::network) fn receive(
        &mut self,
        mut each: impl FnMut(Received<'_>) -> Option<Result<(), NetlinkError>>,
    ) -> Result<(), NetlinkError> {
        for _ in 0..MAX_PARTS {
            let received = rustix::io::retry_on_intr(|| {
                rustix::net::recv(&self.socket, &mut self.buffer[..], RecvFlags::TRUNC)
            });
            let (_, length) = received?;
            let mut rest = self.buffer.get(..length).ok_or(Errno::MSGSIZE)?;
            while let Some((received, next)) = Received::decode(rest) {
                if let Some(result) = each(received) {
                    return result;
                }
                rest = next;
            }
        }
        Err(Errno::OVERFLOW.into())
    }

    fn send(&self, request: &[u8]) -> Result<(), Errno> {
        let sent = rustix::io::retry_on_intr(|| {
            rustix::net::sendto(&self.socket, request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))
        })?;
        if sent == request.len() { Ok(()) } else { Err(Errno::MSGSIZE) }
    }
}

/// One message from the kernel.
#[derive(Debug)]
pub(in crate::network) struct Received<'a> {
    pub(in crate::network) kind: u16,
    sequence: u32,
    /// Behind the header.
    pub(in crate::network) content: &'a [u8],
    /// Of an error message; the number 0 in it is success.
    error: Result<(), NetlinkError>,
}

impl<'a> Received<'a> {
    /// The first message, and the bytes behind it.
    fn decode(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (header, _) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let [l0, l1, l2, l3, k0, k1, f0, f1, s0, s1, s2, s3, ..] = *header;
        let length = usize::try_from(u32::from_ne_bytes([l0, l1, l2, l3])).ok()?;
        let kind = u16::from_ne_bytes([k0, k1]);
        let flags = u16::from_ne_bytes([f0, f1]);
        let content = bytes.get(HEADER_BYTES..length)?;
        // The end of a list also carries an error number.
        let error = if kind == ERROR || kind == DONE { decode_error(flags, content) } else { Ok(()) };
        let kind = if kind == DONE && error.is_err() { ERROR } else { kind };
        let received = Self { kind, sequence: u32::from_ne_bytes([s0, s1, s2, s3]), content, error };
        Some((received, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
    }
}

fn decode_error(flags: u16, content: &[u8]) -> Result<(), NetlinkError> {
    let Some((number, rest)) = content.split_first_chunk() else { return Ok(()) };
    let number = i32::from_ne_bytes(*number);
    if number >= 0 {
        return Ok(());
    }
    let repeated = if flags & IS_CAPPED == 0 { request_length(rest) } else { HEADER_BYTES };
    let attributes = rest.get(repeated..).filter(|_| flags & HAS_ATTRIBUTES != 0).unwrap_or_default();
    let detail = find(attributes, ERROR_TEXT).unwrap_or_default();
    let detail = String::from_utf8_lossy(detail).trim_end_matches('\0').to_owned();
    let errno = if number > -4096 { Errno::from_raw_os_error(-number) } else { Errno::IO };
    Err(NetlinkError { errno, detail })
}

fn request_length(request: &[u8]) -> usize {
    let length = request.split_first_chunk().map_or(0, |(length, _)| u32::from_ne_bytes(*length));
    usize::try_from(length).unwrap_or(usize::MAX)
}

/// Enables an option; rustix has no call for those of netlink.
fn set_option(socket: &OwnedFd, option: i32) -> Result<(), Errno> {
    let enabled: libc::c_int = 1;
    let length = libc::socklen_t::try_from(size_of_val(&enabled)).map_err(|_| Errno::INVAL)?;
    #[expect(unsafe_code, reason = "system call without a safe wrapper")]
    // SAFETY: the value is valid for its length during the call.
    let result = unsafe {
        let value = (&raw const enabled).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_NETLINK, option, value, length)
    };
    if result == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(kind: u16, flags: u16, content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(HEADER_BYTES + content.len()).unwrap();
        let header = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 8]];
        [header.concat(), content.to_vec()].concat()
    }

    #[test]
    fn decodes_errors_with_their_explanation() {
        let text = b"Invalid link";
        let attribute = [&16u16.to_ne_bytes()[..], &ERROR_TEXT.to_ne_bytes(), text].concat();
        let errno = (-22i32).to_ne_bytes();
        let capped = [&errno[..], &[0; HEADER_BYTES], &attribute].concat();
        let bytes = message(ERROR, HAS_ATTRIBUTES | IS_CAPPED, &capped);
        let (received, rest) = Received::decode(&bytes).unwrap();
        assert!(rest.is_empty());
        let expected = NetlinkError { errno: Errno::INVAL, detail: "Invalid link".to_owned() };
        assert_eq!(received.error, Err(expected));

        let repeated = [&errno[..], &message(16, 0, &[1; 12]), &attribute].concat();
        let bytes = message(ERROR, HAS_ATTRIBUTES, &repeated);
        assert_eq!(Received::decode(&bytes).unwrap().0.error.unwrap_err().detail, "Invalid link");
    }

    #[test]
    fn end_of_list_with_error_is_an_error() {
        let bytes = message(DONE, 0, &(-105i32).to_ne_bytes());
        assert_eq!(Received::decode(&bytes).unwrap().0.kind, ERROR);
        let bytes = message(DONE, 0, &0i32.to_ne_bytes());
        assert_eq!(Received::decode(&bytes).unwrap().0.kind, DONE);
    }

    proptest! {
        #[test]
        fn decodes_any_bytes_without_panic(bytes: Vec<u8>, flags: u16) {
            let _ = Received::decode(&bytes);
            let _ = decode_error(flags, &bytes);
        }
    }
}
