//! Claims of dynamic resource allocation (DRA).

/// A ResourceClaim as drivers know it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimReference {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// A device that a driver has prepared for a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreparedDevice {
    pub pool: String,
    pub device: String,
    /// Set for a share of a device that several claims use.
    pub share_id: Option<String>,
    /// The requests of the claim that the device satisfies; empty means all.
    pub requests: Vec<String>,
    /// Names of the Container Device Interface.
    pub cdi_ids: Vec<String>,
}
