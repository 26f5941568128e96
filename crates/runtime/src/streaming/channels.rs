//! Channels of processes in WebSocket messages: the first byte names the channel, or the first digit before base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut, Bytes, BytesMut};

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const RESIZE: u8 = 4;
const CLOSE: u8 = 255;

/// Content of a channel from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputChannel {
    Stdout,
    Stderr,
    Status,
}

/// Meaning of a message from the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClientMessage {
    Input(Bytes),
    InputEnd,
    Resize(Bytes),
    /// Unused channels and empty messages.
    Nothing,
    /// Not a message of this protocol.
    Invalid,
}

/// The negotiated protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChannelProtocol {
    pub(super) name: &'static str,
    is_base64: bool,
    /// The status is JSON.
    pub(super) has_status: bool,
    /// A client can end its input without closing the connection.
    has_close: bool,
}

const PROTOCOLS: &[ChannelProtocol] = &[
    ChannelProtocol { name: "", is_base64: false, has_status: false, has_close: false },
    ChannelProtocol { name: "channel.k8s.io", is_base64: false, has_status: false, has_close: false },
    ChannelProtocol { name: "base64.channel.k8s.io", is_base64: true, has_status: false, has_close: false },
    ChannelProtocol { name: "v4.channel.k8s.io", is_base64: false, has_status: true, has_close: false },
    ChannelProtocol { name: "v4.base64.channel.k8s.io", is_base64: true, has_status: true, has_close: false },
    ChannelProtocol { name: "v5.channel.k8s.io", is_base64: false, has_status: true, has_close: true },
];

impl ChannelProtocol {
    /// The first of the client's protocols that the server knows. A client that names none gets the first version.
    pub(super) fn negotiate(offered: &[&str]) -> Option<Self> {
        let known = |name: &str| PROTOCOLS.iter().copied().find(|protocol| protocol.name == name);
        if offered.is_empty() { known("") } else { offered.iter().find_map(|name| known(name)) }
    }

    /// Reads the payload of a message.
    pub(super) fn read(&self, payload: &Bytes) -> ClientMessage {
        let Some((first, _)) = payload.split_first() else { return ClientMessage::Nothing };
        let (channel, content) = if self.is_base64 {
            let Some(channel) = first.checked_sub(b'0').filter(|digit| *digit < 10) else {
                return ClientMessage::Invalid;
            };
            let Ok(content) = STANDARD.decode(payload.slice(1..)) else { return ClientMessage::Invalid };
            (channel, Bytes::from(content))
        } else {
            (*first, payload.slice(1..))
        };
        match channel {
            CLOSE if self.has_close && content.first() == Some(&STDIN) => ClientMessage::InputEnd,
            STDIN if !content.is_empty() => ClientMessage::Input(content),
            RESIZE if !content.is_empty() => ClientMessage::Resize(content),
            _ => ClientMessage::Nothing,
        }
    }

    /// The payload of a message, and whether it is text.
    pub(super) fn write(&self, channel: OutputChannel, content: &[u8]) -> (Bytes, bool) {
        let number = match channel {
            OutputChannel::Stdout => STDOUT,
            OutputChannel::Stderr => STDERR,
            OutputChannel::Status => STATUS,
        };
        let mut payload = BytesMut::with_capacity(1 + content.len());
        if self.is_base64 {
            payload.put_u8(b'0' + number);
            payload.put_slice(STANDARD.encode(content).as_bytes());
        } else {
            payload.put_u8(number);
            payload.put_slice(content);
        }
        (payload.freeze(), self.is_base64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn protocol(name: &str) -> ChannelProtocol {
        ChannelProtocol::negotiate(&[name]).unwrap()
    }

    #[test]
    fn first_known_protocol_of_the_client_is_chosen() {
        let chosen = |offered: &[&str]| ChannelProtocol::negotiate(offered).map(|protocol| protocol.name);
        assert_eq!(chosen(&[]), Some(""));
        assert_eq!(
            chosen(&["v9.channel.k8s.io", "v5.channel.k8s.io", "v4.channel.k8s.io"]),
            Some("v5.channel.k8s.io")
        );
        assert_eq!(chosen(&["v4.channel.k8s.io", "v5.channel.k8s.io"]), Some("v4.channel.k8s.io"));
        assert_eq!(chosen(&["v9.channel.k8s.io"]), None);
    }

    #[test]
    fn messages_are_read_by_channel() {
        let v5 = protocol("v5.channel.k8s.io");
        let read = |bytes: &'static [u8]| v5.read(&Bytes::from_static(bytes));
        assert_eq!(read(b"\0text"), ClientMessage::Input(Bytes::from_static(b"text")));
        assert_eq!(read(b"\x04{}"), ClientMessage::Resize(Bytes::from_static(b"{}")));
        assert_eq!(read(&[255, 0]), ClientMessage::InputEnd);
        for nothing in [&b""[..], b"\0", b"\x04", b"\x01output", b"\x09x", &[255], &[255, 1]] {
            assert_eq!(read(nothing), ClientMessage::Nothing, "{nothing:?}");
        }
    }

    #[test]
    fn only_version_5_can_end_input() {
        let read = |name| protocol(name).read(&Bytes::from_static(&[255, 0]));
        assert_eq!(read("v4.channel.k8s.io"), ClientMessage::Nothing);
        assert_eq!(read("v5.channel.k8s.io"), ClientMessage::InputEnd);
    }

    #[test]
    fn base64_messages_are_text_with_a_digit() {
        let base64 = protocol("v4.base64.channel.k8s.io");
        let read = |text: &'static str| base64.read(&Bytes::from_static(text.as_bytes()));
        assert_eq!(read("0bHM="), ClientMessage::Input(Bytes::from_static(b"ls")));
        assert_eq!(read("0!"), ClientMessage::Invalid);
        assert_eq!(read("xbHM="), ClientMessage::Invalid);
        assert_eq!(base64.write(OutputChannel::Stderr, b"ls"), (Bytes::from_static(b"2bHM="), true));
        let plain = protocol("v4.channel.k8s.io");
        assert_eq!(plain.write(OutputChannel::Status, b"ls"), (Bytes::from_static(b"\x03ls"), false));
    }

    proptest! {
        #[test]
        fn any_message_is_read_without_panic_and_input_survives(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for protocol in PROTOCOLS {
                let _ = protocol.read(&Bytes::from(bytes.clone()));
                // The client's input has the same form as the server's output, on another channel.
                let (payload, is_text) = protocol.write(OutputChannel::Stdout, &bytes);
                let mut payload = payload.to_vec();
                payload[0] = if is_text { b'0' } else { 0 };
                let expected = if bytes.is_empty() {
                    ClientMessage::Nothing
                } else {
                    ClientMessage::Input(Bytes::from(bytes.clone()))
                };
                prop_assert_eq!(protocol.read(&Bytes::from(payload)), expected);
            }
        }
    }
}
