use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{PodUid, Timestamp};

/// A token as a volume or a credential provider asks for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TokenSpec {
    /// Audiences; empty for the API server.
    pub audiences: Vec<String>,
    /// How long it shall be good for; the server's choice if unset.
    pub expiration_seconds: Option<i64>,
}

/// A token of a service account that ends with a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TokenRequest {
    /// Namespace of the account and the pod.
    pub namespace: String,
    pub account: String,
    /// UID the account must have, if that matters.
    pub account_uid: Option<String>,
    pub pod_name: String,
    /// UID of the pod.
    pub pod_uid: PodUid,
    pub wish: TokenSpec,
}

/// A token as the server issued it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuedToken {
    pub token: String,
    pub expires_at: Timestamp,
    /// How long the server makes it good for.
    pub expiration_seconds: i64,
}

/// Tokens do not belong into logs.
impl fmt::Debug for IssuedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuedToken").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

/// Tokens as they were read for one pod, or why there is none.
pub type ReadTokens = BTreeMap<TokenSpec, Result<IssuedToken, String>>;
