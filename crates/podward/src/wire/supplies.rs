//! Wiring of what pods take from the API server.

use std::sync::Arc;

use agent::cluster_objects::{self, ClusterObjects};
use agent::cluster_supplies::ClusterSupplies;
use agent::followed::{Followed, follow};
use agent::metrics::Metrics;
use agent::node_view::NodeView;
use agent::pod_certificates::{self, PodCertificates};
use agent::published::Reader;
use agent::supplies_memory;
use agent::tokens::Tokens;
use model::{Pod, PodUid, WorkerView};
use ports::clock::Clock;
use ports::event_recorder::EventRecorder;
use tokio::sync::{mpsc, watch};

use super::{ApiServer, Running};
use crate::cluster_plan::ClusterPlan;

/// Who uses what.
pub(super) struct Claims {
    /// Pods of which the wish or the worker changed.
    pub(super) changed_pods: mpsc::UnboundedReceiver<PodUid>,
    /// Pods that sources want.
    pub(super) desired: Reader<Pod>,
    /// How far their workers are.
    pub(super) workers: Reader<WorkerView>,
    /// The node as the API server shows it.
    pub(super) node: Option<watch::Receiver<NodeView>>,
}

/// The ConfigMaps and Secrets of the cluster.
pub(super) fn start_objects(
    running: &mut Running,
    api: &ApiServer,
    plan: &ClusterPlan,
    claims: Claims,
) -> Arc<ClusterObjects> {
    let (objects, orders) = ClusterObjects::new(api.objects.clone(), plan.objects);
    if let Some(node) = claims.node {
        objects.follow(node);
    }
    let parts = cluster_objects::Parts {
        objects: objects.clone(),
        orders,
        changed_pods: claims.changed_pods,
        desired: claims.desired,
        workers: claims.workers,
    };
    running.spawn("cluster objects", cluster_objects::run(parts, running.cancel.clone()));
    objects
}

/// What supplies are made with.
pub(super) struct Means<'a> {
    /// The time.
    pub(super) clock: &'a Arc<dyn Clock>,
    /// Tokens of service accounts.
    pub(super) tokens: Arc<Tokens>,
    /// Events.
    pub(super) events: &'a Arc<dyn EventRecorder>,
    /// Metrics.
    pub(super) metrics: &'a Metrics,
}

/// What else pods take from the cluster.
pub(super) fn start_supplies(
    running: &mut Running,
    api: &ApiServer,
    Means { clock, tokens, events, metrics }: Means<'_>,
    (objects, node): (Arc<ClusterObjects>, watch::Receiver<NodeView>),
) -> ClusterSupplies {
    let services =
        Arc::new(Followed::new(|service: &model::Service| format!("{}/{}", service.namespace, service.name)));
    let cancel = running.cancel.clone();
    running.spawn("service watch", follow(services.clone(), api.services.watch(), cancel.clone()));
    let runtime_classes =
        Arc::new(Followed::new(|class: &ports::api::runtime_classes::RuntimeClass| class.name.clone()));
    let watch = api.runtime_classes.watch();
    running.spawn("runtime class watch", follow(runtime_classes.clone(), watch, cancel.clone()));
    let trust_bundles = api.trust_bundles.as_ref().map(|bundles| {
        let set = Arc::new(Followed::new(|bundle: &model::TrustBundle| bundle.name.clone()));
        running.spawn("trust bundle watch", follow(set.clone(), bundles.watch(), cancel));
        set
    });
    let certificates = api.pod_certificates.clone().map(|issuer| {
        let certificates = Arc::new(PodCertificates::new(pod_certificates::Parts {
            api: issuer,
            accounts: api.service_accounts.clone(),
            node: node.clone(),
            events: events.clone(),
            clock: clock.clone(),
        }));
        metrics.add(certificates.clone());
        certificates
    });
    let supplies = ClusterSupplies { tokens, services, runtime_classes, certificates, trust_bundles, node };
    let parts = supplies_memory::Parts {
        objects,
        supplies: supplies.clone(),
        memory: api.memory.clone(),
        clock: clock.clone(),
    };
    running.spawn("supplies memory", supplies_memory::run(parts, running.cancel.clone()));
    supplies
}
