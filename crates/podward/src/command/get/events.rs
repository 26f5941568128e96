//! `podward get events` and `podward events`.

use anyhow::bail;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use model::Timestamp;
use model::local_api::{EventList, WatchEvent, paths};
use ports::clock::{Clock, SystemClock};

use super::{PrintableObject, print, print_change, print_objects, table_with_headings};
use crate::command::arguments::{EventArguments, GetArguments, Output};
use crate::command::client::Client;
use crate::command::table::{Table, age};

const HEADINGS: [&str; 5] = ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"];

/// The query of `podward get events`, which names the pod as an object.
pub(super) fn query_from_get(arguments: GetArguments) -> anyhow::Result<EventArguments> {
    if arguments.names.len() > 1 {
        bail!("name at most one pod to see its events");
    }
    Ok(EventArguments {
        pod: arguments.names.into_iter().next(),
        scope: arguments.scope,
        types: Vec::new(),
        format: arguments.format,
        watch: arguments.watch,
        no_headers: arguments.no_headers,
        connection: arguments.connection,
    })
}

fn matches(query: &EventArguments, event: &Event) -> bool {
    let subject = &event.involved_object;
    let name = subject.name.as_deref().unwrap_or_default();
    let has_name = |pod: &str| {
        let pod = pod.rsplit('/').next().unwrap_or(pod);
        // The name of a static pod ends with the name of the node, which is unknown here.
        name == pod || name.strip_prefix(pod).is_some_and(|rest| rest.starts_with('-'))
    };
    let in_namespace = |namespace: &str| subject.namespace.as_deref() == Some(namespace);
    let kind = event.type_.as_deref().unwrap_or_default();
    query.pod.as_deref().is_none_or(has_name)
        && query.scope.namespace.as_deref().is_none_or(in_namespace)
        && (query.types.is_empty() || query.types.iter().any(|type_| type_.eq_ignore_ascii_case(kind)))
}

pub(super) async fn run(client: &Client, query: &EventArguments) -> anyhow::Result<()> {
    if query.watch {
        return watch(client, query).await;
    }
    let list: EventList = client.get(paths::EVENTS).await?;
    let events: Vec<Event> = list.items.into_iter().filter(|event| matches(query, event)).collect();
    let objects = events.iter().map(printable).collect::<anyhow::Result<Vec<_>>>()?;
    if print_objects(query.format.output, &objects, false)? {
        return Ok(());
    }
    if events.is_empty() {
        let of_pod = query.pod.as_ref().map(|pod| format!(" of pod {pod:?}")).unwrap_or_default();
        eprintln!("No events{of_pod}.");
        return Ok(());
    }
    let mut table = table_with_headings(HEADINGS, query.no_headers);
    for event in &events {
        table.add_row(row(event, SystemClock.now()));
    }
    print(&table.take_text())
}

async fn watch(client: &Client, query: &EventArguments) -> anyhow::Result<()> {
    let mut changes = client.open(&format!("{}?watch=true", paths::EVENTS)).await?.json_lines();
    let mut table = table_with_headings(HEADINGS, query.no_headers);
    while let Some(WatchEvent { object, .. }) = changes.next::<WatchEvent<Event>>().await? {
        let Some(event) = object.filter(|event| matches(query, event)) else { continue };
        if matches!(query.format.output, Output::Table | Output::Wide) {
            table.add_row(row(&event, SystemClock.now()));
            print(&table.take_text())?;
        } else {
            print_change(query.format.output, &printable(&event)?)?;
        }
    }
    bail!("the agent has stopped")
}

fn printable(event: &Event) -> anyhow::Result<PrintableObject> {
    let name = event.metadata.name.as_deref().unwrap_or_default();
    Ok(PrintableObject::new("Event", name, serde_json::to_value(event)?))
}

/// The events of one object in the layout of `describe`.
pub(in crate::command) fn event_table(events: &[Event], now: Timestamp) -> String {
    let mut table = Table::new(["Type", "Reason", "Age", "From", "Message"]);
    table.add(["----", "------", "----", "----", "-------"]);
    for event in events {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let from = event.source.as_ref().and_then(|source| source.component.clone()).unwrap_or_default();
        table.add([
            &text(&event.type_),
            &text(&event.reason),
            &last_seen(event, now),
            &from,
            text(&event.message).trim_end(),
        ]);
    }
    table.take_text()
}

/// For example `10s (x3 over 70s)`.
fn last_seen(event: &Event, now: Timestamp) -> String {
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
        last_seen(event, now),
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

    fn query(line: &str) -> EventArguments {
        use clap::Parser;
        let arguments = ["podward", "events"].into_iter().chain(line.split_whitespace());
        match crate::command::arguments::CommandLine::try_parse_from(arguments).unwrap().command {
            crate::command::arguments::Command::Events(events) => events,
            _ => panic!(),
        }
    }

    const NOW: Timestamp = Timestamp::from_secs(1_767_225_670);

    #[test]
    fn prints_events_as_kubectl() {
        let mut table = table_with_headings(HEADINGS, false);
        events().iter().for_each(|event| table.add_row(row(event, NOW)));
        let text = table.take_text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "LAST SEEN           TYPE     REASON    OBJECT       MESSAGE");
        assert_eq!(lines[1], "10s                 Normal   Pulled    pod/a-node   m");
        assert_eq!(lines[2], "10s (x3 over 70s)   Normal   BackOff   pod/b-node   m");
    }

    #[test]
    fn filters_events_by_pod_namespace_and_type() {
        let all = events();
        let count = |line: &str| {
            let query = query(line);
            all.iter().filter(|event| matches(&query, event)).count()
        };
        assert_eq!(count(""), 2);
        assert_eq!(count("b-node -n default"), 1);
        assert_eq!(count("b"), 1, "a static pod by the name of its manifest");
        assert_eq!(count("none"), 0);
        assert_eq!(count("-n other"), 0);
        assert_eq!(count("--types warning"), 0);
        assert_eq!(count("--types=Normal,Warning"), 2);
    }

    #[test]
    fn rejects_unknown_arguments() {
        use clap::Parser;
        for bad in ["-o xml", "a b", "--what", "-n"] {
            let arguments = ["podward", "events"].into_iter().chain(bad.split_whitespace());
            assert!(crate::command::arguments::CommandLine::try_parse_from(arguments).is_err(), "{bad:?}");
        }
    }
}
