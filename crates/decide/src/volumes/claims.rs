//! From a volume that names a claim to the PersistentVolume behind it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Volume};
use model::Pod;

use super::{VolumeProblem, migration};
use crate::admission::affinity::selects;

const PROTECTION: &str = "kubernetes.io/pvc-protection";
const ONE_POD: &str = "ReadWriteOncePod";
/// The annotation of a PersistentVolume that names the group of its files.
const GROUP: &str = "pv.beta.kubernetes.io/gid";

/// What stands behind the volumes of a pod that name a claim, by volume name.
pub type ClaimedVolumes = BTreeMap<String, ClaimedVolume>;

/// A claim and the volume that is bound to it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedVolume {
    /// The claim.
    pub claim: PersistentVolumeClaim,
    /// Its volume.
    pub volume: PersistentVolume,
}

/// The name of the claim that a volume of a pod stands for.
#[must_use]
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
/// When it is not bound, about to go, or made for another pod.
pub fn bound_volume_name<'a>(
    pod: &Pod,
    volume: &Volume,
    claim: &'a PersistentVolumeClaim,
) -> Result<&'a str, VolumeProblem> {
    let failed = |reason: &str| processing(pod, volume, reason);
    let protected = claim.metadata.finalizers.iter().flatten().any(|name| name == PROTECTION);
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
    if volume.persistent_volume_claim.is_none() && !is_made_for(pod, claim) {
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

/// Checks that a PersistentVolume belongs to the claim and can be used as the pod's containers want it.
///
/// # Errors
/// When it does not.
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

/// Checks that volumes may be used on a node with these labels.
///
/// # Errors
/// At the first one that may not.
pub fn check_node_affinity(
    claimed: &ClaimedVolumes,
    labels: &BTreeMap<String, String>,
) -> Result<(), VolumeProblem> {
    for found in claimed.values().map(|claimed| &claimed.volume) {
        let translated = migration::persistent(found).ok().flatten();
        let found = translated.as_ref().unwrap_or(found);
        let affinity = found.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref());
        let Some(required) = affinity.and_then(|affinity| affinity.required.as_ref()) else { continue };
        // Upstream compares with a node that has labels only.
        if !selects(required, labels, "") {
            let volume = found.metadata.name.clone().unwrap_or_default();
            return Err(VolumeProblem::OfAnotherNode { volume, is_device: mode(found) == "Block" });
        }
    }
    Ok(())
}

/// The groups that the annotations of volumes give to a pod's containers, besides those that it names itself.
#[must_use]
pub fn volume_groups(pod: &Pod, claimed: &ClaimedVolumes) -> Vec<i64> {
    let context = pod.spec.security_context.as_ref();
    let own = context.and_then(|context| context.supplemental_groups.as_deref()).unwrap_or_default();
    let annotated = claimed.values().filter_map(|claimed| {
        let text = claimed.volume.metadata.annotations.as_ref()?.get(GROUP)?;
        text.parse::<i64>().ok()
    });
    annotated.filter(|group| !own.contains(group)).collect::<BTreeSet<i64>>().into_iter().collect()
}

/// Whether only one pod of the cluster may use the volume.
#[must_use]
pub fn is_for_one_pod(volume: &PersistentVolume) -> bool {
    let modes = volume.spec.as_ref().and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default();
    matches!(modes, [only] if only == ONE_POD)
}

/// A claim or volume that cannot be read or used.
#[must_use]
pub fn processing(pod: &Pod, volume: &Volume, reason: &str) -> VolumeProblem {
    let claim = claim_name(pod, volume).unwrap_or_default();
    let reason = format!("error processing PVC {}/{claim}: {reason}", pod.namespace());
    VolumeProblem::Unprocessed { volume: volume.name.clone(), reason }
}

pub(super) fn mode(volume: &PersistentVolume) -> &str {
    volume.spec.as_ref().and_then(|spec| spec.volume_mode.as_deref()).unwrap_or("Filesystem")
}

/// Whether the pod controls the claim.
fn is_made_for(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    let mut owners = claim.metadata.owner_references.iter().flatten();
    let own_namespace = claim.metadata.namespace.as_deref() == Some(pod.namespace());
    own_namespace && owners.any(|owner| owner.controller == Some(true) && owner.uid == pod.uid.as_str())
}

#[cfg(test)]
mod tests;
