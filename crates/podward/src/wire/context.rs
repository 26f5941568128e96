//! The shared context of all `start_*` functions.

use std::sync::Arc;
use std::time::Duration;

use ::node_api::PublishedState;
use agent::cluster::event_delivery::EventDelivery;
use agent::cluster::event_log::EventLog;
use agent::metrics::pod_gauges::PodGauges;
use agent::node::runtime_health::RuntimeHealth;
use agent::pipeline::source_report::SourceReports;
use agent::pipeline::timeline::Timelines;
use model::NodeSettings;
use ports::served::event_recorder::EventRecorder;

use super::channels::Receivers;
use super::local::source_reports;
use super::tables::Tables;
use super::{Adapters, ApiServer};
use crate::plan::Plan;

/// Events that `podward events` can show.
const EVENT_LOG_CAPACITY: usize = 1000;
/// Shortest time without a turn of the sync loop after which the agent counts as unhealthy.
const MIN_HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(300);

/// Adapters, settings, tables and services that stages share.
pub(super) struct Context {
    pub(super) adapters: Adapters,
    pub(super) plan: Plan,
    pub(super) settings: Arc<NodeSettings>,
    pub(super) tables: Tables,
    pub(super) events: Arc<dyn EventRecorder>,
    pub(super) health: RuntimeHealth,
    pub(super) timelines: Arc<Timelines>,
    pub(super) source_reports: Arc<SourceReports>,
}

impl Context {
    pub(super) fn new(
        adapters: Adapters,
        plan: Plan,
        tables: Tables,
        log: &Arc<EventLog>,
        delivery: Option<&Arc<EventDelivery>>,
        health: RuntimeHealth,
    ) -> Self {
        let events: Arc<dyn EventRecorder> = match delivery {
            Some(delivery) => delivery.clone(),
            None => log.clone(),
        };
        adapters.metrics.add(Arc::new(PodGauges {
            desired: tables.desired.clone(),
            workers: tables.workers.clone(),
            observer: tables.observer.clone(),
            api_pods: tables.api_pods.clone(),
            allocations: adapters.allocations.clone(),
            node: plan.settings.name.clone(),
        }));
        Self {
            settings: Arc::new(plan.settings.clone()),
            timelines: Arc::new(Timelines::new(adapters.clock.clone())),
            source_reports: source_reports(&plan, &adapters),
            adapters,
            plan,
            tables,
            events,
            health,
        }
    }

    /// The adapters of the API server, if the node belongs to a cluster.
    pub(super) fn api(&self) -> Option<&ApiServer> {
        self.adapters.api.as_ref()
    }
}

/// The log of recent events and, with an API server, their delivery.
pub(super) fn events(adapters: &Adapters) -> (Arc<EventLog>, Option<Arc<EventDelivery>>) {
    let log = Arc::new(EventLog::new(EVENT_LOG_CAPACITY));
    let delivery = adapters.api.as_ref().map(|_| Arc::new(EventDelivery::new(log.clone())));
    (log, delivery)
}

/// The state that the servers read, without statistics.
pub(super) fn published_state(
    context: &Context,
    events: Arc<EventLog>,
    receivers: &Receivers,
) -> PublishedState {
    PublishedState {
        desired: context.tables.desired.clone(),
        statuses: context.tables.statuses.clone(),
        metrics: context.adapters.metrics.clone(),
        manifests: receivers.file_reports.clone(),
        events,
        timelines: context.timelines.clone(),
        statistics: None,
        heartbeat: receivers.heartbeat.clone(),
        checks: Arc::default(),
        devices: context.adapters.allocations.managed().devices().clone(),
        started_at: context.adapters.clock.now(),
        heartbeat_timeout: MIN_HEARTBEAT_TIMEOUT.max(context.plan.sync_frequency * 2),
    }
}
