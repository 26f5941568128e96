//! `podward get pods`.

use anyhow::bail;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use model::Timestamp;
use model::local_api::{PodList, WatchEvent, WatchEventKind, paths};
use ports::clock::{Clock, SystemClock};
use serde_json::Value;

use super::{PrintableObject, print, print_change, print_objects};
use crate::command::arguments::{GetArguments, Output};
use crate::command::client::{Client, typed};
use crate::command::pod_names;
use crate::command::selector::Selector;
use crate::command::table::{Table, age, age_of};

pub(super) async fn run(client: &Client, arguments: &GetArguments) -> anyhow::Result<()> {
    let filter = PodFilter::new(arguments)?;
    if arguments.watch {
        return watch(client, arguments, &filter).await;
    }
    let list: PodList = client.get(paths::PODS).await?;
    let (mut pods, mut objects) = (Vec::new(), Vec::new());
    for item in list.items {
        let pod: Pod = typed(&item)?;
        if filter.matches(&pod) {
            objects.push(printable(&pod, item));
            pods.push(pod);
        }
    }
    for name in &arguments.names {
        if !pods.iter().any(|pod| pod_names::has_name(pod, name)) {
            // Fails with suggestions for the name.
            pod_names::find(client, name, arguments.scope.namespace.as_deref()).await?;
        }
    }
    if print_objects(arguments.format.output, &objects, arguments.names.len() == 1)? {
        return Ok(());
    }
    if pods.is_empty() {
        eprintln!("No pods{}.", filter.scope());
        return Ok(());
    }
    let mut table = filter.table(arguments);
    for pod in &pods {
        table.add_row(filter.row(pod, SystemClock.now()));
    }
    print(&table.take_text())
}

async fn watch(client: &Client, arguments: &GetArguments, filter: &PodFilter) -> anyhow::Result<()> {
    let mut changes = client.open(&format!("{}?watch=true", paths::PODS)).await?.json_lines();
    let mut table = filter.table(arguments);
    // The table of the existing pods is printed at once, so that its columns are aligned.
    let mut is_list_complete = false;
    while let Some(change) = changes.next::<WatchEvent<Value>>().await? {
        if change.kind == WatchEventKind::Bookmark {
            is_list_complete = true;
            print(&table.take_text())?;
            continue;
        }
        let Some(item) = change.object else { continue };
        let pod: Pod = typed(&item)?;
        if !filter.matches(&pod) {
            continue;
        }
        if !matches!(arguments.format.output, Output::Table | Output::Wide) {
            print_change(arguments.format.output, &printable(&pod, item))?;
            continue;
        }
        table.add_row(filter.row(&pod, SystemClock.now()));
        if is_list_complete {
            print(&table.take_text())?;
        }
    }
    bail!("the agent has stopped")
}

/// `document` is the pod as the agent sent it.
fn printable(pod: &Pod, document: Value) -> PrintableObject {
    PrintableObject::new("Pod", pod_names::name_of(pod).1, document)
}

/// Selects pods and columns.
struct PodFilter {
    namespace: Option<String>,
    names: Vec<String>,
    selector: Selector,
    wide: bool,
}

impl PodFilter {
    fn new(arguments: &GetArguments) -> anyhow::Result<Self> {
        Ok(Self {
            namespace: arguments.scope.namespace.clone(),
            names: arguments.names.clone(),
            selector: Selector::parse(arguments.selector.as_deref().unwrap_or_default())?,
            wide: arguments.format.output == Output::Wide,
        })
    }

    fn matches(&self, pod: &Pod) -> bool {
        let (namespace, _) = pod_names::name_of(pod);
        self.namespace.as_deref().is_none_or(|requested| requested == namespace)
            && (self.names.is_empty() || self.names.iter().any(|name| pod_names::has_name(pod, name)))
            && self.selector.matches(pod.metadata.labels.as_ref())
    }

    fn scope(&self) -> String {
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
        let mut table = Table::without_headings();
        if !arguments.no_headers {
            table.add_row(headings.into_iter().map(str::to_owned).collect());
        }
        table
    }

    fn row(&self, pod: &Pod, now: Timestamp) -> Vec<String> {
        let (namespace, name) = pod_names::name_of(pod);
        let summary = pod_summary(pod, now);
        let ip = pod.status.as_ref().and_then(|status| status.pod_ip.clone());
        let mut cells = vec![
            name.to_owned(),
            summary.ready,
            summary.status,
            summary.restarts,
            summary.age,
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
            let qos_class = pod.status.as_ref().and_then(|status| status.qos_class.clone());
            cells.extend([qos_class.unwrap_or_default(), source.unwrap_or_default(), images.join(",")]);
        }
        cells
    }
}

