//! What flag values look like, and what they become.

use serde_json::{Map, Value, json};

use crate::{address::parse_ip, configuration::TaintEffect, duration::GoDuration, quantity::Quantity};

/// What the value of a flag looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlagKind {
    /// `true` or `false`; nothing means true.
    Bool,
    /// Any text.
    Text,
    /// A 32 bit integer.
    Int32,
    /// A 64 bit integer.
    Int64,
    /// A duration with its unit.
    Duration,
    /// An IP address; empty leaves the value as it is.
    Ip,
    /// Texts separated by commas, in quotes or not; repeated flags add up.
    List,
    /// `key=value` pairs separated by commas; repeated flags add up.
    Map,
    /// One `key=value` pair, the value may hold commas; repeated flags add up.
    OneEntryMap,
    /// `signal<value` pairs separated by commas; repeated flags add up.
    Thresholds,
    /// `Name=true` pairs separated by commas; repeated flags add up.
    Gates,
    /// `name:value` pairs separated by commas; repeated names and flags add up.
    Headers,
    /// `key=value` or bare keys, separated by commas; repeated flags add up.
    Labels,
    /// `key=value:effect` separated by commas; the last flag counts.
    Taints,
    /// `node:kind=quantity,…` separated by semicolons; repeated flags add up.
    ReservedMemory,
    /// A resource quantity.
    Quantity,
    /// A number from 0.
    Verbosity,
    /// `pattern=N` separated by commas; adds to the file's list.
    Vmodule,
    /// `true`, `false`, `raw` or our own version.
    Version,
}

impl FlagKind {
    /// The value taken when the flag stands without one; `None` when it needs one.
    pub(super) fn value_if_bare(self) -> Option<&'static str> {
        match self {
            Self::Bool | Self::Version => Some("true"),
            Self::Text
            | Self::Int32
            | Self::Int64
            | Self::Duration
            | Self::Ip
            | Self::List
            | Self::Map
            | Self::OneEntryMap
            | Self::Thresholds
            | Self::Gates
            | Self::Headers
            | Self::Labels
            | Self::Taints
            | Self::ReservedMemory
            | Self::Quantity
            | Self::Verbosity
            | Self::Vmodule => None,
        }
    }

    /// The word for the value in `--help`.
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

    /// All values given for one flag as one JSON value; `None` when they change nothing.
    pub(super) fn to_json(self, values: &[String]) -> Result<Option<Value>, String> {
        values.iter().try_fold(None, |before, value| self.add(before, value))
    }

    fn add(self, before: Option<Value>, text: &str) -> Result<Option<Value>, String> {
        let value = match self {
            Self::Bool => Value::from(boolean(text)?),
            Self::Text => Value::from(text),
            Self::Int32 => Value::from(i32::try_from(integer(text)?).map_err(|_| out_of_range(text))?),
            Self::Int64 => Value::from(integer(text)?),
            Self::Duration => json!(text.parse::<GoDuration>().map_err(|error| error.to_string())?),
            Self::Ip if text.is_empty() => return Ok(before),
            Self::Ip => {
                parse_ip(text).ok_or_else(|| format!("{text:?} is not an IP address"))?;
                Value::from(text)
            }
            Self::Quantity => json!(text.parse::<Quantity>().map_err(|error| error.to_string())?),
            Self::Verbosity => Value::from(verbosity(text)?),
            Self::List => extend(before, comma_separated(text)?.into_iter().map(Value::from)),
            Self::Map => merge(before, pairs(text, '=')?.map(text_value)),
            Self::Thresholds => merge(before, pairs(text, '<')?.map(text_value)),
            Self::OneEntryMap => merge(before, std::iter::once(pair(text, '=')?).map(text_value)),
            Self::Labels => merge(before, labels(text).map(text_value)),
            Self::Gates => gates(before, text)?,
            Self::Headers => headers(before, text)?,
            Self::Taints => taints(text)?,
            Self::ReservedMemory => reserved_memory(before, text)?,
            Self::Vmodule => vmodule(before, text)?,
            Self::Version => version(text)?,
        };
        Ok(Some(value))
    }
}

fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

