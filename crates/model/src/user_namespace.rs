/// A range of user and group ids of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdRange {
    /// The id that stands for root inside.
    pub first: u32,
    pub length: u32,
}

/// Whose users the users of a pod are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UserNamespace {
    #[default]
    Node,
    /// The pod's own, which are these on the node.
    Pod(IdRange),
}

/// The IDs available to pods with a user namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdPool {
    pub first: u32,
    pub total: u32,
    /// How many each pod gets.
    pub per_pod: u32,
}

impl IdPool {
    /// All ids but those of the node's own users, handed out in pieces of this length.
    pub fn of_length(per_pod: u32) -> Self {
        Self { first: per_pod, total: u32::MAX - per_pod + 1, per_pod }
    }
}

impl Default for IdPool {
    fn default() -> Self {
        Self::of_length(65_536)
    }
}
