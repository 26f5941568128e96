//! Compares two objects field by field.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference {
    /// Field path such as `status.containerStatuses[main].ready`.
    pub(crate) path: String,
    ours: Option<Value>,
    theirs: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value: &Option<Value>| value.as_ref().map_or("-".to_owned(), ToString::to_string);
        write!(f, "  {}\n    podward:  {}\n    upstream: {}", self.path, text(&self.ours), text(&self.theirs))
    }
}

pub(crate) fn between(ours: &Value, theirs: &Value) -> Vec<Difference> {
    let mut differences = Vec::new();
    walk("", Some(ours), Some(theirs), &mut differences);
    differences
}

fn walk(path: &str, ours: Option<&Value>, theirs: Option<&Value>, found: &mut Vec<Difference>) {
    match (ours, theirs) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                walk(&path, a.get(key), b.get(key), found);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => lists(path, a, b, found),
        (ours, theirs) if ours == theirs => {}
        (ours, theirs) => {
            found.push(Difference { path: path.to_owned(), ours: ours.cloned(), theirs: theirs.cloned() });
        }
    }
}

/// Lists are compared by the names of their items; a different order is a separate difference.
fn lists(path: &str, a: &[Value], b: &[Value], found: &mut Vec<Difference>) {
    let names =
        |list: &[Value]| list.iter().enumerate().map(|(at, item)| label(at, item)).collect::<Vec<_>>();
    let (ours, theirs) = (names(a), names(b));
    let all: BTreeSet<&String> = ours.iter().chain(&theirs).collect();
    if all.len() == ours.len() && all.len() == theirs.len() && ours != theirs {
        found.push(Difference {
            path: format!("{path}[order]"),
            ours: Some(ours.clone().into()),
            theirs: Some(theirs.clone().into()),
        });
    }
    for name in all {
        let find = |list: &'_ [Value], names: &[String]| {
            names.iter().position(|other| other == name).and_then(|at| list.get(at).cloned())
        };
        walk(&format!("{path}[{name}]"), find(a, &ours).as_ref(), find(b, &theirs).as_ref(), found);
    }
}

fn label(at: usize, item: &Value) -> String {
    let named = ["name", "type"].iter().find_map(|key| item.get(key).and_then(Value::as_str));
    named.map_or_else(|| at.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn paths(ours: &Value, theirs: &Value) -> Vec<String> {
        between(ours, theirs).into_iter().map(|difference| difference.path).collect()
    }

    #[test]
    fn differences_have_field_paths() {
        let ours = json!({"status": {"list": [{"name": "a", "ready": true}], "phase": "Running"}});
        let theirs = json!({"status": {"list": [{"name": "a", "ready": false}], "qos": 1}});
        assert_eq!(paths(&ours, &theirs), ["status.list[a].ready", "status.phase", "status.qos"]);
    }

    #[test]
    fn different_order_is_a_difference() {
        let ours = json!([{"type": "a"}, {"type": "b"}]);
        let theirs = json!([{"type": "b"}, {"type": "a"}]);
        assert_eq!(paths(&ours, &theirs), ["[order]"]);
        assert!(paths(&ours, &ours).is_empty());
    }
}
