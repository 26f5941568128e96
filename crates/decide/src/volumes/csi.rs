//! Volumes of CSI drivers.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use model::{
    CsiAccess, CsiLifecycle, CsiPod, CsiSize, CsiVolume, NodeSettings, Pod, SecretReference, VolumePlan,
    VolumeStep,
};
use sha2::{Digest, Sha256};

use super::claims::{ClaimedVolume, mode};
use crate::quantity::bytes;
use crate::runtime_spec::pod_paths::PodPaths;

const PLUGIN: &str = "kubernetes.io/csi";
/// Claim annotation: the volume is expanded without its nodes.
const NODE_EXPANSION_NOT_REQUIRED: &str = "volume.kubernetes.io/node-expansion-not-required";
/// gRPC code.
const RESOURCE_EXHAUSTED: i32 = 8;

/// A claimed volume.
pub(super) struct Claimed<'a> {
    pub(super) pod: &'a Pod,
    pub(super) claimed: &'a ClaimedVolume,
    pub(super) spec: &'a core::PersistentVolumeSpec,
    pub(super) source: &'a core::CSIPersistentVolumeSource,
    pub(super) read_only: bool,
}

/// Plans a PersistentVolume.
pub(super) fn claimed(given: &Claimed<'_>, settings: &NodeSettings) -> VolumePlan {
    let Claimed { pod, claimed, spec, source, read_only } = given;
    let name = claimed.volume.metadata.name.clone().unwrap_or_default();
    let paths = PodPaths::new(settings);
    let (path, access) = if mode(&claimed.volume) == "Block" {
        (paths.device_link(&pod.uid, PLUGIN, &name), CsiAccess::Block)
    } else {
        let fs_type = source.fs_type.clone().unwrap_or_default();
        let path = paths.volume_dir(&pod.uid, PLUGIN, &name).join("mount");
        // The mount options annotation does not apply to CSI volumes.
        (path, CsiAccess::Files { fs_type, options: spec.mount_options.clone().unwrap_or_default() })
    };
    VolumePlan::Csi(Box::new(CsiVolume {
        path,
        spec_name: name,
        driver: source.driver.clone(),
        handle: source.volume_handle.clone(),
        lifecycle: CsiLifecycle::Persistent,
        access,
        read_only: *read_only,
        access_modes: spec.access_modes.clone().unwrap_or_default(),
        attributes: source.volume_attributes.clone().unwrap_or_default().into_iter().collect(),
        stage_secret: source.node_stage_secret_ref.as_ref().map(secret),
        publish_secret: source.node_publish_secret_ref.as_ref().map(secret),
        expand_secret: source.node_expand_secret_ref.as_ref().map(secret),
        pod: pod_info(pod),
        size: size(claimed),
    }))
}

/// Plans an inline volume.
pub(super) fn inline(
    pod: &Pod,
    volume: &str,
    source: &core::CSIVolumeSource,
    settings: &NodeSettings,
) -> VolumePlan {
    let path = PodPaths::new(settings).volume_dir(&pod.uid, PLUGIN, volume).join("mount");
    let secret_name = source.node_publish_secret_ref.as_ref().map(|reference| reference.name.clone());
    VolumePlan::Csi(Box::new(CsiVolume {
        path,
        spec_name: volume.to_owned(),
        driver: source.driver.clone(),
        handle: named(&[pod.uid.as_str(), volume]),
        lifecycle: CsiLifecycle::Ephemeral,
        access: CsiAccess::Files { fs_type: source.fs_type.clone().unwrap_or_default(), options: Vec::new() },
        read_only: source.read_only == Some(true),
        access_modes: Vec::new(),
        attributes: source.volume_attributes.clone().unwrap_or_default().into_iter().collect(),
        stage_secret: None,
        publish_secret: secret_name
            .map(|name| SecretReference { namespace: pod.namespace().to_owned(), name }),
        expand_secret: None,
        pod: pod_info(pod),
        size: None,
    }))
}

/// The failed step and message for a volume whose driver is not registered. The first step that needs the driver fails;
/// `is_published` means that the volume is already published.
pub fn missing_driver_error(volume: &CsiVolume, is_published: bool, reason: &str) -> (VolumeStep, String) {
    let is_first = volume.lifecycle == CsiLifecycle::Persistent && !is_published;
    let (step, words) = match (&volume.access, is_first) {
        (CsiAccess::Files { .. }, true) => {
            (VolumeStep::MountDevice, "attacher.MountDevice failed to create newCsiDriverClient")
        }
        (CsiAccess::Files { .. }, false) => (VolumeStep::SetUp, "mounter.SetUpAt failed to get CSI client"),
        (CsiAccess::Block, true) => {
            (VolumeStep::MountDevice, "blockMapper.SetUpDevice failed to get CSI client")
        }
        (CsiAccess::Block, false) => (VolumeStep::SetUp, "blockMapper.MapPodDevice failed to get CSI client"),
    };
    (step, format!("{PLUGIN}: {words}: {reason}"))
}

