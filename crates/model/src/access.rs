//! Clients of the node API and their requests.

use std::collections::BTreeMap;

/// An authenticated client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct User {
    pub name: String,
    /// Distinguishes users of the same name; often empty.
    pub uid: String,
    pub groups: Vec<String>,
    /// Additional attributes for authorizers.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The attributes of a SubjectAccessReview.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AccessQuestion {
    pub user: User,
    /// Empty for HTTP methods without a Kubernetes verb.
    pub verb: String,
    pub node: String,
    /// Subresource of the node, such as `proxy`.
    pub subresource: String,
}
