//! Starts the services that fetch what pods refer to from the API server: objects, tokens, services, certificates.

use std::sync::Arc;

use agent::cluster::cluster_content::ClusterContent;
use agent::cluster::cluster_objects::{self, ClusterObjects};
use agent::cluster::content_cache;
use agent::cluster::pod_certificates::{self, PodCertificates};
use agent::cluster::tokens::Tokens;
use agent::cluster::watched_set::{WatchedSet, watch_set};
use agent::node::node_view::NodeView;
use model::PodUid;
use timing::KeyReceiver;
use tokio::sync::watch;

use super::context::Context;
use super::{ApiServer, Running};

/// Service account tokens; `None` without an API server.
pub(super) fn tokens(context: &Context) -> Option<Arc<Tokens>> {
    let api = context.api()?;
    Some(Arc::new(Tokens::new(api.tokens.clone(), context.adapters.clock.clone())))
}

/// Starts the ConfigMaps and Secrets of the cluster, and everything else that pods take from it.
pub(super) fn start_cluster_content(
    running: &mut Running,
    context: &Context,
    node: &watch::Receiver<NodeView>,
    tokens: Option<Arc<Tokens>>,
    changed_pods: KeyReceiver<PodUid>,
) -> Option<(Arc<ClusterObjects>, ClusterContent)> {
    let api = context.api()?;
    let objects = start_objects(running, context, (api, node), changed_pods);
    let content = start_projected_content(running, context, (api, node), tokens?, objects.clone());
    Some((objects, content))
}

fn start_objects(
    running: &mut Running,
    context: &Context,
    (api, node): (&ApiServer, &watch::Receiver<NodeView>),
    changed_pods: KeyReceiver<PodUid>,
) -> Arc<ClusterObjects> {
    let (objects, watch_requests) = ClusterObjects::new(api.objects.clone(), context.plan.cluster.objects);
    objects.set_node_view(node.clone());
    let deps = cluster_objects::ClusterObjectsDeps {
        objects: objects.clone(),
        watch_requests,
        changed_pods,
        desired: context.tables.desired.clone(),
        workers: context.tables.workers.clone(),
    };
    running.spawn("cluster objects", cluster_objects::run(deps, running.cancel.clone()));
    objects
}

/// Starts the watches of services, runtime classes and trust bundles, and the certificates of pods.
fn start_projected_content(
    running: &mut Running,
    context: &Context,
    (api, node): (&ApiServer, &watch::Receiver<NodeView>),
    tokens: Arc<Tokens>,
    objects: Arc<ClusterObjects>,
) -> ClusterContent {
    let cancel = running.cancel.clone();
    let services = Arc::new(WatchedSet::new(|service: &model::Service| {
        format!("{}/{}", service.namespace, service.name)
    }));
    running
        .spawn("service watch", watch_set(services.clone(), "Service", api.services.watch(), cancel.clone()));
    let runtime_classes =
        Arc::new(WatchedSet::new(|class: &ports::api::runtime_classes::RuntimeClass| class.name.clone()));
    let watch = api.runtime_classes.watch();
    running.spawn(
        "runtime class watch",
        watch_set(runtime_classes.clone(), "RuntimeClass", watch, cancel.clone()),
    );
    let trust_bundles = api.trust_bundles.as_ref().map(|bundles| {
        let set = Arc::new(WatchedSet::new(|bundle: &model::TrustBundle| bundle.name.clone()));
        running.spawn(
            "trust bundle watch",
            watch_set(set.clone(), "ClusterTrustBundle", bundles.watch(), cancel.clone()),
        );
        set
    });
    let certificates = pod_certificates(context, api, node);
    let content =
        ClusterContent { tokens, services, runtime_classes, certificates, trust_bundles, node: node.clone() };
    let deps = content_cache::ContentCacheDeps {
        objects,
        content: content.clone(),
        offline_cache: api.offline_cache.clone(),
        clock: context.adapters.clock.clone(),
    };
    running.spawn("content cache", content_cache::run(deps, cancel));
    content
}

fn pod_certificates(
    context: &Context,
    api: &ApiServer,
    node: &watch::Receiver<NodeView>,
) -> Option<Arc<PodCertificates>> {
    let certificates = Arc::new(PodCertificates::new(pod_certificates::PodCertificatesDeps {
        api: api.pod_certificates.clone()?,
        accounts: api.service_accounts.clone(),
        node: node.clone(),
        events: context.events.clone(),
        clock: context.adapters.clock.clone(),
    }));
    context.adapters.metrics.add(certificates.clone());
    Some(certificates)
}
