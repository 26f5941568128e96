//! The syntax of flag values, and their conversion to JSON.

use serde_json::{Map, Value, json};
use values::duration::GoDuration;
use values::quantity::WrittenQuantity;

use crate::{address::parse_ip, configuration::TaintEffect};

/// The syntax of a flag's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlagKind {
    /// `true` or `false`; a flag without a value means true.
    Bool,
    Text,
    Int32,
    Int64,
    /// A Go duration such as `1m30s`.
    Duration,
    /// An IP address; an empty value changes nothing.
    Ip,
    /// Comma-separated values, optionally quoted; repeated flags are concatenated.
    List,
    /// Comma-separated `key=value` pairs; repeated flags are merged.
    Map,
    /// One `key=value` pair whose value may contain commas; repeated flags are merged.
    OneEntryMap,
    /// Comma-separated `signal<value` pairs; repeated flags are merged.
    Thresholds,
    /// Comma-separated `Name=bool` pairs; repeated flags are merged.
    Gates,
    /// Comma-separated `name:value` pairs; the values of a repeated name are concatenated.
    Headers,
    /// Comma-separated `key=value` pairs or plain keys; repeated flags are merged.
    Labels,
    /// Comma-separated `key=value:effect`; the last flag replaces earlier ones.
    Taints,
    /// `node:kind=quantity,…` separated by semicolons; repeated flags are concatenated.
    ReservedMemory,
    Quantity,
    /// An integer of at least 0.
    Verbosity,
    /// Comma-separated `pattern=N`; appended to the list of the configuration file.
    Vmodule,
    /// `true`, `false`, `raw`, or a text that starts with our Kubernetes version.
    Version,
}

impl FlagKind {
    /// The value of a flag that is given without one; `None` if the flag requires a value.
    pub(super) fn value_if_omitted(self) -> Option<&'static str> {
        matches!(self, Self::Bool | Self::Version).then_some("true")
    }

    /// The placeholder for the value in `--help`.
    pub(super) fn placeholder(self) -> &'static str {
        match self {
            Self::Bool | Self::Version => "",
            Self::Text => "TEXT",
            Self::Int32 | Self::Int64 | Self::Verbosity => "N",
            Self::Duration => "DURATION",
            Self::Ip => "IP",
            Self::List => "A,B",
            Self::Map | Self::OneEntryMap | Self::Labels => "KEY=VALUE",
            Self::Thresholds => "SIGNAL<VALUE",
            Self::Gates => "NAME=BOOL",
            Self::Headers => "NAME:VALUE",
            Self::Taints => "KEY=VALUE:EFFECT",
            Self::ReservedMemory => "NODE:KIND=SIZE",
            Self::Quantity => "SIZE",
            Self::Vmodule => "PATTERN=N",
        }
    }

    /// Combines all values of one flag into one JSON value; `None` if they change nothing.
    pub(super) fn to_json(self, values: &[String]) -> Result<Option<Value>, String> {
        values.iter().try_fold(None, |previous, value| self.add(previous, value))
    }

    fn add(self, previous: Option<Value>, text: &str) -> Result<Option<Value>, String> {
        let value = match self {
            Self::Bool => Value::from(parse_boolean(text)?),
            Self::Text => Value::from(text),
            Self::Int32 => Value::from(i32::try_from(parse_integer(text)?).map_err(|_| out_of_range(text))?),
            Self::Int64 => Value::from(parse_integer(text)?),
            Self::Duration => json!(text.parse::<GoDuration>().map_err(|error| error.to_string())?),
            Self::Ip if text.is_empty() => return Ok(previous),
            Self::Ip => {
                parse_ip(text).ok_or_else(|| format!("{text:?} is not an IP address"))?;
                Value::from(text)
            }
            Self::Quantity => json!(text.parse::<WrittenQuantity>().map_err(|error| error.to_string())?),
            Self::Verbosity => Value::from(parse_verbosity(text)?),
            Self::List => extend(previous, parse_csv_record(text)?.into_iter().map(Value::from)),
            Self::Map => merge(previous, parse_pairs(text, '=')?.map(text_value)),
            Self::Thresholds => merge(previous, parse_pairs(text, '<')?.map(text_value)),
            Self::OneEntryMap => merge(previous, std::iter::once(parse_pair(text, '=')?).map(text_value)),
            Self::Labels => merge(previous, parse_labels(text).map(text_value)),
            Self::Gates => parse_gates(previous, text)?,
            Self::Headers => parse_headers(previous, text)?,
            Self::Taints => parse_taints(text)?,
            Self::ReservedMemory => parse_reserved_memory(previous, text)?,
            Self::Vmodule => parse_vmodule(previous, text)?,
            Self::Version => parse_version(text)?,
        };
        Ok(Some(value))
    }
}

