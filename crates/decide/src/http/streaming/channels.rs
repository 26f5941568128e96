/// A stream, encoded as the first byte of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    Stdin = 0,
    Stdout = 1,
    Stderr = 2,
    /// The exit status.
    Status = 3,
    /// Terminal sizes.
    Resize = 4,
}

const CLOSE: u8 = 255;

impl Channel {
    pub fn number(self) -> u8 {
        self as u8
    }

    fn of(number: u8) -> Option<Self> {
        let all = [Self::Stdin, Self::Stdout, Self::Stderr, Self::Status, Self::Resize];
        all.into_iter().find(|channel| channel.number() == number)
    }
}

/// A message from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelMessage<'a> {
    Bytes(Channel, &'a [u8]),
    /// The client closes a stream.
    Close(Channel),
    /// No content, or a stream that does not exist.
    Nothing,
    /// A protocol violation: the connection must be closed.
    Broken,
}

impl<'a> ChannelMessage<'a> {
    pub fn read(message: &'a [u8]) -> Self {
        match message {
            [] => Self::Nothing,
            [CLOSE, channel] => Channel::of(*channel).map_or(Self::Broken, Self::Close),
            [CLOSE, ..] => Self::Broken,
            [channel, bytes @ ..] => {
                Channel::of(*channel).map_or(Self::Nothing, |channel| Self::Bytes(channel, bytes))
            }
        }
    }
}

/// The message that carries bytes of a stream to the client.
pub fn to_client(channel: Channel, bytes: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(bytes.len() + 1);
    message.push(channel.number());
    message.extend_from_slice(bytes);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_byte_selects_the_stream() {
        for (message, expected) in [
            (&b""[..], ChannelMessage::Nothing),
            (b"\x00hi", ChannelMessage::Bytes(Channel::Stdin, b"hi")),
            (b"\x04{}", ChannelMessage::Bytes(Channel::Resize, b"{}")),
            (b"\x00", ChannelMessage::Bytes(Channel::Stdin, b"")),
            (b"\x05x", ChannelMessage::Nothing),
            (b"\xff\x00", ChannelMessage::Close(Channel::Stdin)),
            (b"\xff", ChannelMessage::Broken),
            (b"\xff\x09", ChannelMessage::Broken),
            (b"\xff\x00x", ChannelMessage::Broken),
        ] {
            assert_eq!(ChannelMessage::read(message), expected, "{message:?}");
        }
        assert_eq!(to_client(Channel::Stdout, b"hi"), b"\x01hi");
    }
}
