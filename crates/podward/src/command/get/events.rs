//! `podward get events` and `podward events`.

use anyhow::bail;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use model::Timestamp;
use ports::clock::{Clock, SystemClock};
use serde_json::Value;

use super::{headed, print, print_change, print_objects, with_kind};
use crate::command::arguments::{EventArguments, GetArguments, Output};
use crate::command::client::{Client, typed};
use crate::command::table::{Table, age};

const HEADINGS: [&str; 5] = ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"];

/// Which events, and how.
#[derive(Debug)]
pub(super) struct Question {
    pod: Option<String>,
    namespace: Option<String>,
    types: Vec<String>,
    output: Output,
    watch: bool,
    no_headers: bool,
}

impl Question {
    pub(super) fn of_get(arguments: &GetArguments) -> anyhow::Result<Self> {
        if arguments.names.len() > 1 {
            bail!("events are shown of one pod or of all");
        }
        Ok(Self {
            pod: arguments.names.first().cloned(),
            namespace: arguments.scope.namespace.clone(),
            types: Vec::new(),
            output: arguments.output,
            watch: arguments.watch,
            no_headers: arguments.no_headers,
        })
    }

    pub(super) fn of_events(arguments: EventArguments) -> Self {
        Self {
            pod: arguments.pod,
            namespace: arguments.scope.namespace,
            types: arguments.types,
            output: arguments.output,
            watch: arguments.watch,
            no_headers: arguments.no_headers,
        }
    }

    fn takes(&self, event: &Event) -> bool {
        let subject = &event.involved_object;
        let name = subject.name.as_deref().unwrap_or_default();
        let same = |wanted: &str| {
            let wanted = wanted.rsplit('/').next().unwrap_or(wanted);
            // A static pod's events have its name with the node's; the node is not known here.
            name == wanted || name.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('-'))
        };
        let kind = event.type_.as_deref().unwrap_or_default();
        self.pod.as_deref().is_none_or(same)
            && self.namespace.as_deref().is_none_or(|wanted| subject.namespace.as_deref() == Some(wanted))
            && (self.types.is_empty() || self.types.iter().any(|wanted| wanted.eq_ignore_ascii_case(kind)))
    }
}

pub(super) async fn run(client: &Client, question: &Question) -> anyhow::Result<()> {
    if question.watch {
        return watch(client, question).await;
    }
    let list = client.json("/podward/events").await?;
    let items = list.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut chosen = Vec::new();
    for item in items {
        let event: Event = typed(&item)?;
        if question.takes(&event) {
            chosen.push((event, with_kind(item, "Event")));
        }
    }
    let objects: Vec<Value> = chosen.iter().map(|(_, item)| item.clone()).collect();
    if print_objects(question.output, &objects, false)? {
        return Ok(());
    }
    if chosen.is_empty() {
        let of = question.pod.as_ref().map(|pod| format!(" of pod {pod:?}")).unwrap_or_default();
        eprintln!("No events{of}.");
        return Ok(());
    }
    let mut table = headed(HEADINGS, question.no_headers);
    for (event, _) in &chosen {
        table.add_row(row(event, SystemClock.now()));
    }
    print(&table.take_text())
}

async fn watch(client: &Client, question: &Question) -> anyhow::Result<()> {
    let mut lines = client.open("/podward/events?watch=true").await?.lines();
    let mut table = headed(HEADINGS, question.no_headers);
    while let Some(change) = lines.next().await? {
        let object = with_kind(change["object"].clone(), "Event");
        let event: Event = typed(&object)?;
        if !question.takes(&event) {
            continue;
        }
        if matches!(question.output, Output::Table | Output::Wide) {
            table.add_row(row(&event, SystemClock.now()));
            print(&table.take_text())?;
        } else {
            print_change(question.output, &object)?;
        }
    }
    bail!("the agent has stopped")
}

