//! `podward describe pod`: everything about a pod, in kubectl's layout.

mod containers;
mod lines;
mod volumes;

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::bail;
use k8s_openapi::api::core::v1::{Event, Pod, Toleration};
use model::Timestamp;
use ports::clock::{Clock, SystemClock};
use serde_json::Value;

use super::arguments::DescribeArguments;
use super::client::{Client, typed};
use super::get::{event_table, pod_state, print};
use super::names::{find, name_of};
use super::table::long_time;
use lines::Lines;

/// Runs the command.
pub(super) async fn run(arguments: DescribeArguments) -> anyhow::Result<ExitCode> {
    let client = Client::of(&arguments.connection);
    let name = match (&*arguments.what, &arguments.name) {
        ("pod" | "pods" | "po", Some(name)) => name,
        ("pod" | "pods" | "po", None) => {
            bail!("which pod? `podward describe pod NAME`; `podward get pods` lists them")
        }
        (what, None) => &what.to_owned(),
        (what, Some(_)) => {
            bail!("cannot describe {what:?}; only pods can be described: `podward describe pod NAME`")
        }
    };
    let pod = find(&client, name, arguments.scope.namespace.as_deref()).await?;
    let events = events_of(&client, &pod).await?;
    print(&text(&pod, &events, SystemClock.now()))?;
    Ok(ExitCode::SUCCESS)
}

async fn events_of(client: &Client, pod: &Pod) -> anyhow::Result<Vec<Event>> {
    let list = client.json("/podward/events").await?;
    let items = list.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
    let events = items.into_iter().filter(|item| {
        let subject = &item["involvedObject"];
        subject["uid"].as_str() == pod.metadata.uid.as_deref()
    });
    events.map(|item| Ok(typed(&item)?)).collect()
}

fn text(pod: &Pod, events: &[Event], now: Timestamp) -> String {
    let mut lines = Lines::default();
    identity(&mut lines, pod, now);
    containers::write(&mut lines, pod);
    conditions(&mut lines, pod);
    volumes::write(&mut lines, pod);
    let spec = pod.spec.clone().unwrap_or_default();
    let status = pod.status.clone().unwrap_or_default();
    lines.field("QoS Class", status.qos_class.as_deref().unwrap_or("<none>"));
    lines.list("Node-Selectors", &pairs(spec.node_selector.as_ref(), "="));
    let tolerations: Vec<String> = spec.tolerations.iter().flatten().map(toleration).collect();
    lines.list("Tolerations", &tolerations);
    let mut text = lines.into_text();
    if events.is_empty() {
        text.push_str(&format!("{:<18}<none>\n", "Events:"));
    } else {
        text.push_str("Events:\n");
        for line in event_table(events, now).lines() {
            text.push_str(&format!("  {line}\n"));
        }
    }
    text
}

fn identity(lines: &mut Lines, pod: &Pod, now: Timestamp) {
    let (namespace, name) = name_of(pod);
    let spec = pod.spec.clone().unwrap_or_default();
    let status = pod.status.clone().unwrap_or_default();
    lines.field("Name", name);
    lines.field("Namespace", namespace);
    lines.field("Priority", &spec.priority.unwrap_or(0).to_string());
    if let Some(class) = &spec.priority_class_name {
        lines.field("Priority Class Name", class);
    }
    lines.field("Service Account", spec.service_account_name.as_deref().unwrap_or("<none>"));
    let node = spec.node_name.as_deref().unwrap_or("<none>");
    match status.host_ip.as_deref() {
        Some(address) => lines.field("Node", &format!("{node}/{address}")),
        None => lines.field("Node", node),
    }
    let started = status.start_time.as_ref().map(Timestamp::from_api_time);
    if let Some(started) = started {
        lines.field("Start Time", &long_time(started));
    }
    lines.list("Labels", &pairs(pod.metadata.labels.as_ref(), "="));
    lines.list("Annotations", &pairs(pod.metadata.annotations.as_ref(), ": "));
    let state = pod_state(pod, now);
    let phase = status.phase.clone().unwrap_or_else(|| "Unknown".to_owned());
    if state.status == phase || state.status.is_empty() {
        lines.field("Status", &phase);
    } else {
        lines.field("Status", &format!("{phase} ({})", state.status));
    }
    for (title, value) in [("Reason", &status.reason), ("Message", &status.message)] {
        if let Some(value) = value.as_deref().filter(|value| !value.is_empty()) {
            lines.field(title, value);
        }
    }
    lines.field("IP", status.pod_ip.as_deref().unwrap_or_default());
    let ips: Vec<String> = status.pod_ips.iter().flatten().map(|ip| ip.ip.clone()).collect();
    lines.field("IPs", if ips.is_empty() { "<none>" } else { "" });
    for ip in ips {
        lines.nested(1, "IP", &ip);
    }
}

fn conditions(lines: &mut Lines, pod: &Pod) {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    if conditions.is_empty() {
        return;
    }
    lines.title("Conditions");
    let mut table = super::table::Table::new(["Type", "Status", "Reason", "Message"]);
    for condition in &conditions {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        table.add([&condition.type_, &condition.status, &text(&condition.reason), &text(&condition.message)]);
    }
    for line in table.take_text().lines() {
        lines.raw(1, line);
    }
}

/// `key=value` of a map, without what only the machine reads.
fn pairs(map: Option<&BTreeMap<String, String>>, sign: &str) -> Vec<String> {
    let all = map.into_iter().flatten();
    all.map(|(key, value)| format!("{key}{sign}{value}")).collect()
}

fn toleration(toleration: &Toleration) -> String {
    let key = toleration.key.as_deref().unwrap_or_default();
    let value = toleration.value.as_deref().map(|value| format!("={value}")).unwrap_or_default();
    let effect = toleration.effect.as_deref().map(|effect| format!(":{effect}")).unwrap_or_default();
    let exists = if toleration.operator.as_deref() == Some("Exists") { " op=Exists" } else { "" };
    let seconds = toleration.toleration_seconds.map(|count| format!(" for {count}s")).unwrap_or_default();
    format!("{key}{value}{effect}{exists}{seconds}").trim().to_owned()
}

#[cfg(test)]
mod tests;
