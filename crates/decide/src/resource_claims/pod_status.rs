//! Health of the devices that containers have through claims, for the status of their pod.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, ResourceClaim, ResourceHealth, ResourceStatus};
use model::{Pod, PodUid, PreparedDevice, Timestamp};

use super::container_devices::satisfies;
use super::device_health::{DeviceHealthTable, DeviceName};
use super::references::{ExtendedResources, PodClaim, pod_claims};
use super::{PreparedClaim, PreparedClaims};

/// The claims, and the health of their devices.
#[derive(Clone, Copy)]
pub struct ClaimHealthInputs<'a> {
    pub prepared: &'a PreparedClaims,
    pub health: &'a DeviceHealthTable,
    /// The gate `ResourceHealthStatusMessage`.
    pub shows_messages: bool,
    pub now: Timestamp,
}

/// The devices of each container of a pod. Like upstream, init containers and extended resources are left out.
#[must_use]
pub fn claim_health(pod: &Pod, inputs: ClaimHealthInputs<'_>) -> BTreeMap<String, Vec<ResourceStatus>> {
    let claims = pod_claims(pod, ExtendedResources::NotClaimed).unwrap_or_default();
    let of_container = |container: &Container| {
        let own = container.resources.iter().flat_map(|resources| resources.claims.iter().flatten());
        let own = own.filter_map(|claim| container_claim_health(pod, &claims, claim, inputs));
        own.collect::<Vec<_>>()
    };
    let containers = pod.spec.containers.iter().map(|container| (container, of_container(container)));
    let shown = containers.filter(|(_, own)| !own.is_empty());
    shown.map(|(container, own)| (container.name.clone(), own)).collect()
}

/// `None` for a claim that is not prepared, or has no devices for the container.
fn container_claim_health(
    pod: &Pod,
    claims: &[PodClaim],
    claim: &ResourceClaim,
    inputs: ClaimHealthInputs<'_>,
) -> Option<ResourceStatus> {
    let request = claim.request.as_deref().unwrap_or_default();
    let referenced = claims.iter().find(|own| own.entry.as_ref() == Some(&claim.name))?;
    let prepared = inputs.prepared.get(pod.namespace(), &referenced.name)?;
    let mut resources: Vec<ResourceHealth> = Vec::new();
    for (driver, device) in devices(prepared, request) {
        let resource = resource_health(driver, device, inputs);
        if !resources.iter().any(|other| other.resource_id == resource.resource_id) {
            resources.push(resource);
        }
    }
    let name = match request {
        "" => format!("claim:{}", claim.name),
        request => format!("claim:{}/{request}", claim.name),
    };
    (!resources.is_empty()).then_some(ResourceStatus { name, resources: Some(resources) })
}

fn devices<'a>(
    prepared: &'a PreparedClaim,
    request: &'a str,
) -> impl Iterator<Item = (&'a str, &'a PreparedDevice)> {
    let of_driver = |(driver, devices): (&'a String, &'a Vec<PreparedDevice>)| {
        devices.iter().map(move |device| (driver.as_str(), device))
    };
    prepared.drivers.iter().flat_map(of_driver).filter(move |(_, device)| satisfies(device, request))
}

fn resource_health(driver: &str, device: &PreparedDevice, inputs: ClaimHealthInputs<'_>) -> ResourceHealth {
    let name = device_name(driver, device);
    let (health, message) = inputs.health.health(&name, inputs.now);
    let full_name = || format!("{driver}/{}/{}", device.pool, device.device);
    ResourceHealth {
        health: Some(health.as_str().to_owned()),
        message: Some(message.to_owned()).filter(|text| inputs.shows_messages && !text.is_empty()),
        resource_id: device.cdi_ids.first().cloned().unwrap_or_else(full_name),
    }
}

fn device_name(driver: &str, device: &PreparedDevice) -> DeviceName {
    DeviceName { driver: driver.to_owned(), pool: device.pool.clone(), device: device.device.clone() }
}

/// The pods that use one of the devices.
#[must_use]
pub fn pods_of_devices(prepared: &PreparedClaims, devices: &BTreeSet<DeviceName>) -> BTreeSet<PodUid> {
    let uses = |claim: &PreparedClaim| {
        let mut own = self::devices(claim, "");
        own.any(|(driver, device)| devices.contains(&device_name(driver, device)))
    };
    let claims = prepared.iter().filter(|(_, claim)| uses(claim));
    claims.flat_map(|(_, claim)| claim.pods.iter().cloned()).collect()
}

#[cfg(test)]
mod tests;