/// The events of one object, as a description shows them.
pub(in crate::command) fn event_table(events: &[Event], now: Timestamp) -> String {
    let mut table = Table::new(["Type", "Reason", "Age", "From", "Message"]);
    table.add(["----", "------", "----", "----", "-------"]);
    for event in events {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let from = event.source.as_ref().and_then(|source| source.component.clone()).unwrap_or_default();
        table.add([
            &text(&event.type_),
            &text(&event.reason),
            &seen(event, now),
            &from,
            text(&event.message).trim_end(),
        ]);
    }
    table.take_text()
}

/// `10s (x3 over 70s)`.
fn seen(event: &Event, now: Timestamp) -> String {
    let since = |time: Option<&Time>| {
        time.map(|time| age(now.since(Timestamp::from_api_time(time)))).unwrap_or_default()
    };
    let last = since(event.last_timestamp.as_ref());
    match event.count {
        Some(count) if count > 1 => {
            format!("{last} (x{count} over {})", since(event.first_timestamp.as_ref()))
        }
        _ => last,
    }
}

fn row(event: &Event, now: Timestamp) -> Vec<String> {
    let subject = &event.involved_object;
    let kind = subject.kind.as_deref().unwrap_or_default().to_lowercase();
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    vec![
        seen(event, now),
        text(&event.type_),
        text(&event.reason),
        format!("{kind}/{}", text(&subject.name)),
        text(&event.message).trim_end().to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn events() -> Vec<Event> {
        let event = |name: &str, reason: &str, count: i32| {
            serde_json::from_value(json!({"metadata": {"name": "e", "namespace": "default"}, "count": count,
                "involvedObject": {"kind": "Pod", "name": name, "namespace": "default"},
                "type": "Normal", "reason": reason, "message": "m\n", "firstTimestamp": "2026-01-01T00:00:00Z",
                "lastTimestamp": "2026-01-01T00:01:00Z"}))
            .unwrap()
        };
        vec![event("a-node", "Pulled", 1), event("b-node", "BackOff", 3)]
    }

    fn question(line: &str) -> Question {
        use clap::Parser;
        let words = ["podward", "events"].into_iter().chain(line.split_whitespace());
        match crate::command::arguments::CommandLine::try_parse_from(words).unwrap().command {
            crate::command::arguments::Command::Events(events) => Question::of_events(events),
            _ => panic!(),
        }
    }

    const NOW: Timestamp = Timestamp::from_secs(1_767_225_670);

    #[test]
    fn events_are_shown_as_kubectl_would() {
        let mut table = headed(HEADINGS, false);
        events().iter().for_each(|event| table.add_row(row(event, NOW)));
        let text = table.take_text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "LAST SEEN           TYPE     REASON    OBJECT       MESSAGE");
        assert_eq!(lines[1], "10s                 Normal   Pulled    pod/a-node   m");
        assert_eq!(lines[2], "10s (x3 over 70s)   Normal   BackOff   pod/b-node   m");
    }

    #[test]
    fn one_pods_events_are_picked() {
        let all = events();
        let picked = |line: &str| {
            let question = question(line);
            all.iter().filter(|event| question.takes(event)).count()
        };
        assert_eq!(picked(""), 2);
        assert_eq!(picked("b-node -n default"), 1);
        assert_eq!(picked("b"), 1, "a static pod by the name of its manifest");
        assert_eq!(picked("none"), 0);
        assert_eq!(picked("-n other"), 0);
        assert_eq!(picked("--types warning"), 0);
        assert_eq!(picked("--types=Normal,Warning"), 2);
    }

    #[test]
    fn arguments_that_are_not_known_are_refused() {
        use clap::Parser;
        for bad in ["-o xml", "a b", "--what", "-n"] {
            let words = ["podward", "events"].into_iter().chain(bad.split_whitespace());
            assert!(crate::command::arguments::CommandLine::try_parse_from(words).is_err(), "{bad:?}");
        }
    }
}