pub(crate) fn parse_boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("{text:?} must be true or false")),
    }
}

/// Parses an integer with Go's base prefixes.
fn parse_integer(text: &str) -> Result<i64, String> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (radix, digits) = match digits.get(..2) {
        Some("0x" | "0X") => (16, digits.get(2..)),
        Some("0o" | "0O") => (8, digits.get(2..)),
        Some("0b" | "0B") => (2, digits.get(2..)),
        Some(prefix) if prefix.starts_with('0') => (8, digits.get(1..)),
        Some(_) | None => (10, Some(digits)),
    };
    let digits = digits.filter(|digits| digits.chars().all(|c| c.is_digit(radix)) && !digits.is_empty());
    let digits = digits.ok_or_else(|| format!("{text:?} is not an integer"))?;
    i64::from_str_radix(&format!("{sign}{digits}"), radix).map_err(|_| out_of_range(text))
}

fn out_of_range(text: &str) -> String {
    format!("{text:?} is out of range")
}

fn parse_verbosity(text: &str) -> Result<u32, String> {
    let level = text.parse::<u32>().map_err(|_| format!("{text:?} is not an integer of at least 0"))?;
    i32::try_from(level).map(|_| level).map_err(|_| out_of_range(text))
}

/// Parses one CSV record. A quoted value starts and ends with a quote; quotes inside it are doubled.
fn parse_csv_record(text: &str) -> Result<Vec<String>, String> {
    let misquoted = || format!("{text:?} has a misplaced or missing quote");
    let mut fields = Vec::new();
    let mut rest = Some(text).filter(|text| !text.is_empty());
    while let Some(field) = rest {
        let Some(mut quoted) = field.strip_prefix('"') else {
            let (value, after) =
                field.split_once(',').map_or((field, None), |(value, after)| (value, Some(after)));
            if value.contains('"') {
                return Err(misquoted());
            }
            fields.push(value.to_owned());
            rest = after;
            continue;
        };
        let mut value = String::new();
        rest = loop {
            let (part, after) = quoted.split_once('"').ok_or_else(misquoted)?;
            value.push_str(part);
            match after.strip_prefix('"') {
                Some(more) => {
                    value.push('"');
                    quoted = more;
                }
                None if after.is_empty() => break None,
                None => break Some(after.strip_prefix(',').ok_or_else(misquoted)?),
            }
        };
        fields.push(value);
    }
    Ok(fields)
}

fn parse_pair(text: &str, separator: char) -> Result<(String, String), String> {
    let (key, value) = text
        .split_once(separator)
        .ok_or_else(|| format!("{text:?} is not of the form key{separator}value"))?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

fn parse_pairs(text: &str, separator: char) -> Result<impl Iterator<Item = (String, String)>, String> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    let pairs: Vec<_> = parts.map(|part| parse_pair(part, separator)).collect::<Result<_, _>>()?;
    Ok(pairs.into_iter())
}

fn parse_labels(text: &str) -> impl Iterator<Item = (String, String)> {
    text.split(',').filter(|part| !part.is_empty()).map(|part| {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        (key.trim().to_owned(), value.trim().to_owned())
    })
}

fn text_value((key, value): (String, String)) -> (String, Value) {
    (key, Value::from(value))
}

fn merge(previous: Option<Value>, entries: impl Iterator<Item = (String, Value)>) -> Value {
    let mut map = object(previous);
    map.extend(entries);
    Value::Object(map)
}

