//! The ResourceClaims that a pod refers to.

use model::Pod;

use super::ClaimError;

/// A claim of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodClaim {
    /// Its name in `spec.resourceClaims`; `None` for the claim that the scheduler made for extended resources.
    pub entry: Option<String>,
    /// Name of the ResourceClaim in the pod's namespace.
    pub name: String,
    /// Whether the claim was made from a template, for this pod only.
    pub is_generated: bool,
}

/// The gate `DRAExtendedResource`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtendedResources {
    /// The scheduler's claim for extended resources is used.
    Claimed,
    /// Only device plugins provide extended resources.
    NotClaimed,
}

/// The claims of a pod. A template that needs no claim is left out.
///
/// # Errors
/// When a claim was not created yet, or an entry has an unknown source.
pub fn pod_claims(pod: &Pod, extended: ExtendedResources) -> Result<Vec<PodClaim>, ClaimError> {
    let named = pod.spec.resource_claims.iter().flatten();
    let mut claims = Vec::new();
    for entry in named {
        let full_name = || pod_name(pod);
        let name = match (&entry.resource_claim_name, &entry.resource_claim_template_name) {
            (Some(name), _) => Some((name.clone(), false)),
            (None, Some(_)) => {
                let mut statuses = pod.status.resource_claim_statuses.iter().flatten();
                let status = statuses.find(|status| status.name == entry.name);
                let status = status.ok_or_else(|| ClaimError::NotCreated(full_name()))?;
                status.resource_claim_name.clone().map(|name| (name, true))
            }
            (None, None) => {
                let entry = entry.name.clone();
                return Err(ClaimError::UnsupportedSource { pod: full_name(), entry });
            }
        };
        claims.extend(name.map(|(name, is_generated)| PodClaim {
            entry: Some(entry.name.clone()),
            name,
            is_generated,
        }));
    }
    if extended == ExtendedResources::Claimed {
        claims.extend(extended_claim(pod));
    }
    Ok(claims)
}

/// The claim that the scheduler made for the pod's extended resources.
fn extended_claim(pod: &Pod) -> Option<PodClaim> {
    let status = pod.status.extended_resource_claim_status.as_ref()?;
    Some(PodClaim { entry: None, name: status.resource_claim_name.clone(), is_generated: false })
}

/// Namespace and name, as upstream prints them.
pub(super) fn pod_name(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace(), pod.name())
}
