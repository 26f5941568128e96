//! Dynamic resource allocation (DRA): the claims of a pod, what their drivers must prepare and undo, and the devices that a
//! container gets.
//!
//! The order of a pod's start: [`references::pod_claims`] names the claims, [`checks::check`] compares each with the pod,
//! [`PreparedClaims::reserve`] records the pod and returns what is not prepared yet, and the answers of the drivers are
//! recorded with [`PreparedClaims::record`]. The order of its end: [`PreparedClaims::to_unprepare`], and after the drivers
//! have undone their work, [`PreparedClaims::release`].
//!
//! Drivers also report the health of their devices: [`device_health::DeviceHealthTable`] holds the last reports, and
//! [`pod_status::claim_health`] shows them in the status of the pods that use the devices.
//!
//! Invariants: a claim that another pod uses is never unprepared; a claim is recorded on disk before its driver is called, and
//! removed from disk after the driver has undone its work, so that a kill of the agent at any time loses nothing.

pub mod checks;
pub mod container_devices;
pub mod device_health;
pub mod health_file;
pub mod pod_status;
mod prepared_claims;
pub mod references;
pub mod state_file;

pub use prepared_claims::{AllocatedClaim, ClaimKey, PreparedClaim, PreparedClaims};

/// Why the claims of a pod cannot be prepared. The texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    #[error("pod \"{0}\": ResourceClaim not created yet")]
    NotCreated(String),
    #[error("pod \"{pod}\", spec.resourceClaim {}: none of the supported fields are set", crate::go_text::quoted(.entry))]
    UnsupportedSource { pod: String, entry: String },
    #[error("ResourceClaim {claim} was not created for Pod {pod} (Pod is not owner)")]
    NotOwner { claim: String, pod: String },
    #[error("pod {pod} ({pod_uid}) is not allowed to use ResourceClaim {claim} ({claim_uid})")]
    NotReserved { pod: String, pod_uid: String, claim: String, claim_uid: String },
    #[error("ResourceClaim {0}: not allocated")]
    NotAllocated(String),
    #[error(
        "old ResourceClaim with same name {name} and different UID {uid} still exists (previous pod force-deleted?!)"
    )]
    OldClaim { name: String, uid: String },
    #[error("internal error: unable to get claim info for ResourceClaim {name} in namespace {namespace}")]
    NotPrepared { name: String, namespace: String },
}

#[cfg(test)]
mod tests;