/// The name of the VolumeAttachment.
pub fn attachment_name(handle: &str, driver: &str, node: &str) -> String {
    named(&[handle, driver, node])
}

/// The publish context of an attachment; `None` while the volume is not attached.
///
/// # Errors
/// When the attachment failed.
pub fn attached(attachment: &VolumeAttachment) -> Result<Option<BTreeMap<String, String>>, String> {
    if attachment.metadata.deletion_timestamp.is_some() {
        return Err("volume attachment is being deleted".to_owned());
    }
    let Some(status) = &attachment.status else { return Ok(None) };
    if status.attached {
        return Ok(Some(status.attachment_metadata.clone().unwrap_or_default().into_iter().collect()));
    }
    match status.attach_error.as_ref().and_then(|error| error.message.clone()) {
        Some(message) => Err(message),
        None => Ok(None),
    }
}

/// Whether the attachment failed because the node has reached its limit.
pub fn is_exhausted(attachment: &VolumeAttachment) -> bool {
    let error = attachment.status.as_ref().and_then(|status| status.attach_error.as_ref());
    error.and_then(|error| error.error_code) == Some(RESOURCE_EXHAUSTED)
}

/// The name in the node's `volumesInUse`.
pub fn volume_in_use(driver: &str, handle: &str) -> String {
    format!("{PLUGIN}/{driver}^{handle}")
}

/// The volume attributes of `podInfoOnMount`.
pub fn pod_information(pod: &CsiPod, lifecycle: CsiLifecycle) -> BTreeMap<String, String> {
    let ephemeral = lifecycle == CsiLifecycle::Ephemeral;
    [
        ("pod.name", pod.name.clone()),
        ("pod.namespace", pod.namespace.clone()),
        ("pod.uid", pod.uid.to_string()),
        ("serviceAccount.name", pod.service_account.clone()),
        ("ephemeral", ephemeral.to_string()),
    ]
    .into_iter()
    .map(|(key, value)| (format!("csi.storage.k8s.io/{key}"), value))
    .collect()
}

fn named(parts: &[&str]) -> String {
    format!("csi-{:x}", Sha256::digest(parts.concat()))
}

fn secret(reference: &core::SecretReference) -> SecretReference {
    SecretReference {
        namespace: reference.namespace.clone().unwrap_or_default(),
        name: reference.name.clone().unwrap_or_default(),
    }
}

pub(super) fn pod_info(pod: &Pod) -> CsiPod {
    CsiPod {
        name: pod.name().to_owned(),
        namespace: pod.namespace().to_owned(),
        uid: pod.uid.clone(),
        service_account: pod.spec.service_account_name.clone().unwrap_or_default(),
    }
}

pub(super) fn size(claimed: &ClaimedVolume) -> Option<CsiSize> {
    let capacity = claimed.volume.spec.as_ref()?.capacity.as_ref()?.get("storage")?;
    let status = claimed.claim.status.as_ref()?;
    let known = status.capacity.as_ref()?.get("storage")?;
    let spec = claimed.claim.spec.as_ref();
    let requests = spec.and_then(|spec| spec.resources.as_ref()).and_then(|list| list.requests.as_ref());
    let asked = requests.and_then(|list| list.get("storage"));
    let allocated = status.allocated_resources.as_ref().and_then(|list| list.get("storage"));
    let state = status.allocated_resource_statuses.as_ref().and_then(|list| list.get("storage"));
    let modes = spec.and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default();
    let is_shared = modes.iter().any(|mode| mode == "ReadWriteMany");
    let annotations = claimed.claim.metadata.annotations.as_ref();
    let is_exempt = annotations.is_some_and(|list| list.contains_key(NODE_EXPANSION_NOT_REQUIRED));
    Some(CsiSize {
        namespace: claimed.claim.metadata.namespace.clone()?,
        claim: claimed.claim.metadata.name.clone()?,
        uid: claimed.claim.metadata.uid.clone().unwrap_or_default(),
        requested: bytes(capacity),
        known: bytes(known),
        wanted_text: capacity.0.clone(),
        asked: asked.map(bytes).unwrap_or_default(),
        allocated: allocated.map(|allocated| (bytes(allocated), allocated.0.clone())),
        state: state.cloned().unwrap_or_default(),
        grows_on_each_node: is_shared && !is_exempt,
    })
}
