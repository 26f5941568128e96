//! Who asks the node for something, and what for.

use std::collections::BTreeMap;

/// Somebody who was recognised.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct User {
    /// Name.
    pub name: String,
    /// What tells two of the same name apart; often empty.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// More that authorizers may look at.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Whether somebody may do something with a part of this node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AccessQuestion {
    /// Who.
    pub user: User,
    /// What; empty for methods that have no word.
    pub verb: String,
    /// The node.
    pub node: String,
    /// The part of the node.
    pub subresource: String,
}
