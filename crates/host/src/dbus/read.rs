//! Messages as they are received, in the byte order of whoever wrote them.

const START: usize = 16;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Call,
    Return,
    Error,
    Signal,
    /// Of a later version of the protocol; to be passed over.
    Unknown,
}

/// A message that was received whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) kind: Kind,
    /// Which call it answers.
    pub(crate) answers: Option<u32>,
    pub(crate) path: Option<String>,
    pub(crate) interface: Option<String>,
    pub(crate) member: Option<String>,
    pub(crate) error: Option<String>,
    /// Who sent it; the bus vouches for it.
    pub(crate) sender: Option<String>,
    /// The types of the body.
    pub(crate) signature: String,
    /// How many file descriptors belong to it.
    pub(crate) descriptors: usize,
    order: Order,
    body: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

/// How much follows the first 16 bytes of a message; `None` for what is none.
pub(crate) fn rest_of(start: &[u8]) -> Option<usize> {
    let order = Order::of(start)?;
    let fields = order.number_at(start, 12)?;
    let body = order.number_at(start, 4)?;
    fields.checked_next_multiple_of(8)?.checked_add(body)
}

impl Message {
    /// Reads a whole message; `None` for what is none.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let order = Order::of(bytes)?;
        let fields_end = START.checked_add(order.number_at(bytes, 12)?)?;
        let body = bytes.get(fields_end.checked_next_multiple_of(8)?..)?.to_vec();
        let mut message = Self {
            kind: match bytes.get(1)? {
                1 => Kind::Call,
                2 => Kind::Return,
                3 => Kind::Error,
                4 => Kind::Signal,
                _ => Kind::Unknown,
            },
            answers: None,
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
        let mut fields = Cursor { order, bytes: bytes.get(..fields_end)?, at: START };
        while fields.at < fields_end {
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
            (5, "u") => self.answers = Some(fields.number()?),
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

    /// The body, from its first value on.
    pub(crate) fn body(&self) -> Cursor<'_> {
        Cursor { order: self.order, bytes: &self.body, at: 0 }
    }

    /// Why a call failed: the name of the error and the sentence that comes with it.
    pub(crate) fn failure(&self) -> String {
        let name = self.error.as_deref().unwrap_or("no reason given");
        let sentence = if self.signature.starts_with('s') { self.body().text() } else { None };
        match sentence {
            Some(sentence) if !sentence.is_empty() => format!("{name}: {sentence}"),
            Some(_) | None => name.to_owned(),
        }
    }
}

/// Reads values one after the other, each at its alignment; `None` at the end or for what is no such value.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    order: Order,
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn align(&mut self, to: usize) -> Option<()> {
        self.at = self.at.checked_next_multiple_of(to)?;
        Some(())
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn take(&mut self, length: usize) -> Option<&[u8]> {
        let end = self.at.checked_add(length)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    pub(crate) fn number(&mut self) -> Option<u32> {
        self.align(4)?;
        let number = self.order.four(self.bytes.get(self.at..)?)?;
        self.at += 4;
        Some(number)
    }

    pub(crate) fn long_number(&mut self) -> Option<u64> {
        self.align(8)?;
        let order = self.order;
        let eight: [u8; 8] = self.take(8)?.try_into().ok()?;
        Some(match order {
            Order::Little => u64::from_le_bytes(eight),
            Order::Big => u64::from_be_bytes(eight),
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

    fn four(self, bytes: &[u8]) -> Option<u32> {
        let four: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
        Some(match self {
            Self::Little => u32::from_le_bytes(four),
            Self::Big => u32::from_be_bytes(four),
        })
    }

    fn number_at(self, bytes: &[u8], at: usize) -> Option<usize> {
        usize::try_from(self.four(bytes.get(at..)?)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dbus::{Call, Writer};

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
    fn what_is_written_is_read_again() {
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
    fn the_other_byte_order_is_read_too() {
        // An error of a big machine: fields 4 (its name) and 5 (whom it answers).
        let mut bytes = b"B\x03\x01\x01\0\0\0\0\0\0\0\x05\0\0\0\x14\x05\x01u\0\0\0\0\x09".to_vec();
        bytes.extend_from_slice(b"\x04\x01s\0\0\0\0\x03a.b\0\0\0\0\0");
        bytes.truncate(16 + 24);
        assert_eq!(rest_of(&bytes[..16]), Some(24));
        let message = Message::read(&bytes).unwrap();
        assert_eq!((message.kind, message.answers), (Kind::Error, Some(9)));
        assert_eq!(message.failure(), "a.b");
    }

    #[test]
    fn nonsense_of_any_length_is_refused() {
        let whole = call(&Writer::texts(&["text"]), "s");
        for end in 0..whole.len() {
            // Nothing to check but that it comes back.
            let _ = Message::read(&whole[..end]).map(|message| message.body().text());
        }
        for at in 0..whole.len() {
            let mut broken = whole.clone();
            broken[at] = 0xff;
            let _ = rest_of(&broken);
            let _ = Message::read(&broken).map(|message| message.body().text());
        }
        assert_eq!(rest_of(b"x..............."), None);
        assert_eq!(Message::read(b""), None);
    }
}
