//! The protobuf message of a pod, from its JSON.
//!
//! Upstream's Go types generate both. `messages.txt` lists their fields (`podschema messages` prints it), so the encoder needs
//! no code per message. Fields are written in the order and with the defaults of upstream's generated code: a field that is not
//! a pointer in Go is written even if it is empty.

use std::collections::HashMap;
use std::sync::LazyLock;

use prost::encoding::{WireType, encode_key, encode_varint};
use serde_json::{Map, Value};
use values::quantity::Parts;

static MESSAGES: LazyLock<MessageTable> = LazyLock::new(|| MessageTable::parse(include_str!("messages.txt")));

/// The fields of each message.
struct MessageTable(HashMap<&'static str, Vec<Field>>);

struct Field {
    number: u32,
    json: &'static str,
    occurrence: Occurrence,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Occurrence {
    /// Always written.
    One,
    /// Written if it is present.
    Optional,
    /// Each element.
    All,
    /// Each entry, ordered by key.
    Map,
}

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Bool,
    Int,
    Quantity,
    Time,
    IntOrString,
    RawJson,
    Message(&'static str),
}

/// The message of a pod in the form of the API server's JSON.
pub(crate) fn pod_message(pod: &Value) -> Vec<u8> {
    let mut message = Vec::new();
    MESSAGES.encode("Pod", pod, &mut message);
    message
}

impl MessageTable {
    fn parse(text: &'static str) -> Self {
        let mut messages: HashMap<&'static str, Vec<Field>> = HashMap::new();
        let mut name = "";
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            match line.strip_prefix('\t') {
                None => {
                    name = line;
                    messages.entry(name).or_default();
                }
                Some(field) => messages.entry(name).or_default().extend(Field::parse(field)),
            }
        }
        Self(messages)
    }

    fn encode(&self, message: &str, value: &Value, out: &mut Vec<u8>) {
        for field in self.0.get(message).into_iter().flatten() {
            self.encode_field(field, value, out);
        }
    }

    fn encode_field(&self, field: &Field, object: &Value, out: &mut Vec<u8>) {
        let value = if field.json == "." { object } else { object.get(field.json).unwrap_or(&Value::Null) };
        match field.occurrence {
            Occurrence::One => self.encode_value(field.number, field.kind, value, out),
            Occurrence::Optional if value.is_null() => {}
            Occurrence::Optional => self.encode_value(field.number, field.kind, value, out),
            Occurrence::All => {
                for element in value.as_array().into_iter().flatten() {
                    self.encode_value(field.number, field.kind, element, out);
                }
            }
            Occurrence::Map => {
                for (key, value) in sorted(value.as_object()) {
                    let mut entry = Vec::new();
                    write_bytes(1, key.as_bytes(), &mut entry);
                    self.encode_value(2, field.kind, value, &mut entry);
                    write_bytes(field.number, &entry, out);
                }
            }
        }
    }

    fn encode_value(&self, number: u32, kind: Kind, value: &Value, out: &mut Vec<u8>) {
        match kind {
            Kind::Text => write_bytes(number, value.as_str().unwrap_or_default().as_bytes(), out),
            Kind::Bool => write_int(number, i64::from(value.as_bool().unwrap_or_default()), out),
            Kind::Int => write_int(number, value.as_i64().unwrap_or_default(), out),
            Kind::Quantity => {
                let mut message = Vec::new();
                write_bytes(1, quantity(value).as_bytes(), &mut message);
                write_bytes(number, &message, out);
            }
            Kind::Time => write_bytes(number, &time(value), out),
            Kind::IntOrString => write_bytes(number, &int_or_string(value), out),
            Kind::RawJson => {
                let mut message = Vec::new();
                write_bytes(1, value.to_string().as_bytes(), &mut message);
                write_bytes(number, &message, out);
            }
            Kind::Message(name) => {
                let mut message = Vec::new();
                self.encode(name, value, &mut message);
                write_bytes(number, &message, out);
            }
        }
    }
}

impl Field {
    /// `None` for a line that is not a field, which the golden data would show.
    fn parse(line: &'static str) -> Option<Self> {
        let mut words = line.split(' ');
        let number = words.next()?.parse().ok()?;
        let json = words.next()?;
        let occurrence = match words.next()? {
            "one" => Occurrence::One,
            "opt" => Occurrence::Optional,
            "all" => Occurrence::All,
            "map" => Occurrence::Map,
            _ => return None,
        };
        let kind = match words.next()? {
            "string" => Kind::Text,
            "bool" => Kind::Bool,
            "int" => Kind::Int,
            "quantity" => Kind::Quantity,
            "time" => Kind::Time,
            "intorstring" => Kind::IntOrString,
            "rawjson" => Kind::RawJson,
            name => Kind::Message(name),
        };
        Some(Self { number, json, occurrence, kind })
    }
}

fn sorted(entries: Option<&Map<String, Value>>) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = entries.into_iter().flatten().collect();
    entries.sort_by_key(|(key, _)| *key);
    entries
}

