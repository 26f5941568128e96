//! Claims and their PersistentVolumes.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Volume};
use model::Pod;

use super::{VolumeProblem, migration};
use crate::admission::affinity::selects;

const PROTECTION_FINALIZER: &str = "kubernetes.io/pvc-protection";
const ONE_POD: &str = "ReadWriteOncePod";
/// PersistentVolume annotation with the group of its files.
const GROUP_ANNOTATION: &str = "pv.beta.kubernetes.io/gid";

/// Claimed volumes of a pod, by volume name.
pub type ClaimedVolumes = BTreeMap<String, ClaimedVolume>;

/// A claim and its PersistentVolume.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedVolume {
    pub claim: PersistentVolumeClaim,
    pub volume: PersistentVolume,
}

/// The name of the claim of a volume.
pub fn claim_name(pod: &Pod, volume: &Volume) -> Option<String> {
    match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(source), _) => Some(source.claim_name.clone()),
        (None, Some(_)) => Some(format!("{}-{}", pod.name(), volume.name)),
        (None, None) => None,
    }
}

/// The name of the PersistentVolume that a claim is bound to, if the pod may use the claim.
///
/// # Errors
/// When the claim is unbound, being deleted, or owned by another pod.
pub fn bound_volume_name<'a>(
    pod: &Pod,
    volume: &Volume,
    claim: &'a PersistentVolumeClaim,
) -> Result<&'a str, VolumeProblem> {
    let failed = |reason: &str| processing(pod, volume, reason);
    let protected = claim.metadata.finalizers.iter().flatten().any(|name| name == PROTECTION_FINALIZER);
    if claim.metadata.deletion_timestamp.is_some() && !protected {
        return Err(failed("PVC is being deleted"));
    }
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
    if phase != Some("Bound") {
        return Err(failed("PVC is not bound"));
    }
    let name = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default();
    if name.is_empty() {
        return Err(failed("PVC has empty pvc.Spec.VolumeName"));
    }
    if volume.persistent_volume_claim.is_none() && !is_owned_by(pod, claim) {
        let reason = format!(
            "PVC {}/{} was not created for pod {}/{} (pod is not owner)",
            claim.metadata.namespace.as_deref().unwrap_or_default(),
            claim.metadata.name.as_deref().unwrap_or_default(),
            pod.namespace(),
            pod.name()
        );
        return Err(VolumeProblem::Unprocessed { volume: volume.name.clone(), reason });
    }
    Ok(name)
}

/// Checks that a PersistentVolume is bound to the claim and that its volume mode fits the containers.
///
/// # Errors
/// When a check fails.
pub fn check_binding(pod: &Pod, volume: &Volume, claimed: &ClaimedVolume) -> Result<(), VolumeProblem> {
    let ClaimedVolume { claim, volume: found } = claimed;
    let name = found.metadata.name.as_deref().unwrap_or_default();
    let claim_uid = claim.metadata.uid.as_deref().unwrap_or_default();
    let Some(reference) = found.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()) else {
        let reason = format!(
            "found PV object {name} but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
        );
        return Err(processing(pod, volume, &reason));
    };
    let bound_uid = reference.uid.as_deref().unwrap_or_default();
    if bound_uid != claim_uid {
        let reason = format!(
            "found PV object {name} but its pv.Spec.ClaimRef.UID {bound_uid} does not point to claim.UID {claim_uid}"
        );
        return Err(processing(pod, volume, &reason));
    }
    let mode = mode(found);
    let used_as = |is_used: bool, field: &str| {
        let reason = format!("volume {} has volumeMode {mode}, but is specified in {field}", volume.name);
        is_used.then_some(VolumeProblem::Unprocessed { volume: volume.name.clone(), reason })
    };
    let containers = || pod.all_containers().map(|entry| entry.container);
    let is_mounted = containers()
        .any(|container| container.volume_mounts.iter().flatten().any(|mount| mount.name == volume.name));
    let is_device = containers()
        .any(|container| container.volume_devices.iter().flatten().any(|device| device.name == volume.name));
    let problem = used_as(is_mounted && mode != "Filesystem", "volumeMounts")
        .or_else(|| used_as(is_device && mode != "Block", "volumeDevices"));
    problem.map_or(Ok(()), Err)
}

/// Checks the node affinity of volumes.
///
/// # Errors
/// The first volume that excludes the node.
pub fn check_node_affinity(
    claimed: &ClaimedVolumes,
    labels: &BTreeMap<String, String>,
) -> Result<(), VolumeProblem> {
    for found in claimed.values().map(|claimed| &claimed.volume) {
        let translated = migration::persistent(found).ok().flatten();
        let found = translated.as_ref().unwrap_or(found);
        let affinity = found.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref());
        let Some(required) = affinity.and_then(|affinity| affinity.required.as_ref()) else { continue };
        // Upstream compares only the labels of the node.
        if !selects(required, labels, "") {
            let volume = found.metadata.name.clone().unwrap_or_default();
            return Err(VolumeProblem::OfAnotherNode { volume, is_device: mode(found) == "Block" });
        }
    }
    Ok(())
}

/// The supplemental groups from annotations of volumes.
pub fn volume_groups(pod: &Pod, claimed: &ClaimedVolumes) -> Vec<i64> {
    let context = pod.spec.security_context.as_ref();
    let own = context.and_then(|context| context.supplemental_groups.as_deref()).unwrap_or_default();
    let annotated = claimed.values().filter_map(|claimed| {
        let text = claimed.volume.metadata.annotations.as_ref()?.get(GROUP_ANNOTATION)?;
        text.parse::<i64>().ok()
    });
    annotated.filter(|group| !own.contains(group)).collect::<BTreeSet<i64>>().into_iter().collect()
}

/// Whether the access mode is `ReadWriteOncePod`.
pub fn is_for_one_pod(volume: &PersistentVolume) -> bool {
    let modes = volume.spec.as_ref().and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default();
    matches!(modes, [only] if only == ONE_POD)
}

/// Upstream's error for a claim that cannot be processed.
pub fn processing(pod: &Pod, volume: &Volume, reason: &str) -> VolumeProblem {
    let claim = claim_name(pod, volume).unwrap_or_default();
    let reason = format!("error processing PVC {}/{claim}: {reason}", pod.namespace());
    VolumeProblem::Unprocessed { volume: volume.name.clone(), reason }
}

pub(super) fn mode(volume: &PersistentVolume) -> &str {
    volume.spec.as_ref().and_then(|spec| spec.volume_mode.as_deref()).unwrap_or("Filesystem")
}

fn is_owned_by(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    let mut owners = claim.metadata.owner_references.iter().flatten();
    let own_namespace = claim.metadata.namespace.as_deref() == Some(pod.namespace());
    own_namespace && owners.any(|owner| owner.controller == Some(true) && owner.uid == pod.uid.as_str())
}

#[cfg(test)]
mod tests;
