//! Cluster content that pods use besides ConfigMaps and Secrets: tokens, services, runtime classes, certificates and trust
//! bundles.

use std::sync::Arc;

use model::{Service, TrustBundle};
use ports::api::runtime_classes::RuntimeClass;
use tokio::sync::watch;

use crate::cluster::pod_certificates::PodCertificates;
use crate::cluster::tokens::Tokens;
use crate::cluster::watched_set::WatchedSet;
use crate::node::node_view::NodeView;

/// Exists only on a node with an API server.
#[derive(Clone)]
pub struct ClusterContent {
    pub tokens: Arc<Tokens>,
    /// Keyed by `namespace/name`.
    pub services: Arc<WatchedSet<Service>>,
    pub runtime_classes: Arc<WatchedSet<RuntimeClass>>,
    /// `None` without the gate `PodCertificateRequest`.
    pub certificates: Option<Arc<PodCertificates>>,
    /// Keyed by name; `None` without the gate `ClusterTrustBundleProjection`.
    pub trust_bundles: Option<Arc<WatchedSet<TrustBundle>>>,
    pub node: watch::Receiver<NodeView>,
}
