use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A ClusterTrustBundle, cut to what a node needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TrustBundle {
    /// Its name.
    pub name: String,
    /// Whose certificates it is about; empty when it is nobody's in particular.
    pub signer: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Certificates in PEM form.
    pub certificates: String,
}

/// All trust bundles of the cluster, or why they are not known.
pub type ReadTrustBundles = Result<Vec<Arc<TrustBundle>>, String>;
