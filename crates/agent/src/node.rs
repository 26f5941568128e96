//! The Node object: registration, status and what follows from it.
//!
//! [`watch`] follows the object and publishes it as [`NodeView`]; [`run`] registers the node, tells its status and
//! acts on what the control plane wrote (pod address ranges, cordoning).

mod gather;
mod registration;
mod reporter;
#[cfg(test)]
mod tests;
pub mod watch;

use std::sync::Arc;
use std::time::Duration;

use decide::node_status::schedule::share;
use decide::node_status::{NodeEvent, NodeProfile};
use model::{EventSubject, EventType, RecordedEvent};
use ports::api::nodes::ApiNodes;
use ports::clock::Clock;
use ports::event_recorder::EventRecorder;
use ports::host_facts::HostFacts;
use ports::runtime::{Images, RuntimeService};
use tokio::sync::watch::Receiver;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::node_inputs::NodeInputs;
use crate::node_view::NodeView;
use crate::runtime_health::RuntimeHealth;
use reporter::Reporter;

/// How often the runtime is asked while the node has not been ready yet, and for how long.
const FAST_PERIOD: Duration = Duration::from_millis(100);
const FAST_FOR: Duration = Duration::from_secs(120);
/// Looks are spread by this part of their period.
const JITTER: f64 = 0.04;

/// Whether the agent makes its Node object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registration {
    /// `registerNode: true`.
    Own,
    /// Someone else makes it.
    Others,
}

/// Timings of the node's status.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// `registerNode`.
    pub registration: Registration,
    /// `nodeStatusUpdateFrequency`: how often the node is looked at.
    pub update_frequency: Duration,
    /// `nodeStatusReportFrequency`: how often it is reported when nothing changed.
    pub report_frequency: Duration,
    /// Deadline of a request.
    pub deadline: Duration,
    /// What is done when the node may not be made.
    pub forbidden: Forbidden,
}

/// What is done when the API server forbids to make the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forbidden {
    /// Somebody else may have made it: it is looked for.
    LookFor,
    /// `KubeletRegistrationGetOnExistsOnly`: it is tried again.
    TryAgain,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            registration: Registration::Own,
            update_frequency: Duration::from_secs(10),
            report_frequency: Duration::from_secs(300),
            deadline: Duration::from_secs(10),
            forbidden: Forbidden::LookFor,
        }
    }
}

/// What the stage needs.
pub struct Parts {
    /// The API server.
    pub nodes: Arc<dyn ApiNodes>,
    /// What is told of the node and fixed at start.
    pub profile: Arc<NodeProfile>,
    /// Timings.
    pub settings: Settings,
    /// Facts of the machine.
    pub host: Arc<dyn HostFacts>,
    /// The container runtime.
    pub runtime: Arc<dyn RuntimeService>,
    /// Its images.
    pub images: Arc<dyn Images>,
    /// Whether the runtime is ready.
    pub health: RuntimeHealth,
    /// What other stages contribute.
    pub inputs: NodeInputs,
    /// The node as the API server shows it.
    pub view: Receiver<NodeView>,
    /// Events.
    pub events: Arc<dyn EventRecorder>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where the way to ready is counted.
    pub metrics: Arc<Metrics>,
}

impl Parts {
    fn record(&self, event: NodeEvent) {
        self.events.record(RecordedEvent {
            annotations: Default::default(),
            subject: EventSubject::Node(self.profile.name.clone()),
            kind: event.kind,
            reason: event.reason.to_owned(),
            message: event.message,
            at: self.clock.now(),
        });
    }

    /// A period, a little longer each time in another way, so that nodes do not fall into step.
    fn spread(&self, period: Duration) -> Duration {
        period.mul_f64(1.0 + JITTER * share(&self.profile.name, self.clock.now()))
    }
}

/// Registers the node and keeps its status in line until cancelled.
pub async fn run(parts: Parts, cancel: CancellationToken) {
    let starting =
        NodeEvent { kind: EventType::Normal, reason: "Starting", message: "Starting kubelet.".to_owned() };
    parts.record(starting);
    tokio::select! {
        () = cancel.cancelled() => {}
        () = Stage::new(parts).run() => {}
    }
}

struct Stage {
    reporter: Reporter,
    health: RuntimeHealth,
    inputs: NodeInputs,
    view: Receiver<NodeView>,
    pod_cidr: String,
    unschedulable: bool,
}

impl Stage {
    fn new(parts: Parts) -> Self {
        Self {
            health: parts.health.subscribe(),
            inputs: parts.inputs.clone(),
            view: parts.view.clone(),
            reporter: Reporter::new(parts),
            pod_cidr: String::new(),
            unschedulable: false,
        }
    }

    async fn run(mut self) {
        if self.reporter.parts().settings.registration == Registration::Own {
            self.reporter.register().await;
        }
        let fast_until = tokio::time::Instant::now() + FAST_FOR;
        loop {
            self.follow().await;
            self.reporter.report().await;
            let next = self.reporter.parts().spread(self.reporter.parts().settings.update_frequency);
            self.wait(tokio::time::Instant::now() + next, fast_until).await;
        }
    }

    /// Waits for a reason to look at the node again, at the latest until then.
    async fn wait(&mut self, deadline: tokio::time::Instant, fast_until: tokio::time::Instant) {
        loop {
            let is_fast = !self.reporter.was_ready() && tokio::time::Instant::now() < fast_until;
            tokio::select! {
                () = tokio::time::sleep_until(deadline) => return,
                () = self.health.changed() => return,
                () = self.inputs.changed() => return,
                changed = self.view.changed() => match changed {
                    Ok(()) => {
                        self.follow().await;
                        // Shown for the first time, so that there is something to report on.
                        if !self.reporter.has_reported() {
                            return;
                        }
                    }
                    Err(_) => return tokio::time::sleep_until(deadline).await,
                },
                () = tokio::time::sleep(FAST_PERIOD), if is_fast => self.health.doubt(),
            }
        }
    }

    /// Acts on what the control plane wrote.
    async fn follow(&mut self) {
        let view = self.view.borrow_and_update().clone();
        let Some(node) = view.node() else { return };
        let parts = self.reporter.parts();
        let unschedulable = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false);
        if unschedulable != self.unschedulable {
            let reason = if unschedulable { "NodeNotSchedulable" } else { "NodeSchedulable" };
            parts.record(NodeEvent::now_is(&parts.profile.name, reason));
            self.unschedulable = unschedulable;
        }
        let cidr = view.pod_cidrs().join(",");
        if !cidr.is_empty() && cidr != self.pod_cidr {
            match parts.runtime.set_pod_cidr(&cidr).await {
                Ok(()) => {
                    tracing::info!(%cidr, "the runtime was told the address range of pods");
                    self.pod_cidr = cidr;
                }
                Err(error) => {
                    tracing::warn!(%error, %cidr, "the runtime did not take the address range of pods");
                }
            }
        }
    }
}
