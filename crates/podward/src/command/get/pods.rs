//! `podward get pods`.

use anyhow::bail;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use model::Timestamp;
use ports::clock::{Clock, SystemClock};
use serde_json::Value;

use super::{headed, print, print_change, print_objects, with_kind};
use crate::command::arguments::{GetArguments, Output};
use crate::command::client::{Client, typed};
use crate::command::names;
use crate::command::selector::Selector;
use crate::command::table::{Table, age, age_of};

pub(super) async fn run(client: &Client, arguments: &GetArguments) -> anyhow::Result<()> {
    let filter = Filter::new(arguments)?;
    if arguments.watch {
        return watch(client, arguments, &filter).await;
    }
    let list = client.json("/pods").await?;
    let items = list.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut chosen = Vec::new();
    for item in items {
        let pod: Pod = typed(&item)?;
        if filter.takes(&pod) {
            chosen.push((pod, with_kind(item, "Pod")));
        }
    }
    for name in &arguments.names {
        if !chosen.iter().any(|(pod, _)| names::is_called(pod, name)) {
            names::find(client, name, arguments.scope.namespace.as_deref()).await?;
        }
    }
    let objects: Vec<Value> = chosen.iter().map(|(_, item)| item.clone()).collect();
    if print_objects(arguments.output, &objects, arguments.names.len() == 1)? {
        return Ok(());
    }
    if chosen.is_empty() {
        eprintln!("No pods{}.", filter.place());
        return Ok(());
    }
    let mut table = filter.table(arguments);
    for (pod, _) in &chosen {
        table.add_row(filter.row(pod, SystemClock.now()));
    }
    print(&table.take_text())
}

async fn watch(client: &Client, arguments: &GetArguments, filter: &Filter) -> anyhow::Result<()> {
    let mut lines = client.open("/pods?watch=true").await?.lines();
    let mut table = filter.table(arguments);
    let mut listed = false;
    while let Some(change) = lines.next().await? {
        if change["type"] == "BOOKMARK" {
            listed = true;
            print(&table.take_text())?;
            continue;
        }
        let object = with_kind(change["object"].clone(), "Pod");
        let pod: Pod = typed(&object)?;
        if !filter.takes(&pod) {
            continue;
        }
        if !matches!(arguments.output, Output::Table | Output::Wide) {
            print_change(arguments.output, &object)?;
            continue;
        }
        table.add_row(filter.row(&pod, SystemClock.now()));
        if listed {
            print(&table.take_text())?;
        }
    }
    bail!("the agent has stopped")
}

/// Which pods and columns are shown.
struct Filter {
    namespace: Option<String>,
    names: Vec<String>,
    selector: Selector,
    wide: bool,
}

impl Filter {
    fn new(arguments: &GetArguments) -> anyhow::Result<Self> {
        Ok(Self {
            namespace: arguments.scope.namespace.clone(),
            names: arguments.names.clone(),
            selector: Selector::parse(arguments.selector.as_deref().unwrap_or_default())?,
            wide: arguments.output == Output::Wide,
        })
    }

    fn takes(&self, pod: &Pod) -> bool {
        let (namespace, _) = names::name_of(pod);
        self.namespace.as_deref().is_none_or(|wanted| wanted == namespace)
            && (self.names.is_empty() || self.names.iter().any(|name| names::is_called(pod, name)))
            && self.selector.matches(pod.metadata.labels.as_ref())
    }

    fn place(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!(" in namespace {namespace:?}"),
            None => " on this node".to_owned(),
        }
    }

    fn table(&self, arguments: &GetArguments) -> Table {
        let mut headings = vec!["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP"];
        if self.namespace.is_none() {
            headings.insert(0, "NAMESPACE");
        }
        if self.wide {
            headings.extend(["QOS", "SOURCE", "IMAGES"]);
        }
        let mut table = headed([], true);
        if !arguments.no_headers {
            table.add_row(headings.into_iter().map(str::to_owned).collect());
        }
        table
    }

    fn row(&self, pod: &Pod, now: Timestamp) -> Vec<String> {
        let (namespace, name) = names::name_of(pod);
        let state = pod_state(pod, now);
        let ip = pod.status.as_ref().and_then(|status| status.pod_ip.clone());
        let mut cells = vec![
            name.to_owned(),
            state.ready,
            state.status,
            state.restarts,
            state.age,
            ip.filter(|ip| !ip.is_empty()).unwrap_or_else(|| "<none>".to_owned()),
        ];
        if self.namespace.is_none() {
            cells.insert(0, namespace.to_owned());
        }
        if self.wide {
            let annotations = pod.metadata.annotations.as_ref();
            let source = annotations.and_then(|all| all.get(model::labels::CONFIG_SOURCE)).cloned();
            let images = pod.spec.iter().flat_map(|spec| &spec.containers);
            let images: Vec<&str> = images.filter_map(|container| container.image.as_deref()).collect();
            let class = pod.status.as_ref().and_then(|status| status.qos_class.clone());
            cells.extend([class.unwrap_or_default(), source.unwrap_or_default(), images.join(",")]);
        }
        cells
    }
}

