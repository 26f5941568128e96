//! `podward describe pod`: all details of a pod, in kubectl's layout.

mod containers;
mod description;
mod volumes;

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::bail;
use k8s_openapi::api::core::v1::{Event, Pod, Toleration};
use model::Timestamp;
use model::local_api::{EventList, paths};
use ports::clock::{Clock, SystemClock};

use super::arguments::DescribeArguments;
use super::client::Client;
use super::get::{event_table, pod_summary, print};
use super::pod_names::{find, name_of};
use super::table::long_time;
use description::Description;

pub(super) async fn run(arguments: DescribeArguments) -> anyhow::Result<ExitCode> {
    let client = Client::from_flags(&arguments.connection);
    let name = match (&*arguments.kind_or_name, &arguments.name) {
        ("pod" | "pods" | "po", Some(name)) => name,
        ("pod" | "pods" | "po", None) => {
            bail!("name a pod: `podward describe pod NAME`; `podward get pods` lists the pods")
        }
        (name, None) => &name.to_owned(),
        (kind, Some(_)) => {
            bail!("cannot describe {kind:?}, only pods: `podward describe pod NAME`")
        }
    };
    let pod = find(&client, name, arguments.scope.namespace.as_deref()).await?;
    let events = events_of(&client, &pod).await?;
    print(&text(&pod, &events, SystemClock.now()))?;
    Ok(ExitCode::SUCCESS)
}

async fn events_of(client: &Client, pod: &Pod) -> anyhow::Result<Vec<Event>> {
    let list: EventList = client.get(paths::EVENTS).await?;
    Ok(list.items.into_iter().filter(|event| event.involved_object.uid == pod.metadata.uid).collect())
}

fn text(pod: &Pod, events: &[Event], now: Timestamp) -> String {
    let mut description = Description::default();
    identity(&mut description, pod, now);
    containers::write(&mut description, pod);
    conditions(&mut description, pod);
    volumes::write(&mut description, pod);
    let spec = pod.spec.clone().unwrap_or_default();
    let status = pod.status.clone().unwrap_or_default();
    description.field("QoS Class", status.qos_class.as_deref().unwrap_or("<none>"));
    description.list("Node-Selectors", &pairs(spec.node_selector.as_ref(), "="));
    let tolerations: Vec<String> = spec.tolerations.iter().flatten().map(toleration).collect();
    description.list("Tolerations", &tolerations);
    let mut text = description.into_text();
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

fn identity(description: &mut Description, pod: &Pod, now: Timestamp) {
    let (namespace, name) = name_of(pod);
    let spec = pod.spec.clone().unwrap_or_default();
    let status = pod.status.clone().unwrap_or_default();
    description.field("Name", name);
    description.field("Namespace", namespace);
    description.field("Priority", &spec.priority.unwrap_or(0).to_string());
    if let Some(class) = &spec.priority_class_name {
        description.field("Priority Class Name", class);
    }
    description.field("Service Account", spec.service_account_name.as_deref().unwrap_or("<none>"));
    let node = spec.node_name.as_deref().unwrap_or("<none>");
    match status.host_ip.as_deref() {
        Some(address) => description.field("Node", &format!("{node}/{address}")),
        None => description.field("Node", node),
    }
    let started = status.start_time.as_ref().map(Timestamp::from_api_time);
    if let Some(started) = started {
        description.field("Start Time", &long_time(started));
    }
    description.list("Labels", &pairs(pod.metadata.labels.as_ref(), "="));
    description.list("Annotations", &pairs(pod.metadata.annotations.as_ref(), ": "));
    let summary = pod_summary(pod, now);
    let phase = status.phase.clone().unwrap_or_else(|| "Unknown".to_owned());
    if summary.status == phase || summary.status.is_empty() {
        description.field("Status", &phase);
    } else {
        description.field("Status", &format!("{phase} ({})", summary.status));
    }
    for (title, value) in [("Reason", &status.reason), ("Message", &status.message)] {
        if let Some(value) = value.as_deref().filter(|value| !value.is_empty()) {
            description.field(title, value);
        }
    }
    description.field("IP", status.pod_ip.as_deref().unwrap_or_default());
    let ips: Vec<String> = status.pod_ips.iter().flatten().map(|ip| ip.ip.clone()).collect();
    description.field("IPs", if ips.is_empty() { "<none>" } else { "" });
    for ip in ips {
        description.nested(1, "IP", &ip);
    }
}

fn conditions(description: &mut Description, pod: &Pod) {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    if conditions.is_empty() {
        return;
    }
    description.title("Conditions");
    let mut table = super::table::Table::new(["Type", "Status", "Reason", "Message"]);
    for condition in &conditions {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        table.add([&condition.type_, &condition.status, &text(&condition.reason), &text(&condition.message)]);
    }
    for line in table.take_text().lines() {
        description.raw(1, line);
    }
}

fn pairs(map: Option<&BTreeMap<String, String>>, separator: &str) -> Vec<String> {
    let all = map.into_iter().flatten();
    all.map(|(key, value)| format!("{key}{separator}{value}")).collect()
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
