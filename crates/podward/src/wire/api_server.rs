//! Stages and services that exist only with an API server.

use std::sync::Arc;
use std::time::Duration;

use agent::cluster::event_delivery::EventDelivery;
use agent::cluster::offline_cache::OfflineCache;
use agent::cluster::{event_delivery, mirror_pods, status_delivery};
use agent::node::node_view::NodeView;
use agent::pipeline::sources;
use model::Snapshot;
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
use tokio::sync::{mpsc, watch};

use super::context::Context;
use super::tables::ApiPodEnds;
use super::{DynamicResourcePorts, PluginPorts, Running};

/// Ports of the API server, one per kind of object.
#[derive(Clone)]
pub struct ApiServer {
    pub pods: Arc<dyn ApiPods>,
    /// ConfigMaps and Secrets.
    pub objects: Arc<dyn ApiObjects>,
    pub events: Arc<dyn ApiEvents>,
    pub tokens: Arc<dyn ApiTokens>,
    pub service_accounts: Arc<dyn ApiServiceAccounts>,
    /// `None` without the gate `ClusterTrustBundleProjection`.
    pub trust_bundles: Option<Arc<dyn ApiTrustBundles>>,
    /// `None` without the gate `PodCertificateRequest`.
    pub pod_certificates: Option<Arc<dyn ApiPodCertificates>>,
    pub services: Arc<dyn ApiServices>,
    pub runtime_classes: Arc<dyn ApiRuntimeClasses>,
    pub nodes: Arc<dyn ApiNodes>,
    /// Claims, persistent volumes and CSIDrivers.
    pub volumes: Arc<dyn ApiVolumes>,
    pub csi_nodes: Arc<dyn ApiCsiNodes>,
    pub plugins: PluginPorts,
    pub dynamic_resources: DynamicResourcePorts,
    pub leases: Arc<dyn ApiLeases>,
    pub token_reviews: Arc<dyn ApiTokenReviews>,
    pub access_reviews: Arc<dyn ApiAccessReviews>,
    /// The last answers of the API server, for a start without it.
    pub offline_cache: OfflineCache,
    /// Maximum age of those answers; `None` means any age.
    pub max_age: Option<Duration>,
}

pub(super) fn start_event_delivery(
    running: &mut Running,
    context: &Context,
    delivery: Option<Arc<EventDelivery>>,
) {
    if let (Some(api), Some(delivery)) = (context.api(), delivery) {
        let deliver = event_delivery::run(delivery, api.events.clone(), running.cancel.clone());
        running.spawn("event delivery", deliver);
    }
}

/// Starts the source of API pods, the delivery of statuses, and the mirror pods of static pods.
pub(super) fn start_pods(
    running: &mut Running,
    context: &Context,
    node: &watch::Receiver<NodeView>,
    ends: ApiPodEnds,
    snapshots: mpsc::Sender<Snapshot>,
    sources_ready: watch::Receiver<bool>,
) {
    let Some(api) = context.api() else { return };
    let (adapters, tables) = (&context.adapters, &context.tables);
    let source = sources::api::ApiSourceDeps {
        pods: api.pods.clone(),
        node: node.clone(),
        snapshots,
        api_pods: ends.api_pods,
        report: context.source_reports.clone(),
        clock: adapters.clock.clone(),
        restarts: context.plan.rules.restarts,
        offline_cache: api.offline_cache.clone(),
        max_age: api.max_age,
    };
    running.spawn("api source", sources::api::run(source, running.cancel.clone()));
    let mirrors = mirror_pods::MirrorPodsDeps {
        changes: ends.mirror_pods,
        api_pod_changes: ends.mirror_api_pods,
        sources_ready,
        desired: tables.desired.clone(),
        workers: tables.workers.clone(),
        api_pods: tables.api_pods.clone(),
        node: node.clone(),
        pods: api.pods.clone(),
    };
    running.spawn("mirror pods", mirror_pods::run(mirrors, running.cancel.clone()));
    let delivery = status_delivery::StatusDeliveryDeps {
        changes: ends.status_delivery,
        api_pod_changes: ends.delivery_api_pods,
        desired: tables.desired.clone(),
        workers: tables.workers.clone(),
        statuses: tables.statuses.clone(),
        api_pods: tables.api_pods.clone(),
        pods: api.pods.clone(),
        clock: adapters.clock.clone(),
        metrics: adapters.metrics.clone(),
    };
    running.spawn("status delivery", status_delivery::run(delivery, running.cancel.clone()));
}