/// The short form of a pod's state, as kubectl has it.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::command) struct PodState {
    pub(in crate::command) ready: String,
    pub(in crate::command) status: String,
    pub(in crate::command) restarts: String,
    pub(in crate::command) age: String,
}

/// A pod's state in kubectl's words.
pub(in crate::command) fn pod_state(pod: &Pod, now: Timestamp) -> PodState {
    let status = pod.status.clone().unwrap_or_default();
    let regular = status.container_statuses.as_deref().unwrap_or_default();
    let init = status.init_container_statuses.as_deref().unwrap_or_default();
    let sidecars: Vec<&str> = pod
        .spec
        .iter()
        .flat_map(|spec| spec.init_containers.iter().flatten())
        .filter(|container| container.restart_policy.as_deref() == Some("Always"))
        .map(|container| container.name.as_str())
        .collect();
    let is_sidecar = |status: &&ContainerStatus| sidecars.contains(&status.name.as_str());
    let wanted = pod.spec.as_ref().map_or(0, |spec| spec.containers.len()) + sidecars.len();
    let counted = || regular.iter().chain(init.iter().filter(is_sidecar));
    let ready = counted().filter(|container| container.ready).count();
    let initializing = initializing(pod, init, &sidecars);
    let restarted: Vec<&ContainerStatus> =
        if initializing.is_some() { init.iter().collect() } else { counted().collect() };
    let started = status.start_time.as_ref().or(pod.metadata.creation_timestamp.as_ref());
    let word = initializing
        .or_else(|| telling(regular, &status.conditions.clone().unwrap_or_default()))
        .or(status.reason.filter(|reason| !reason.is_empty()))
        .or(status.phase)
        .unwrap_or_else(|| "Unknown".to_owned());
    let word = if pod.metadata.deletion_timestamp.is_some() { "Terminating".to_owned() } else { word };
    PodState {
        ready: format!("{ready}/{wanted}"),
        status: word,
        restarts: restarts(&restarted, now),
        age: age_of(started.map(Timestamp::from_api_time), now),
    }
}

/// `3 (25s ago)`.
fn restarts(containers: &[&ContainerStatus], now: Timestamp) -> String {
    let count: i32 = containers.iter().map(|container| container.restart_count).sum();
    let ends = containers.iter().filter_map(|container| {
        let ended = container.last_state.as_ref()?.terminated.as_ref()?;
        ended.finished_at.as_ref().map(Timestamp::from_api_time)
    });
    match ends.max().filter(|_| count > 0) {
        Some(last) => format!("{count} ({} ago)", age(now.since(last))),
        None => count.to_string(),
    }
}

/// `Init:0/2` and its kind, while init containers are at work.
fn initializing(pod: &Pod, init: &[ContainerStatus], sidecars: &[&str]) -> Option<String> {
    let total = pod.spec.as_ref()?.init_containers.as_ref()?.len();
    for (done, container) in init.iter().enumerate() {
        let state = container.state.clone().unwrap_or_default();
        let is_sidecar = sidecars.contains(&container.name.as_str());
        if is_sidecar && container.started == Some(true) {
            continue;
        }
        if let Some(ended) = &state.terminated {
            if ended.exit_code == 0 {
                continue;
            }
            let reason = ended.reason.clone().filter(|reason| !reason.is_empty());
            return Some(format!(
                "Init:{}",
                reason.unwrap_or_else(|| format!("ExitCode:{}", ended.exit_code))
            ));
        }
        let waiting = state.waiting.and_then(|waiting| waiting.reason);
        return match waiting.filter(|reason| !reason.is_empty() && reason != "PodInitializing") {
            Some(reason) => Some(format!("Init:{reason}")),
            None => Some(format!("Init:{done}/{total}")),
        };
    }
    None
}

/// The most telling word: why a container waits or how it ended.
fn telling(
    containers: &[ContainerStatus],
    conditions: &[k8s_openapi::api::core::v1::PodCondition],
) -> Option<String> {
    let mut word = None;
    let mut running = false;
    for container in containers.iter().rev() {
        let state = container.state.clone().unwrap_or_default();
        if let Some(reason) = state.waiting.and_then(|waiting| waiting.reason).filter(|it| !it.is_empty()) {
            word = Some(reason);
        } else if let Some(ended) = state.terminated {
            let reason = ended.reason.filter(|reason| !reason.is_empty());
            word = Some(reason.unwrap_or_else(|| match ended.signal {
                Some(signal) if signal != 0 => format!("Signal:{signal}"),
                _ => format!("ExitCode:{}", ended.exit_code),
            }));
        } else if state.running.is_some() && container.ready {
            running = true;
        }
    }
    // A pod of which one container has ended well still runs.
    if word.as_deref() == Some("Completed") && running {
        let ready = conditions.iter().any(|found| found.type_ == "Ready" && found.status == "True");
        return Some(if ready { "Running" } else { "NotReady" }.to_owned());
    }
    word
}

#[cfg(test)]
mod tests;
