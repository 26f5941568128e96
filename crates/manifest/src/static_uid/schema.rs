//! The types reachable from upstream's internal pod.

use std::collections::BTreeMap;
use std::sync::LazyLock;

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::parse(include_str!("schema.txt")));

/// Declared types by their Go name.
#[derive(Debug, Default)]
pub(super) struct Schema(BTreeMap<&'static str, Declared>);

#[derive(Debug)]
pub(super) enum Declared {
    Struct(Vec<Field>),
    /// A named string type.
    Text,
    /// A map with values of this type.
    Map(&'static str),
    Quantity,
    Time,
    /// JSON that upstream keeps as bytes.
    RawJson,
    IntOrString,
}

#[derive(Debug)]
pub(super) struct Field {
    /// Go name.
    pub(super) name: &'static str,
    /// Go type.
    pub(super) type_name: &'static str,
    pub(super) json: Json,
}

/// Location of a field's value in the JSON of its struct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Json {
    Key(&'static str),
    /// The fields of an embedded struct are in the outer object.
    Inline,
}

impl Schema {
    /// The schema of the supported upstream release.
    pub(super) fn of_upstream() -> &'static Self {
        &SCHEMA
    }

    pub(super) fn get(&self, type_name: &str) -> Option<&Declared> {
        self.0.get(type_name)
    }

    /// Ignores malformed lines; a test checks that the generated text has none.
    fn parse(text: &'static str) -> Self {
        let mut schema = Self::default();
        let mut current = None;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let mut columns = line.split_whitespace();
            let (Some(first), Some(second)) = (columns.next(), columns.next()) else { continue };
            if line.starts_with('\t') {
                let owner = current.and_then(|name| schema.0.get_mut(name));
                if let (Some(Declared::Struct(fields)), Some(json)) = (owner, columns.next()) {
                    let json = if json == "." { Json::Inline } else { Json::Key(json) };
                    fields.push(Field { name: first, type_name: second, json });
                }
            } else if let Some(declared) = declaration(first, columns.next()) {
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

/// The value type of a map type; `None` for other types.
pub(super) fn map_value(type_name: &'static str) -> Option<&'static str> {
    type_name.strip_prefix("map[")?.split_once(']').map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_every_line() {
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
        // Go's printer omits the type of those, which `dump` does not support.
        let text = include_str!("schema.txt");
        assert!(!text.contains("]*"));
    }
}
