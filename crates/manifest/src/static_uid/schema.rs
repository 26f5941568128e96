//! The types reachable from upstream's internal pod.

use std::collections::BTreeMap;
use std::sync::LazyLock;

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::read(include_str!("schema.txt")));

/// Declared types by their name in Go.
#[derive(Debug, Default)]
pub(super) struct Schema(BTreeMap<&'static str, Declared>);

/// What a named type is.
#[derive(Debug)]
pub(super) enum Declared {
    /// Fields, in order.
    Struct(Vec<Field>),
    /// A kind of text.
    Text,
    /// A map; holds the type of its values.
    Map(&'static str),
    /// A quantity of a resource.
    Quantity,
    /// A point in time.
    Time,
    /// A JSON text that is kept as bytes.
    RawJson,
    /// A number or a text, mostly a port.
    IntOrString,
}

/// One field of a struct.
#[derive(Debug)]
pub(super) struct Field {
    /// Its name in Go.
    pub(super) name: &'static str,
    /// Its type in Go.
    pub(super) type_name: &'static str,
    /// Where its value is in the JSON of the struct.
    pub(super) json: Json,
}

/// Where the value of a field is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Json {
    /// Under this key.
    Key(&'static str),
    /// The struct's fields are beside the others of the outer object.
    Inline,
}

impl Schema {
    /// The schema of the upstream release that we match.
    pub(super) fn of_upstream() -> &'static Self {
        &SCHEMA
    }

    /// The declaration of a type.
    pub(super) fn get(&self, type_name: &str) -> Option<&Declared> {
        self.0.get(type_name)
    }

    /// The text is generated, so lines of another form are ignored; tests show that there are none.
    fn read(text: &'static str) -> Self {
        let mut schema = Self::default();
        let mut current = None;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            let (Some(first), Some(second)) = (words.next(), words.next()) else { continue };
            if line.starts_with('\t') {
                let owner = current.and_then(|name| schema.0.get_mut(name));
                if let (Some(Declared::Struct(fields)), Some(json)) = (owner, words.next()) {
                    let json = if json == "." { Json::Inline } else { Json::Key(json) };
                    fields.push(Field { name: first, type_name: second, json });
                }
            } else if let Some(declared) = declaration(first, words.next()) {
                schema.0.insert(second, declared);
                current = Some(second);
            }
        }
        schema
    }
}

fn declaration(kind: &str, detail: Option<&'static str>) -> Option<Declared> {
    Some(match kind {
        "struct" => Declared::Struct(Vec::new()),
        "string" => Declared::Text,
        "map" => Declared::Map(map_value(detail?)?),
        "quantity" => Declared::Quantity,
        "time" => Declared::Time,
        "rawjson" => Declared::RawJson,
        "intorstring" => Declared::IntOrString,
        _ => return None,
    })
}

/// The type of the values of a map type; `None` if it is none.
pub(super) fn map_value(type_name: &'static str) -> Option<&'static str> {
    type_name.strip_prefix("map[")?.split_once(']').map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_line() {
        let lines = include_str!("schema.txt").lines().filter(|line| !line.starts_with('#')).count();
        let schema = Schema::of_upstream();
        let fields = schema.0.values().map(|declared| match declared {
            Declared::Struct(fields) => fields.len(),
            _ => 0,
        });
        assert_eq!(schema.0.len() + fields.sum::<usize>(), lines);
    }

    #[test]
    fn declares_every_type_that_it_uses() {
        let schema = Schema::of_upstream();
        let builtin = ["string", "bool", "int32", "int64"];
        for declared in schema.0.values() {
            let Declared::Struct(fields) = declared else { continue };
            for field in fields {
                let plain = field.type_name.trim_start_matches('*').trim_start_matches("[]");
                let plain = map_value(plain).unwrap_or(plain).trim_start_matches("[]");
                assert!(builtin.contains(&plain) || schema.get(plain).is_some(), "{}", field.type_name);
            }
        }
    }

    #[test]
    fn has_no_pointer_inside_a_list_or_map() {
        // Go's printer shows those without their type, which `dump` does not know how to do.
        let text = include_str!("schema.txt");
        assert!(!text.contains("]*"));
    }
}
