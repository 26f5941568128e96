//! Messages of the D-Bus protocol, as far as systemd needs them.

const PATH: &str = "/org/freedesktop/systemd1";
const INTERFACE: &str = "org.freedesktop.systemd1.Manager";
const DESTINATION: &str = "org.freedesktop.systemd1";
const METHOD_CALL: u8 = 1;
const METHOD_RETURN: u8 = 2;
const ERROR: u8 = 3;
/// There is one call on each connection.
const SERIAL: u32 = 1;

/// A property of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Property<'a>(pub(super) &'a str, pub(super) Value);

/// What a property is set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Texts(Vec<String>),
    Flag(bool),
    Number(u64),
}

/// What an answer means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Done,
    Failed(String),
    Other,
}

/// A call of the manager.
pub(super) fn method_call(member: &str, signature: &str, body: &[u8]) -> Vec<u8> {
    let mut fields = Writer::default();
    for (code, kind, text) in
        [(1, "o", PATH), (2, "s", INTERFACE), (3, "s", member), (6, "s", DESTINATION), (8, "g", signature)]
    {
        fields.align(8);
        fields.0.push(code);
        fields.signature(kind);
        if kind == "g" { fields.signature(text) } else { fields.text(text) }
    }
    let mut message = Writer(vec![b'l', METHOD_CALL, 0, 1]);
    message.number(length(body));
    message.number(SERIAL);
    message.number(length(&fields.0));
    message.0.extend_from_slice(&fields.0);
    message.align(8);
    message.0.extend_from_slice(body);
    message.0
}