fn object(previous: Option<Value>) -> Map<String, Value> {
    match previous {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

fn extend(previous: Option<Value>, items: impl Iterator<Item = Value>) -> Value {
    let mut list = match previous {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    };
    list.extend(items);
    Value::Array(list)
}

fn parse_gates(previous: Option<Value>, text: &str) -> Result<Value, String> {
    let entries: Vec<(String, Value)> = parse_pairs(text, '=')?
        .map(|(name, value)| match parse_boolean(&value) {
            Ok(on) => Ok((name, Value::from(on))),
            Err(reason) => Err(format!("{name}: {reason}")),
        })
        .collect::<Result<_, _>>()?;
    Ok(merge(previous, entries.into_iter()))
}

fn parse_headers(previous: Option<Value>, text: &str) -> Result<Value, String> {
    let mut map = object(previous);
    for (name, value) in parse_pairs(text, ':')? {
        let values = map.remove(&name);
        map.insert(name, extend(values, std::iter::once(Value::from(value))));
    }
    Ok(Value::Object(map))
}

fn parse_taints(text: &str) -> Result<Value, String> {
    let mut taints: Vec<Value> = Vec::new();
    // In `kubectl taint`, a trailing minus removes a taint. Here there is nothing to remove.
    for part in text.split(',').filter(|part| !part.is_empty() && !part.ends_with('-')) {
        let malformed = || format!("{part:?} is not of the form key=value:effect");
        let (taint, effect) = part.split_once(':').ok_or_else(malformed)?;
        let (key, value) = taint.split_once('=').unwrap_or((taint, ""));
        serde_json::from_value::<TaintEffect>(Value::from(effect))
            .map_err(|_| format!("{part:?}: the effect must be NoSchedule, PreferNoSchedule or NoExecute"))?;
        if key.is_empty() || value.contains('=') {
            return Err(malformed());
        }
        let same = |taint: &Value| {
            taint.get("key").is_some_and(|k| k == key) && taint.get("effect").is_some_and(|e| e == effect)
        };
        if taints.iter().any(same) {
            return Err(format!("{part:?}: another taint has the same key and effect"));
        }
        taints.push(json!({"key": key, "value": value, "effect": effect}));
    }
    Ok(Value::Array(taints))
}

fn parse_reserved_memory(previous: Option<Value>, text: &str) -> Result<Value, String> {
    let mut reservations = Vec::new();
    for part in text.split(';').filter(|part| !part.is_empty()) {
        let malformed = || format!("{part:?} is not of the form node:kind=quantity[,kind=quantity…]");
        let (node, limits) = part.split_once(':').ok_or_else(malformed)?;
        let node: i32 = node.parse().map_err(|_| malformed())?;
        let mut map = Map::new();
        for (kind, size) in parse_pairs(limits, '=')? {
            if kind != "memory" && !kind.starts_with("hugepages-") {
                return Err(format!("{part:?}: the kind must be memory or hugepages-<size>"));
            }
            size.parse::<WrittenQuantity>().map_err(|error| error.to_string())?;
            map.insert(kind, Value::from(size));
        }
        reservations.push(json!({"numaNode": node, "limits": map}));
    }
    Ok(extend(previous, reservations.into_iter()))
}

fn parse_vmodule(previous: Option<Value>, text: &str) -> Result<Value, String> {
    let items: Vec<Value> = text
        .split(',')
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (pattern, level) = part
                .split_once('=')
                .filter(|(pattern, level)| !pattern.is_empty() && !level.contains('='))
                .ok_or_else(|| format!("{part:?} is not of the form pattern=N"))?;
            Ok(json!({"filePattern": pattern, "verbosity": parse_verbosity(level)?}))
        })
        .collect::<Result<_, String>>()?;
    Ok(extend(previous, items.into_iter()))
}

fn parse_version(text: &str) -> Result<Value, String> {
    if text == "raw" || text.starts_with(crate::KUBERNETES_VERSION) {
        return Ok(Value::from(text));
    }
    parse_boolean(text).map(|on| Value::from(on.to_string()))
}