/// An integer with Go's prefixes for other bases.
fn integer(text: &str) -> Result<i64, String> {
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

fn verbosity(text: &str) -> Result<u32, String> {
    let level = text.parse::<u32>().map_err(|_| format!("{text:?} is not a number from 0"))?;
    i32::try_from(level).map(|_| level).map_err(|_| out_of_range(text))
}

/// One record of comma-separated values: a text that begins with a quote ends with one, and holds quotes doubled.
fn comma_separated(text: &str) -> Result<Vec<String>, String> {
    let wrong = || format!("{text:?} has a quote where none belongs");
    let mut fields = Vec::new();
    let mut rest = Some(text).filter(|text| !text.is_empty());
    while let Some(field) = rest {
        let Some(mut quoted) = field.strip_prefix('"') else {
            let (value, after) =
                field.split_once(',').map_or((field, None), |(value, after)| (value, Some(after)));
            if value.contains('"') {
                return Err(wrong());
            }
            fields.push(value.to_owned());
            rest = after;
            continue;
        };
        let mut value = String::new();
        rest = loop {
            let (part, after) = quoted.split_once('"').ok_or_else(wrong)?;
            value.push_str(part);
            match after.strip_prefix('"') {
                Some(more) => {
                    value.push('"');
                    quoted = more;
                }
                None if after.is_empty() => break None,
                None => break Some(after.strip_prefix(',').ok_or_else(wrong)?),
            }
        };
        fields.push(value);
    }
    Ok(fields)
}

fn pair(text: &str, separator: char) -> Result<(String, String), String> {
    let (key, value) = text
        .split_once(separator)
        .ok_or_else(|| format!("{text:?} is not of the form key{separator}value"))?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

fn pairs(text: &str, separator: char) -> Result<impl Iterator<Item = (String, String)>, String> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    let pairs: Vec<_> = parts.map(|part| pair(part, separator)).collect::<Result<_, _>>()?;
    Ok(pairs.into_iter())
}

fn labels(text: &str) -> impl Iterator<Item = (String, String)> {
    text.split(',').filter(|part| !part.is_empty()).map(|part| {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        (key.trim().to_owned(), value.trim().to_owned())
    })
}

fn text_value((key, value): (String, String)) -> (String, Value) {
    (key, Value::from(value))
}

fn merge(before: Option<Value>, entries: impl Iterator<Item = (String, Value)>) -> Value {
    let mut map = match before {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    };
    map.extend(entries);
    Value::Object(map)
}

fn extend(before: Option<Value>, items: impl Iterator<Item = Value>) -> Value {
    let mut list = match before {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    };
    list.extend(items);
    Value::Array(list)
}

fn gates(before: Option<Value>, text: &str) -> Result<Value, String> {
    let entries: Vec<(String, Value)> = pairs(text, '=')?
        .map(|(name, value)| match boolean(&value) {
            Ok(on) => Ok((name, Value::from(on))),
            Err(reason) => Err(format!("{name}: {reason}")),
        })
        .collect::<Result<_, _>>()?;
    Ok(merge(before, entries.into_iter()))
}

fn headers(before: Option<Value>, text: &str) -> Result<Value, String> {
    let mut map = match before {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    };
    for (name, value) in pairs(text, ':')? {
        let values = map.remove(&name);
        map.insert(name, extend(values, std::iter::once(Value::from(value))));
    }
    Ok(Value::Object(map))
}

fn taints(text: &str) -> Result<Value, String> {
    let mut taints: Vec<Value> = Vec::new();
    // A trailing minus removes a taint where taints are edited; there is nothing to remove here.
    for part in text.split(',').filter(|part| !part.is_empty() && !part.ends_with('-')) {
        let malformed = || format!("{part:?} is not of the form key=value:effect");
        let (taint, effect) = part.split_once(':').ok_or_else(malformed)?;
        let (key, value) = taint.split_once('=').unwrap_or((taint, ""));
        serde_json::from_value::<TaintEffect>(Value::from(effect))
            .map_err(|_| format!("{part:?}: the effect is NoSchedule, PreferNoSchedule or NoExecute"))?;
        if key.is_empty() || value.contains('=') {
            return Err(malformed());
        }
        let same = |taint: &Value| {
            taint.get("key").is_some_and(|k| k == key) && taint.get("effect").is_some_and(|e| e == effect)
        };
        if taints.iter().any(same) {
            return Err(format!("{part:?}: a taint with this key and effect is already there"));
        }
        taints.push(json!({"key": key, "value": value, "effect": effect}));
    }
    Ok(Value::Array(taints))
}

fn reserved_memory(before: Option<Value>, text: &str) -> Result<Value, String> {
    let mut reservations = Vec::new();
    for part in text.split(';').filter(|part| !part.is_empty()) {
        let malformed = || format!("{part:?} is not of the form node:kind=quantity[,kind=quantity…]");
        let (node, limits) = part.split_once(':').ok_or_else(malformed)?;
        let node: i32 = node.parse().map_err(|_| malformed())?;
        let mut map = Map::new();
        for (kind, size) in pairs(limits, '=')? {
            if kind != "memory" && !kind.starts_with("hugepages-") {
                return Err(format!("{part:?}: memory is of the kind memory or hugepages-<size>"));
            }
            size.parse::<Quantity>().map_err(|error| error.to_string())?;
            map.insert(kind, Value::from(size));
        }
        reservations.push(json!({"numaNode": node, "limits": map}));
    }
    Ok(extend(before, reservations.into_iter()))
}

fn vmodule(before: Option<Value>, text: &str) -> Result<Value, String> {
    let items: Vec<Value> = text
        .split(',')
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (pattern, level) = part
                .split_once('=')
                .filter(|(pattern, level)| !pattern.is_empty() && !level.contains('='))
                .ok_or_else(|| format!("{part:?} is not of the form pattern=N"))?;
            Ok(json!({"filePattern": pattern, "verbosity": verbosity(level)?}))
        })
        .collect::<Result<_, String>>()?;
    Ok(extend(before, items.into_iter()))
}

fn version(text: &str) -> Result<Value, String> {
    if text == "raw" || text.starts_with(crate::KUBERNETES_VERSION) {
        return Ok(Value::from(text));
    }
    boolean(text).map(|on| Value::from(on.to_string()))
}