/// `StartTransientUnit(name, "replace", properties, [])`.
pub(super) fn start_transient_unit(name: &str, properties: &[Property<'_>]) -> Vec<u8> {
    let mut body = Writer::default();
    body.text(name);
    body.text("replace");
    body.properties(properties);
    // No other units come with it.
    body.array(8, |_| {});
    body.0
}

/// `SetUnitProperties(name, runtime, properties)`.
pub(super) fn set_unit_properties(name: &str, properties: &[Property<'_>]) -> Vec<u8> {
    let mut body = Writer::default();
    body.text(name);
    body.number(1);
    body.properties(properties);
    body.0
}

/// `StopUnit(name, "replace")`.
pub(super) fn stop_unit(name: &str) -> Vec<u8> {
    let mut body = Writer::default();
    body.text(name);
    body.text("replace");
    body.0
}

/// How much follows the first 16 bytes of a message; `None` for what is none.
pub(super) fn rest_of(start: &[u8]) -> Option<usize> {
    if start.first() != Some(&b'l') {
        return None;
    }
    let fields = number_at(start, 12)?;
    let body = number_at(start, 4)?;
    fields.checked_next_multiple_of(8)?.checked_add(body)
}

/// What an answer says. Of an error, its name is enough.
pub(super) fn reply(message: &[u8]) -> Reply {
    match message.get(1) {
        Some(&METHOD_RETURN) => Reply::Done,
        Some(&ERROR) => Reply::Failed(error_name(message).unwrap_or_else(|| "no reason given".to_owned())),
        Some(_) | None => Reply::Other,
    }
}

/// Field 4 of the header, a string.
fn error_name(message: &[u8]) -> Option<String> {
    let end = 16 + number_at(message, 12)?;
    let mut at = 16;
    while at < end {
        at = at.checked_next_multiple_of(8)?;
        let code = *message.get(at)?;
        let kind = *message.get(at + 2)?;
        let value = (at + 4).checked_next_multiple_of(4)?;
        let (text, next) = match kind {
            b's' | b'o' => {
                let length = number_at(message, value)?;
                (message.get(value + 4..value + 4 + length)?, value + 4 + length + 1)
            }
            b'g' => {
                let length = usize::from(*message.get(at + 4)?);
                (message.get(at + 5..at + 5 + length)?, at + 5 + length + 1)
            }
            b'u' => (message.get(value..value + 4)?, value + 4),
            _ => return None,
        };
        if code == 4 {
            return Some(String::from_utf8_lossy(text).into_owned());
        }
        at = next;
    }
    None
}

fn number_at(bytes: &[u8], at: usize) -> Option<usize> {
    let four: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
    usize::try_from(u32::from_le_bytes(four)).ok()
}

/// Messages are far below 4 GiB.
fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

/// Values one after the other, each at its alignment. Bodies begin at a multiple of 8, so offsets within them count.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn align(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    fn number(&mut self, value: u32) {
        self.align(4);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(length(text.as_bytes()));
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
    }

    fn signature(&mut self, text: &str) {
        self.0.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
    }

    /// The length does not count what aligns the first element.
    fn array(&mut self, element: usize, write: impl FnOnce(&mut Self)) {
        self.align(4);
        let at = self.0.len();
        self.number(0);
        self.align(element);
        let start = self.0.len();
        write(self);
        let size = u32::try_from(self.0.len() - start).unwrap_or(u32::MAX);
        if let Some(place) = self.0.get_mut(at..at + 4) {
            place.copy_from_slice(&size.to_le_bytes());
        }
    }

    fn properties(&mut self, properties: &[Property<'_>]) {
        self.array(8, |all| {
            for Property(name, value) in properties {
                all.align(8);
                all.text(name);
                all.value(value);
            }
        });
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Text(text) => {
                self.signature("s");
                self.text(text);
            }
            Value::Texts(texts) => {
                self.signature("as");
                self.array(4, |all| texts.iter().for_each(|text| all.text(text)));
            }
            Value::Flag(flag) => {
                self.signature("b");
                self.number(u32::from(*flag));
            }
            Value::Number(number) => {
                self.signature("t");
                self.align(8);
                self.0.extend_from_slice(&number.to_le_bytes());
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An answer of that kind with an error name.
    pub(in super::super) fn answer(kind: u8, name: &str) -> Vec<u8> {
        let mut fields = Writer::default();
        fields.0.push(5);
        fields.signature("u");
        fields.number(SERIAL);
        fields.align(8);
        fields.0.push(4);
        fields.signature("s");
        fields.text(name);
        let mut message = Writer(vec![b'l', kind, 1, 1]);
        message.number(0);
        message.number(7);
        message.number(length(&fields.0));
        message.0.extend_from_slice(&fields.0);
        message.align(8);
        message.0
    }

    #[test]
    fn a_call_is_laid_out_as_the_protocol_says() {
        let call = method_call("StopUnit", "ss", &stop_unit("a.slice"));
        assert_eq!(call[..4], [b'l', 1, 0, 1]);
        assert_eq!(call.len(), 16 + rest_of(&call[..16]).unwrap());
        // The body: two strings, the second at a multiple of 4.
        let body = &call[call.len() - 24..];
        assert_eq!(body, b"\x07\0\0\0a.slice\0\x07\0\0\0replace\0");
    }

    #[test]
    fn properties_are_pairs_at_multiples_of_eight() {
        let body =
            set_unit_properties("a", &[Property("N", Value::Number(5)), Property("F", Value::Flag(true))]);
        let expected: &[u8] = b"\x01\0\0\0a\0\0\0\x01\0\0\0\x28\0\0\0\
            \x01\0\0\0N\0\x01t\0\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\
            \x01\0\0\0F\0\x01b\0\0\0\0\x01\0\0\0";
        assert_eq!(body, expected);
    }

    #[test]
    fn answers_are_told_apart() {
        assert_eq!(reply(&answer(2, "")), Reply::Done);
        assert_eq!(reply(&answer(3, "org.example.No")), Reply::Failed("org.example.No".to_owned()));
        assert_eq!(reply(&answer(4, "")), Reply::Other);
        assert_eq!(rest_of(b"B..............."), None);
    }
}
