//! What pods take from the cluster besides ConfigMaps and Secrets.

use std::sync::Arc;

use model::{Service, TrustBundle};
use ports::api::runtime_classes::RuntimeClass;
use tokio::sync::watch;

use crate::followed::Followed;
use crate::node_view::NodeView;
use crate::pod_certificates::PodCertificates;
use crate::tokens::Tokens;

/// The supplies. A node of its own has none.
#[derive(Clone)]
pub struct ClusterSupplies {
    /// Tokens of service accounts.
    pub tokens: Arc<Tokens>,
    /// Services, by namespace and name.
    pub services: Arc<Followed<Service>>,
    /// Runtime classes, by name.
    pub runtime_classes: Arc<Followed<RuntimeClass>>,
    /// Certificates that pods ask for; none unless they may.
    pub certificates: Option<Arc<PodCertificates>>,
    /// Trust bundles, by name; none unless pods may use them.
    pub trust_bundles: Option<Arc<Followed<TrustBundle>>>,
    /// The node as the API server shows it.
    pub node: watch::Receiver<NodeView>,
}
