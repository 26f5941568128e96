use crate::{ContainerStatus, Moment};

/// Containers that a sync stops and starts again.
#[derive(Clone, Debug, PartialEq)]
pub struct Replacement {
    /// The containers as they were observed before the sync stopped them.
    pub containers: Vec<ContainerStatus>,
    /// When the sync ended; `None` while it runs. Only a later observation shows its result.
    pub ended: Option<Moment>,
}
