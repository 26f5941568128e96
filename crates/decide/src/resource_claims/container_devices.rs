//! The prepared devices of a container.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;
use model::{Pod, PreparedDevice};

use super::references::{ExtendedResources, PodClaim, pod_claims};
use super::{ClaimError, PreparedClaim, PreparedClaims};

/// A claim that a container uses.
pub struct ContainerClaim<'a> {
    pub claim: PodClaim,
    pub prepared: &'a PreparedClaim,
    /// The requests of the claim that the container uses; empty text means all.
    requests: Vec<String>,
}

impl<'a> ContainerClaim<'a> {
    /// The container's devices with their driver, once per request that they satisfy.
    pub fn devices(&self) -> impl Iterator<Item = (&'a str, &'a PreparedDevice)> {
        let (prepared, requests) = (self.prepared, &self.requests);
        requests.iter().flat_map(move |request| {
            let devices = prepared
                .drivers
                .iter()
                .flat_map(|(driver, devices)| devices.iter().map(move |device| (driver.as_str(), device)));
            devices.filter(move |(_, device)| satisfies(device, request))
        })
    }
}

pub(super) fn satisfies(device: &PreparedDevice, request: &str) -> bool {
    request.is_empty() || device.requests.is_empty() || device.requests.iter().any(|name| name == request)
}

/// The claims that a container uses.
///
/// # Errors
/// When one of them is not prepared.
pub fn container_claims<'a>(
    prepared: &'a PreparedClaims,
    pod: &Pod,
    container: &Container,
    extended: ExtendedResources,
) -> Result<Vec<ContainerClaim<'a>>, ClaimError> {
    let claims =
        pod_claims(pod, extended)?.into_iter().map(|claim| (requests_of(pod, container, &claim), claim));
    let in_use = claims.filter(|(requests, _)| !requests.is_empty());
    let found = in_use.map(|(requests, claim)| match prepared.get(pod.namespace(), &claim.name) {
        Some(prepared) => Ok(ContainerClaim { claim, prepared, requests }),
        None => {
            let namespace = pod.namespace().to_owned();
            Err(ClaimError::NotPrepared { name: claim.name, namespace })
        }
    });
    found.collect()
}

/// The claims that a container uses, without those that are not prepared.
#[must_use]
pub fn known_container_claims<'a>(
    prepared: &'a PreparedClaims,
    pod: &Pod,
    container: &Container,
    extended: ExtendedResources,
) -> Vec<ContainerClaim<'a>> {
    let claims = pod_claims(pod, extended).unwrap_or_default().into_iter();
    let found = claims.filter_map(|claim| {
        let requests = requests_of(pod, container, &claim);
        let prepared = prepared.get(pod.namespace(), &claim.name).filter(|_| !requests.is_empty())?;
        Some(ContainerClaim { claim, prepared, requests })
    });
    found.collect()
}

/// The names of a container's devices for the runtime: each once, in the order of the pod's claims.
///
/// # Errors
/// When a claim of the container is not prepared.
pub fn cdi_ids(
    prepared: &PreparedClaims,
    pod: &Pod,
    container: &Container,
    extended: ExtendedResources,
) -> Result<Vec<String>, ClaimError> {
    let mut ids: Vec<String> = Vec::new();
    for claim in container_claims(prepared, pod, container, extended)? {
        for id in claim.devices().flat_map(|(_, device)| &device.cdi_ids) {
            if !ids.contains(id) {
                ids.push(id.clone());
            }
        }
    }
    Ok(ids)
}

fn requests_of(pod: &Pod, container: &Container, claim: &PodClaim) -> Vec<String> {
    match &claim.entry {
        Some(entry) => named_requests(container, entry),
        None => extended_requests(pod, container),
    }
}

fn named_requests(container: &Container, entry: &str) -> Vec<String> {
    let claims = container.resources.iter().flat_map(|resources| resources.claims.iter().flatten());
    let own = claims.filter(|claim| claim.name == entry);
    own.map(|claim| claim.request.clone().unwrap_or_default()).collect()
}

/// The requests of the scheduler's claim that back extended resources of the container.
fn extended_requests(pod: &Pod, container: &Container) -> Vec<String> {
    let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let empty = BTreeMap::new();
    let requests = requests.unwrap_or(&empty);
    let status = pod.status.extended_resource_claim_status.iter();
    let mappings = status.flat_map(|status| &status.request_mappings);
    let own = mappings.filter(|mapping| {
        let requested = requests.get(&mapping.resource_name).is_some_and(|amount| amount.0 != "0");
        mapping.container_name == container.name && requested
    });
    own.map(|mapping| mapping.request_name.clone()).collect()
}