/// The columns of `kubectl get pods`.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::command) struct PodSummary {
    pub(in crate::command) ready: String,
    pub(in crate::command) status: String,
    pub(in crate::command) restarts: String,
    pub(in crate::command) age: String,
}

pub(in crate::command) fn pod_summary(pod: &Pod, now: Timestamp) -> PodSummary {
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
    let total = pod.spec.as_ref().map_or(0, |spec| spec.containers.len()) + sidecars.len();
    let counted = || regular.iter().chain(init.iter().filter(is_sidecar));
    let ready = counted().filter(|container| container.ready).count();
    let init_state = init_state(pod, init, &sidecars);
    let restarted: Vec<&ContainerStatus> =
        if init_state.is_some() { init.iter().collect() } else { counted().collect() };
    let started = status.start_time.as_ref().or(pod.metadata.creation_timestamp.as_ref());
    let shown_status = init_state
        .or_else(|| container_reason(regular, &status.conditions.clone().unwrap_or_default()))
        .or(status.reason.filter(|reason| !reason.is_empty()))
        .or(status.phase)
        .unwrap_or_else(|| "Unknown".to_owned());
    let is_deleted = pod.metadata.deletion_timestamp.is_some();
    PodSummary {
        ready: format!("{ready}/{total}"),
        status: if is_deleted { "Terminating".to_owned() } else { shown_status },
        restarts: restarts(&restarted, now),
        age: age_of(started.map(Timestamp::from_api_time), now),
    }
}

/// For example `3 (25s ago)`.
fn restarts(containers: &[&ContainerStatus], now: Timestamp) -> String {
    let count: i32 = containers.iter().map(|container| container.restart_count).sum();
    let ends = containers.iter().filter_map(|container| {
        let terminated = container.last_state.as_ref()?.terminated.as_ref()?;
        terminated.finished_at.as_ref().map(Timestamp::from_api_time)
    });
    match ends.max().filter(|_| count > 0) {
        Some(last) => format!("{count} ({} ago)", age(now.since(last))),
        None => count.to_string(),
    }
}

/// For example `Init:0/2` or `Init:CrashLoopBackOff`; `None` when all init containers have completed.
fn init_state(pod: &Pod, init: &[ContainerStatus], sidecars: &[&str]) -> Option<String> {
    let total = pod.spec.as_ref()?.init_containers.as_ref()?.len();
    for (done, container) in init.iter().enumerate() {
        let state = container.state.clone().unwrap_or_default();
        let is_sidecar = sidecars.contains(&container.name.as_str());
        if is_sidecar && container.started == Some(true) {
            continue;
        }
        if let Some(terminated) = &state.terminated {
            if terminated.exit_code == 0 {
                continue;
            }
            let reason = terminated.reason.clone().filter(|reason| !reason.is_empty());
            return Some(format!(
                "Init:{}",
                reason.unwrap_or_else(|| format!("ExitCode:{}", terminated.exit_code))
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

/// Why a container waits, or how it terminated. The first container with a reason wins.
fn container_reason(
    containers: &[ContainerStatus],
    conditions: &[k8s_openapi::api::core::v1::PodCondition],
) -> Option<String> {
    let mut shown_reason = None;
    let mut is_running = false;
    for container in containers.iter().rev() {
        let state = container.state.clone().unwrap_or_default();
        if let Some(reason) = state.waiting.and_then(|waiting| waiting.reason).filter(|it| !it.is_empty()) {
            shown_reason = Some(reason);
        } else if let Some(terminated) = state.terminated {
            let reason = terminated.reason.filter(|reason| !reason.is_empty());
            shown_reason = Some(reason.unwrap_or_else(|| match terminated.signal {
                Some(signal) if signal != 0 => format!("Signal:{signal}"),
                _ => format!("ExitCode:{}", terminated.exit_code),
            }));
        } else if state.running.is_some() && container.ready {
            is_running = true;
        }
    }
    // A pod with a completed container and a running one is still running.
    if shown_reason.as_deref() == Some("Completed") && is_running {
        let ready = conditions.iter().any(|found| found.type_ == "Ready" && found.status == "True");
        return Some(if ready { "Running" } else { "NotReady" }.to_owned());
    }
    shown_reason
}

#[cfg(test)]
mod tests;
