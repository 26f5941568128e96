//! D-Bus messages to systemd and their replies.

use crate::systemd::dbus::{Call, Kind, Message, Writer};

const PATH: &str = "/org/freedesktop/systemd1";
const INTERFACE: &str = "org.freedesktop.systemd1.Manager";
const DESTINATION: &str = "org.freedesktop.systemd1";
/// Each connection makes one call.
const SERIAL: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Property<'a>(pub(super) &'a str, pub(super) Value);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Texts(Vec<String>),
    Flag(bool),
    Number(u64),
    Bytes(Vec<u8>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Done,
    Failed(String),
    /// Not a reply, such as a signal.
    Other,
}

pub(super) fn method_call(member: &str, signature: &str, body: &[u8]) -> Vec<u8> {
    let call = Call { destination: DESTINATION, path: PATH, interface: INTERFACE, member, signature, body };
    call.message(SERIAL)
}

/// `StartTransientUnit(name, "replace", properties, [])`.
pub(super) fn start_transient_unit(name: &str, properties: &[Property<'_>]) -> Vec<u8> {
    let mut body = Writer::default();
    body.text(name);
    body.text("replace");
    write_properties(&mut body, properties);
    // No auxiliary units.
    body.array(8, |_| {});
    body.0
}

/// `SetUnitProperties(name, runtime, properties)`.
pub(super) fn set_unit_properties(name: &str, properties: &[Property<'_>]) -> Vec<u8> {
    let mut body = Writer::default();
    body.text(name);
    body.number(1);
    write_properties(&mut body, properties);
    body.0
}

/// `StopUnit(name, "replace")`.
pub(super) fn stop_unit(name: &str) -> Vec<u8> {
    Writer::texts(&[name, "replace"]).0
}

pub(super) fn parse_reply(message: &[u8]) -> Reply {
    match Message::read(message) {
        Some(message) => match message.kind {
            Kind::Return => Reply::Done,
            Kind::Error => Reply::Failed(message.error.unwrap_or_else(|| "no reason given".to_owned())),
            Kind::Call | Kind::Signal | Kind::Unknown => Reply::Other,
        },
        None => Reply::Other,
    }
}

fn write_properties(body: &mut Writer, properties: &[Property<'_>]) {
    body.array(8, |all| {
        for Property(name, value) in properties {
            all.align(8);
            all.text(name);
            write_value(all, value);
        }
    });
}

fn write_value(body: &mut Writer, value: &Value) {
    match value {
        Value::Text(text) => {
            body.signature("s");
            body.text(text);
        }
        Value::Texts(texts) => {
            body.signature("as");
            body.array(4, |all| texts.iter().for_each(|text| all.text(text)));
        }
        Value::Flag(flag) => {
            body.signature("b");
            body.number(u32::from(*flag));
        }
        Value::Number(number) => {
            body.signature("t");
            body.long_number(*number);
        }
        Value::Bytes(bytes) => {
            body.signature("ay");
            body.array(1, |all| all.0.extend(bytes));
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::systemd::dbus::remaining_bytes;

    /// A reply of that kind with an error name.
    pub(in super::super) fn encode_reply(kind: u8, name: &str) -> Vec<u8> {
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
        message.number(u32::try_from(fields.0.len()).unwrap());
        message.0.extend_from_slice(&fields.0);
        message.align(8);
        message.0
    }

    #[test]
    fn encodes_a_method_call() {
        let call = method_call("StopUnit", "ss", &stop_unit("a.slice"));
        assert_eq!(call[..4], [b'l', 1, 0, 1]);
        assert_eq!(call.len(), 16 + remaining_bytes(&call[..16]).unwrap());
        // The body: two strings, the second at a multiple of 4.
        let body = &call[call.len() - 24..];
        assert_eq!(body, b"\x07\0\0\0a.slice\0\x07\0\0\0replace\0");
    }

    #[test]
    fn encodes_properties_with_alignment() {
        let body =
            set_unit_properties("a", &[Property("N", Value::Number(5)), Property("F", Value::Flag(true))]);
        let expected: &[u8] = b"\x01\0\0\0a\0\0\0\x01\0\0\0\x28\0\0\0\
            \x01\0\0\0N\0\x01t\0\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\
            \x01\0\0\0F\0\x01b\0\0\0\0\x01\0\0\0";
        assert_eq!(body, expected);
    }

    #[test]
    fn parses_return_error_and_signal() {
        assert_eq!(parse_reply(&encode_reply(2, "")), Reply::Done);
        assert_eq!(
            parse_reply(&encode_reply(3, "org.example.No")),
            Reply::Failed("org.example.No".to_owned())
        );
        assert_eq!(parse_reply(&encode_reply(4, "")), Reply::Other);
        assert_eq!(remaining_bytes(b"x..............."), None);
    }
}
