//! Whether a pod may use a ResourceClaim.

use k8s_openapi::api::resource::v1::ResourceClaim;
use model::{ClaimReference, Pod};

use super::references::{PodClaim, pod_name};
use super::{AllocatedClaim, ClaimError};

/// Compares a claim from the API server with the pod that refers to it.
///
/// # Errors
/// When the claim belongs to another pod, is not reserved for this one, or is not allocated.
pub fn check(pod: &Pod, claim: &PodClaim, object: &ResourceClaim) -> Result<AllocatedClaim, ClaimError> {
    let uid = object.metadata.uid.clone().unwrap_or_default();
    let name = &claim.name;
    if claim.is_generated && !is_controlled_by(object, pod) {
        let claim = format!("{}/{name}", pod.namespace());
        return Err(ClaimError::NotOwner { claim, pod: pod_name(pod) });
    }
    let status = object.status.as_ref();
    let mut consumers = status.and_then(|status| status.reserved_for.as_ref()).into_iter().flatten();
    if !consumers.any(|consumer| consumer.uid == pod.uid.as_str()) {
        return Err(ClaimError::NotReserved {
            pod: pod.name().to_owned(),
            pod_uid: pod.uid.to_string(),
            claim: name.clone(),
            claim_uid: uid,
        });
    }
    let allocation = status.and_then(|status| status.allocation.as_ref());
    let allocation = allocation.ok_or_else(|| ClaimError::NotAllocated(name.clone()))?;
    let results = allocation.devices.as_ref().and_then(|devices| devices.results.as_ref());
    let drivers = results.into_iter().flatten().map(|result| result.driver.clone()).collect();
    let reference = ClaimReference { namespace: pod.namespace().to_owned(), name: name.clone(), uid };
    Ok(AllocatedClaim { reference, drivers })
}

fn is_controlled_by(object: &ResourceClaim, pod: &Pod) -> bool {
    let mut owners = object.metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.controller == Some(true) && owner.uid == pod.uid.as_str())
}
