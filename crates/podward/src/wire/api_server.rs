//! Wiring of what exists only with an API server.

use std::sync::Arc;
use std::time::Duration;

use agent::api_pods::{ApiPodChange, ApiPodsReader, ApiPodsWriter, api_pods};
use agent::kept_status::KeptStatus;
use agent::memory::Memory;
use agent::metrics::Metrics;
use agent::node_view::NodeView;
use agent::published::Reader;
use agent::source_report::SourceReports;
use agent::{mirror_pods, sources, status_delivery};
use manifest::RestartRules;
use model::{Pod, PodUid, Snapshot, WorkerView};
use ports::api::access_reviews::ApiAccessReviews;
use ports::api::csi_nodes::ApiCsiNodes;
use ports::api::events::ApiEvents;
use ports::api::leases::ApiLeases;
use ports::api::nodes::ApiNodes;
use ports::api::objects::ApiObjects;
use ports::api::pod_certificates::ApiPodCertificates;
use ports::api::pods::ApiPods;
use ports::api::runtime_classes::ApiRuntimeClasses;
use ports::api::service_accounts::ApiServiceAccounts;
use ports::api::services::ApiServices;
use ports::api::token_reviews::ApiTokenReviews;
use ports::api::tokens::ApiTokens;
use ports::api::trust_bundles::ApiTrustBundles;
use ports::api::volumes::ApiVolumes;
use ports::clock::Clock;
use tokio::sync::{mpsc, watch};

use super::{PluginPorts, Running};

/// The API server's side of the world.
#[derive(Clone)]
pub struct ApiServer {
    /// Pods of this node.
    pub pods: Arc<dyn ApiPods>,
    /// ConfigMaps and Secrets.
    pub objects: Arc<dyn ApiObjects>,
    /// Events.
    pub events: Arc<dyn ApiEvents>,
    /// Tokens of service accounts.
    pub tokens: Arc<dyn ApiTokens>,
    /// Service accounts.
    pub service_accounts: Arc<dyn ApiServiceAccounts>,
    /// Trust bundles; none unless pods may use them (`ClusterTrustBundleProjection`).
    pub trust_bundles: Option<Arc<dyn ApiTrustBundles>>,
    /// Certificates that pods ask for; none unless they may (`PodCertificateRequest`).
    pub pod_certificates: Option<Arc<dyn ApiPodCertificates>>,
    /// Services.
    pub services: Arc<dyn ApiServices>,
    /// Runtime classes.
    pub runtime_classes: Arc<dyn ApiRuntimeClasses>,
    /// The Node object.
    pub nodes: Arc<dyn ApiNodes>,
    /// Claims, persistent volumes, drivers.
    pub volumes: Arc<dyn ApiVolumes>,
    /// What this node's drivers tell of it.
    pub csi_nodes: Arc<dyn ApiCsiNodes>,
    /// Plugins and their volumes.
    pub plugins: PluginPorts,
    /// The node's lease.
    pub leases: Arc<dyn ApiLeases>,
    /// Owners of tokens.
    pub token_reviews: Arc<dyn ApiTokenReviews>,
    /// What clients of the node may do.
    pub access_reviews: Arc<dyn ApiAccessReviews>,
    /// What the API server said, for a start without it.
    pub memory: Memory,
    /// How old what it said may be; `None` means any age.
    pub max_age: Option<Duration>,
}

/// Who is told what changed at the API server.
pub(super) struct ShownChanges {
    pub(super) status: mpsc::UnboundedReceiver<ApiPodChange>,
    pub(super) delivery: mpsc::UnboundedReceiver<ApiPodChange>,
    pub(super) mirrors: mpsc::UnboundedReceiver<ApiPodChange>,
}

/// The table of what the API server shows; it stays empty without one.
pub(super) fn shown_pods() -> (ApiPodsWriter, ApiPodsReader, ShownChanges) {
    let (to_status, status) = mpsc::unbounded_channel();
    let (to_delivery, delivery) = mpsc::unbounded_channel();
    let (to_mirrors, mirrors) = mpsc::unbounded_channel();
    let (writer, reader) = api_pods(vec![to_status, to_delivery, to_mirrors]);
    (writer, reader, ShownChanges { status, delivery, mirrors })
}

/// What the exchange of pods with the API server needs.
pub(super) struct PodParts {
    pub(super) node: watch::Receiver<NodeView>,
    pub(super) snapshots: mpsc::Sender<Snapshot>,
    pub(super) shown_writer: ApiPodsWriter,
    pub(super) shown: ApiPodsReader,
    pub(super) shown_changes: mpsc::UnboundedReceiver<ApiPodChange>,
    pub(super) changes: mpsc::UnboundedReceiver<PodUid>,
    pub(super) mirror_changes: (mpsc::UnboundedReceiver<PodUid>, mpsc::UnboundedReceiver<ApiPodChange>),
    pub(super) sources_ready: watch::Receiver<bool>,
    pub(super) desired: Reader<Pod>,
    pub(super) workers: Reader<WorkerView>,
    pub(super) statuses: Reader<KeptStatus>,
    pub(super) report: Arc<SourceReports>,
    pub(super) restarts: RestartRules,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Arc<Metrics>,
}

/// Starts the source of API pods, the delivery of statuses, and the mirrors of static pods.
pub(super) fn start_pods(running: &mut Running, api: &ApiServer, parts: PodParts) {
    let source = sources::api::Parts {
        pods: api.pods.clone(),
        node: parts.node.clone(),
        snapshots: parts.snapshots,
        shown: parts.shown_writer,
        report: parts.report,
        clock: parts.clock.clone(),
        restarts: parts.restarts,
        memory: api.memory.clone(),
        max_age: api.max_age,
    };
    running.spawn("api source", sources::api::run(source, running.cancel.clone()));
    let (changes, shown_changes) = parts.mirror_changes;
    let mirrors = mirror_pods::Parts {
        changes,
        shown_changes,
        sources_ready: parts.sources_ready,
        desired: parts.desired.clone(),
        workers: parts.workers.clone(),
        shown: parts.shown.clone(),
        node: parts.node.clone(),
        pods: api.pods.clone(),
    };
    running.spawn("mirror pods", mirror_pods::run(mirrors, running.cancel.clone()));
    let delivery = status_delivery::Parts {
        changes: parts.changes,
        shown_changes: parts.shown_changes,
        desired: parts.desired,
        workers: parts.workers,
        statuses: parts.statuses,
        shown: parts.shown,
        pods: api.pods.clone(),
        clock: parts.clock,
        metrics: parts.metrics,
    };
    running.spawn("status delivery", status_delivery::run(delivery, running.cancel.clone()));
}