fn write_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn write_int(number: u32, value: i64, out: &mut Vec<u8>) {
    encode_key(number, WireType::Varint, out);
    encode_varint(value.cast_unsigned(), out);
}

/// Upstream keeps the text of some quantities, and writes others in the canonical form.
fn quantity(value: &Value) -> String {
    let text = value.as_str().unwrap_or("0");
    match Parts::parse(text) {
        Some(parts) if !parts.is_kept_as_written() => parts.to_quantity().to_string(),
        Some(_) | None => text.to_owned(),
    }
}

/// Empty for no time.
fn time(value: &Value) -> Vec<u8> {
    let mut message = Vec::new();
    if let Some(at) = value.as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok()) {
        write_int(1, at.as_second(), &mut message);
        // The JSON of upstream has whole seconds.
        write_int(2, 0, &mut message);
    }
    message
}

fn int_or_string(value: &Value) -> Vec<u8> {
    let mut message = Vec::new();
    write_int(1, i64::from(value.is_string()), &mut message);
    write_int(2, value.as_i64().unwrap_or_default(), &mut message);
    write_bytes(3, value.as_str().unwrap_or_default().as_bytes(), &mut message);
    message
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use flate2::read::GzDecoder;
    use serde_json::json;

    use super::*;

    /// Written by upstream's code: `podschema encoded 60 1`.
    const PODS: &[u8] = include_bytes!("../../testdata/pods.txt.gz");

    #[test]
    fn messages_of_random_pods_equal_upstreams() {
        let mut text = String::new();
        GzDecoder::new(PODS).read_to_string(&mut text).unwrap();
        assert_eq!(text.lines().count(), 60);
        for (number, line) in text.lines().enumerate() {
            let (pod, message) = line.split_once('\t').unwrap();
            let expected = STANDARD.decode(message).unwrap();
            let found = pod_message(&serde_json::from_str(pod).unwrap());
            let same = found.iter().zip(&expected).take_while(|(one, other)| one == other).count();
            let near =
                String::from_utf8_lossy(&expected[same.saturating_sub(40)..expected.len().min(same + 40)]);
            assert!(found == expected, "pod {number}, byte {same}: {near}");
        }
    }

    #[test]
    fn absent_fields_are_left_out_only_where_upstream_does() {
        let message = pod_message(&json!({"metadata": {"name": "p", "uid": "u"}}));
        let mut metadata = vec![0x0a, 1, b'p', 0x12, 0, 0x1a, 0, 0x22, 0, 0x2a, 1, b'u', 0x32, 0];
        metadata.extend([0x38, 0, 0x42, 0]);
        assert_eq!(message[..2], [0x0a, u8::try_from(metadata.len()).unwrap()]);
        assert_eq!(message[2..2 + metadata.len()], metadata);
    }

    #[test]
    fn every_line_of_the_table_is_a_field_of_a_known_type() {
        let fields = include_str!("messages.txt").lines().filter(|line| line.starts_with('\t')).count();
        assert_eq!(MESSAGES.0.values().map(Vec::len).sum::<usize>(), fields);
        assert!(fields > 600, "{fields}");
        for field in MESSAGES.0.values().flatten() {
            if let Kind::Message(name) = field.kind {
                assert!(MESSAGES.0.contains_key(name), "{name}");
            }
        }
    }
}
