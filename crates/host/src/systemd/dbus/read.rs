//! Parses received messages, in either byte order.

const HEADER_BYTES: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Call,
    Return,
    Error,
    Signal,
    /// Of a later version of the protocol; ignored.
    Unknown,
}

/// A complete received message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) kind: Kind,
    /// Serial number of the call that this message replies to.
    pub(crate) reply_serial: Option<u32>,
    pub(crate) path: Option<String>,
    pub(crate) interface: Option<String>,
    pub(crate) member: Option<String>,
    pub(crate) error: Option<String>,
    /// Set by the bus, so it can be trusted.
    pub(crate) sender: Option<String>,
    /// Types of the body.
    pub(crate) signature: String,
    /// Number of file descriptors sent with the message.
    pub(crate) descriptors: usize,
    order: Order,
    body: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

/// Number of bytes after the first 16 bytes of a message; `None` if it is not a message.
pub(crate) fn remaining_bytes(start: &[u8]) -> Option<usize> {
    let order = Order::of(start)?;
    let fields = order.number_at(start, 12)?;
    let body = order.number_at(start, 4)?;
    fields.checked_next_multiple_of(8)?.checked_add(body)
}

impl Message {
    /// Parses a complete message; `None` if it is malformed.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let order = Order::of(bytes)?;
        let fields_end = HEADER_BYTES.checked_add(order.number_at(bytes, 12)?)?;
        let body = bytes.get(fields_end.checked_next_multiple_of(8)?..)?.to_vec();
        let mut message = Self {
            kind: match bytes.get(1)? {
                1 => Kind::Call,
                2 => Kind::Return,
                3 => Kind::Error,
                4 => Kind::Signal,
                _ => Kind::Unknown,
            },
            reply_serial: None,
            path: None,
            interface: None,
            member: None,
            error: None,
            sender: None,
            signature: String::new(),
            descriptors: 0,
            order,
            body,
        };
        let mut fields = Cursor { order, bytes: bytes.get(..fields_end)?, position: HEADER_BYTES };
        while fields.position < fields_end {
            message.take_field(&mut fields)?;
        }
        Some(message)
    }

    fn take_field(&mut self, fields: &mut Cursor<'_>) -> Option<()> {
        fields.align(8)?;
        let code = fields.byte()?;
        let kind = fields.signature()?;
        match (code, kind.as_str()) {
            (1, "o") => self.path = Some(fields.text()?),
            (2, "s") => self.interface = Some(fields.text()?),
            (3, "s") => self.member = Some(fields.text()?),
            (4, "s") => self.error = Some(fields.text()?),
            (5, "u") => self.reply_serial = Some(fields.number()?),
            (7, "s") => self.sender = Some(fields.text()?),
            (8, "g") => self.signature = fields.signature()?,
            (9, "u") => self.descriptors = usize::try_from(fields.number()?).ok()?,
            (_, "s" | "o") => drop(fields.text()?),
            (_, "g") => drop(fields.signature()?),
            (_, "u") => drop(fields.number()?),
            _ => return None,
        }
        Some(())
    }

    pub(crate) fn body(&self) -> Cursor<'_> {
        Cursor { order: self.order, bytes: &self.body, position: 0 }
    }

    /// The name and message of an error reply.
    pub(crate) fn failure(&self) -> String {
        let name = self.error.as_deref().unwrap_or("no reason given");
        let text = if self.signature.starts_with('s') { self.body().text() } else { None };
        match text {
            Some(text) if !text.is_empty() => format!("{name}: {text}"),
            Some(_) | None => name.to_owned(),
        }
    }
}

/// Reads aligned values in sequence; `None` at the end or for an invalid value.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    order: Order,
    bytes: &'a [u8],
    position: usize,
}

