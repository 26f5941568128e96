//! The Node object: registration, status updates, and reactions to changes by the control plane.
//!
//! [`watch`] watches the object and publishes it as [`NodeView`]; [`run`] registers the node, updates its status and
//! handles changes by the control plane (pod CIDRs, cordoning).

pub mod agent_metrics;
pub mod cpu_reconciler;
pub mod lease;
pub mod node_cgroups;
pub mod node_reports;
pub mod node_shutdown;
pub mod node_view;
pub mod oom_watcher;
pub mod packet_filter;
pub mod pod_resources;
pub mod pod_watch;
mod registration;
pub mod runtime_health;
mod status_collector;
mod status_updater;
pub mod system_cgroups;
#[cfg(test)]
mod tests;
pub mod watch;

use std::sync::Arc;
use std::time::Duration;

use decide::node::node_status::{NodeEvent, NodeProfile};
use model::{EventSubject, EventType, RecordedEvent};
use ports::api::nodes::ApiNodes;
use ports::clock::Clock;
use ports::host::host_facts::HostFacts;
use ports::runtime::{Images, RuntimeService};
use ports::served::event_recorder::EventRecorder;
use timing::{fraction_of, jitter};
use tokio::sync::watch::Receiver;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::node::node_reports::NodeReports;
use crate::node::node_view::NodeView;
use crate::node::runtime_health::RuntimeHealth;
use status_updater::StatusUpdater;

/// Period of runtime checks after the start, until the node is ready for the first time.
const FAST_CHECK_PERIOD: Duration = Duration::from_millis(100);
/// After this time the normal period applies even if the node is not ready.
const FAST_CHECK_DURATION: Duration = Duration::from_secs(120);
/// Maximum random part of the update period, as a fraction of it.
const JITTER: f64 = 0.04;

/// Who creates the Node object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registration {
    /// `registerNode: true`.
    ByAgent,
    /// `registerNode: false`.
    External,
}

#[derive(Clone, Copy, Debug)]
pub struct NodeStatusSettings {
    pub registration: Registration,
    /// `nodeStatusUpdateFrequency`: period of comparing the node with its status.
    pub update_frequency: Duration,
    /// `nodeStatusReportFrequency`: period of status updates without a change.
    pub report_frequency: Duration,
    pub request_timeout: Duration,
    pub on_forbidden: OnForbidden,
}

/// Reaction when the API server forbids creating the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnForbidden {
    /// Gets the node, because it may already exist.
    GetExisting,
    /// `KubeletRegistrationGetOnExistsOnly`: retries the creation.
    Retry,
}

impl Default for NodeStatusSettings {
    fn default() -> Self {
        Self {
            registration: Registration::ByAgent,
            update_frequency: Duration::from_secs(10),
            report_frequency: Duration::from_secs(300),
            request_timeout: Duration::from_secs(10),
            on_forbidden: OnForbidden::GetExisting,
        }
    }
}

pub struct NodeDeps {
    pub nodes: Arc<dyn ApiNodes>,
    /// The parts of the node status that do not change while the agent runs.
    pub profile: Arc<NodeProfile>,
    pub settings: NodeStatusSettings,
    pub host: Arc<dyn HostFacts>,
    pub runtime: Arc<dyn RuntimeService>,
    pub images: Arc<dyn Images>,
    pub health: RuntimeHealth,
    pub reports: NodeReports,
    pub view: Receiver<NodeView>,
    pub events: Arc<dyn EventRecorder>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
}

impl NodeDeps {
    fn record(&self, event: NodeEvent) {
        let NodeEvent { kind, reason, message } = event;
        let subject = EventSubject::Node(self.profile.name.clone());
        self.events.record(RecordedEvent::new(subject, kind, reason, message, self.clock.now()));
    }

    /// A number in `0..1` for jitter that differs between nodes and over time.
    fn random(&self) -> f64 {
        fraction_of(&(&self.profile.name, self.clock.now()))
    }
}

/// Registers the node and updates its status until cancelled.
pub async fn run(deps: NodeDeps, cancel: CancellationToken) {
    let starting =
        NodeEvent { kind: EventType::Normal, reason: "Starting", message: "Starting kubelet.".to_owned() };
    deps.record(starting);
    cancel.run_until_cancelled(Box::pin(Stage::new(deps).run())).await;
}

struct Stage {
    updater: StatusUpdater,
    health: RuntimeHealth,
    reports: NodeReports,
    view: Receiver<NodeView>,
    pod_cidr: String,
    unschedulable: bool,
}

impl Stage {
    fn new(deps: NodeDeps) -> Self {
        Self {
            health: deps.health.subscribe(),
            reports: deps.reports.clone(),
            view: deps.view.clone(),
            updater: StatusUpdater::new(deps),
            pod_cidr: String::new(),
            unschedulable: false,
        }
    }

    async fn run(mut self) {
        if self.updater.deps.settings.registration == Registration::ByAgent {
            self.updater.register().await;
        }
        let fast_until = tokio::time::Instant::now() + FAST_CHECK_DURATION;
        loop {
            self.handle_node_changes().await;
            self.updater.report().await;
            let deps = &self.updater.deps;
            let next = jitter(deps.settings.update_frequency, JITTER, deps.random());
            self.wait(tokio::time::Instant::now() + next, fast_until).await;
        }
    }

    /// Waits until the status must be compared again, at most until the deadline.
    async fn wait(&mut self, deadline: tokio::time::Instant, fast_until: tokio::time::Instant) {
        loop {
            let is_fast = !self.updater.was_ready && tokio::time::Instant::now() < fast_until;
            tokio::select! {
                () = tokio::time::sleep_until(deadline) => return,
                () = self.health.changed() => return,
                () = self.reports.changed() => return,
                changed = self.view.changed() => match changed {
                    Ok(()) => {
                        self.handle_node_changes().await;
                        // The Node object has just been created by somebody else.
                        if !self.updater.has_reported {
                            return;
                        }
                    }
                    Err(_) => return tokio::time::sleep_until(deadline).await,
                },
                () = tokio::time::sleep(FAST_CHECK_PERIOD), if is_fast => self.health.request_check(),
            }
        }
    }

    /// Records cordoning events, and passes pod CIDRs to the runtime.
    async fn handle_node_changes(&mut self) {
        let view = self.view.borrow_and_update().clone();
        let Some(node) = view.node() else { return };
        let deps = &self.updater.deps;
        let unschedulable = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false);
        if unschedulable != self.unschedulable {
            let reason = if unschedulable { "NodeNotSchedulable" } else { "NodeSchedulable" };
            deps.record(NodeEvent::status_change(&deps.profile.name, reason));
            self.unschedulable = unschedulable;
        }
        let cidr = view.pod_cidrs().join(",");
        if !cidr.is_empty() && cidr != self.pod_cidr {
            match deps.runtime.set_pod_cidr(&cidr).await {
                Ok(()) => {
                    tracing::info!(%cidr, "set pod CIDR in the runtime");
                    self.pod_cidr = cidr;
                }
                Err(error) => {
                    tracing::warn!(%error, %cidr, "failed to set pod CIDR in the runtime");
                }
            }
        }
    }
}
