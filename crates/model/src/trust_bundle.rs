use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A ClusterTrustBundle, cut to what a node needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TrustBundle {
    pub name: String,
    /// Signer of the certificates; empty for a bundle without a signer.
    pub signer: String,
    pub labels: BTreeMap<String, String>,
    pub certificates: String,
}

/// All trust bundles of the cluster, or why they are not known.
pub type ReadTrustBundles = Result<Vec<Arc<TrustBundle>>, String>;
