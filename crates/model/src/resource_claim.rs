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

/// Health of a device, as its driver reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClaimDeviceHealth {
    Healthy,
    Unhealthy,
    #[default]
    Unknown,
}

impl ClaimDeviceHealth {
    /// The text of the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "Healthy",
            Self::Unhealthy => "Unhealthy",
            Self::Unknown => "Unknown",
        }
    }
}

/// The report of a driver about one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceHealthReport {
    pub pool: String,
    pub device: String,
    pub health: ClaimDeviceHealth,
    /// Time for which the report counts; not positive for the default.
    pub timeout_seconds: i64,
    pub message: String,
}