impl Cursor<'_> {
    fn align(&mut self, to: usize) -> Option<()> {
        self.position = self.position.checked_next_multiple_of(to)?;
        Some(())
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.position)?;
        self.position += 1;
        Some(byte)
    }

    fn take(&mut self, length: usize) -> Option<&[u8]> {
        let end = self.position.checked_add(length)?;
        let taken = self.bytes.get(self.position..end)?;
        self.position = end;
        Some(taken)
    }

    pub(crate) fn number(&mut self) -> Option<u32> {
        self.align(4)?;
        let number = self.order.read_u32(self.bytes.get(self.position..)?)?;
        self.position += 4;
        Some(number)
    }

    pub(crate) fn long_number(&mut self) -> Option<u64> {
        self.align(8)?;
        let order = self.order;
        let bytes: [u8; 8] = self.take(8)?.try_into().ok()?;
        Some(match order {
            Order::Little => u64::from_le_bytes(bytes),
            Order::Big => u64::from_be_bytes(bytes),
        })
    }

    pub(crate) fn flag(&mut self) -> Option<bool> {
        match self.number()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.number()?).ok()?;
        let text = String::from_utf8(self.take(length)?.to_vec()).ok()?;
        self.byte()?;
        Some(text)
    }

    pub(crate) fn signature(&mut self) -> Option<String> {
        let length = usize::from(self.byte()?);
        let text = String::from_utf8(self.take(length)?.to_vec()).ok()?;
        self.byte()?;
        Some(text)
    }
}

impl Order {
    fn of(bytes: &[u8]) -> Option<Self> {
        match bytes.first()? {
            b'l' => Some(Self::Little),
            b'B' => Some(Self::Big),
            _ => None,
        }
    }

    fn read_u32(self, bytes: &[u8]) -> Option<u32> {
        let bytes: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
        Some(match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        })
    }

    fn number_at(self, bytes: &[u8], offset: usize) -> Option<usize> {
        usize::try_from(self.read_u32(bytes.get(offset..)?)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::systemd::dbus::{Call, Writer};

    fn call(body: &Writer, signature: &str) -> Vec<u8> {
        let call = Call {
            destination: "org.example.There",
            path: "/org/example",
            interface: "org.example.Face",
            member: "Do",
            signature,
            body: &body.0,
        };
        call.message(7)
    }

    #[test]
    fn parses_a_written_message() {
        let mut body = Writer::texts(&["text"]);
        body.number(1);
        body.long_number(1 << 40);
        body.signature("t");
        let message = Message::read(&call(&body, "sbt")).unwrap();
        assert_eq!(message.kind, Kind::Call);
        assert_eq!(message.path.as_deref(), Some("/org/example"));
        assert_eq!(message.interface.as_deref(), Some("org.example.Face"));
        assert_eq!((message.member.as_deref(), &*message.signature), (Some("Do"), "sbt"));
        let mut body = message.body();
        assert_eq!((body.text().as_deref(), body.flag()), (Some("text"), Some(true)));
        assert_eq!((body.long_number(), body.signature().as_deref()), (Some(1 << 40), Some("t")));
        assert_eq!(body.number(), None);
    }

    #[test]
    fn parses_big_endian_messages() {
        // A big-endian error: fields 4 (error name) and 5 (reply serial).
        let mut bytes = b"B\x03\x01\x01\0\0\0\0\0\0\0\x05\0\0\0\x14\x05\x01u\0\0\0\0\x09".to_vec();
        bytes.extend_from_slice(b"\x04\x01s\0\0\0\0\x03a.b\0\0\0\0\0");
        bytes.truncate(16 + 24);
        assert_eq!(remaining_bytes(&bytes[..16]), Some(24));
        let message = Message::read(&bytes).unwrap();
        assert_eq!((message.kind, message.reply_serial), (Kind::Error, Some(9)));
        assert_eq!(message.failure(), "a.b");
    }

    #[test]
    fn truncated_and_corrupt_messages_do_not_panic() {
        let whole = call(&Writer::texts(&["text"]), "s");
        for end in 0..whole.len() {
            // Must not panic.
            let _ = Message::read(&whole[..end]).map(|message| message.body().text());
        }
        for at in 0..whole.len() {
            let mut broken = whole.clone();
            broken[at] = 0xff;
            let _ = remaining_bytes(&broken);
            let _ = Message::read(&broken).map(|message| message.body().text());
        }
        assert_eq!(remaining_bytes(b"x..............."), None);
        assert_eq!(Message::read(b""), None);
    }
}
