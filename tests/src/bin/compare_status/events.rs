//! Events of both agents in a common form.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, Result};
use scenarios::{Agent, NODE, Node};
use serde_json::Value;

/// An event without times and counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Event {
    field: String,
    kind: String,
    reason: String,
    message: String,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Upstream's log does not show whether a message ends with a line break.
        write!(f, "{} {} {} {}", self.kind, self.reason, self.field, self.message.trim_end())
    }
}

/// Events by manifest name.
pub(crate) type PodEvents = BTreeMap<String, Vec<Event>>;

/// All events that the agent has reported so far.
pub(crate) async fn of(node: &Node, agent: Agent) -> Result<PodEvents> {
    let events = match agent {
        Agent::Podward => from_store(&node.agent.page("/podward/events").await?)?,
        Agent::Upstream => from_log(&node.agent.log_tail(usize::MAX)),
    };
    let mut by_pod = PodEvents::new();
    for (pod, event) in events {
        by_pod.entry(pod).or_default().push(event);
    }
    Ok(by_pod)
}

fn from_store(text: &str) -> Result<Vec<(String, Event)>> {
    let list: Value = serde_json::from_str(text).context("parse the events")?;
    let text = |item: &Value, pointer: &str| {
        item.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let items = list.get("items").and_then(Value::as_array).into_iter().flatten();
    Ok(items
        .filter_map(|item| {
            let event = Event {
                field: text(item, "/involvedObject/fieldPath"),
                kind: text(item, "/type"),
                reason: text(item, "/reason"),
                message: text(item, "/message"),
            };
            Some((manifest(&text(item, "/involvedObject/name"))?, event))
        })
        .collect())
}

/// Upstream's log lines: `"Event occurred" object="ns/name" fieldPath="..." kind="Pod" ... message="..."`.
fn from_log(log: &str) -> Vec<(String, Event)> {
    on_one_line(log)
        .lines()
        .filter(|line| line.contains("\"Event occurred\"") && line.contains(" kind=\"Pod\""))
        .filter_map(|line| {
            let event = Event {
                field: quoted(line, "fieldPath")?,
                kind: quoted(line, "type")?,
                reason: quoted(line, "reason")?,
                message: quoted(line, "message")?,
            };
            Some((manifest(&quoted(line, "object")?)?, event))
        })
        .collect()
}

/// A multi-line value is logged as `key=<`, the lines with a tab each, ` >`.
fn on_one_line(log: &str) -> String {
    let mut text = String::new();
    let mut lines = log.lines();
    while let Some(line) = lines.next() {
        let Some(start) = line.strip_suffix("=<") else {
            text.push_str(line);
            text.push('\n');
            continue;
        };
        let parts: Vec<&str> = lines.by_ref().map_while(|line| line.strip_prefix('\t')).collect();
        let value = parts.join("\n").replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        text.push_str(&format!("{start}=\"{value}\"\n"));
    }
    text
}

/// The value of `key="value"`, quoted as in Go.
fn quoted(line: &str, key: &str) -> Option<String> {
    let start = line.find(&format!(" {key}=\""))? + key.len() + 3;
    let mut value = String::new();
    let mut letters = line.get(start..)?.chars();
    loop {
        match letters.next()? {
            '"' => return Some(value),
            '\\' => match letters.next()? {
                'n' => value.push('\n'),
                't' => value.push('\t'),
                other => value.push(other),
            },
            letter => value.push(letter),
        }
    }
}

fn manifest(full_name: &str) -> Option<String> {
    let name = full_name.rsplit('/').next()?;
    name.strip_suffix(&format!("-{NODE}")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_events_from_upstream_log() {
        let line = r#"I1 1 event.go:389] "Event occurred" object="default/web-node-a" fieldPath="spec.containers{main}" kind="Pod" apiVersion="v1" type="Warning" reason="Failed" message="Error: \"x\"""#;
        let events = from_log(line);
        assert_eq!(events[0].0, "web");
        assert_eq!(events[0].1.to_string(), r#"Warning Failed spec.containers{main} Error: "x""#);
    }
}
