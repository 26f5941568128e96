//! Rules for volume sources outside the node.

use k8s_openapi::api::core::v1::{
    AzureDiskVolumeSource, CSIVolumeSource, FCVolumeSource, FlockerVolumeSource, ISCSIVolumeSource,
    LocalObjectReference, QuobyteVolumeSource, StorageOSVolumeSource, Volume,
};

use super::checker::Checker;
use super::formats;
use crate::path::Path;

const MAX_LUN: i64 = 255;
const MAX_PARTITION: i64 = 255;
const MAX_DRIVER_LENGTH: usize = 63;
const MAX_TENANT_LENGTH: usize = 64;
/// Some initiators build a session name from volume and portal and limit its length.
const MAX_ISCSI_SESSION_LENGTH: usize = 64;

/// Checks all network sources of a volume.
pub(super) fn check(volume: &Volume, path: &Path, checker: &mut Checker) {
    check_required_fields(volume, path, checker);
    if let Some(source) = &volume.iscsi {
        check_iscsi(source, &path.field("iscsi"), checker);
        let session = volume.name.len() + 1 + source.target_portal.len();
        if source.initiator_name.is_some() && session > MAX_ISCSI_SESSION_LENGTH {
            let detail = "volume name and iscsi.targetPortal together are too long for iscsi.initiatorName";
            checker.invalid(&path.field("name"), volume.name.as_str(), detail);
        }
    }
    if let Some(source) = &volume.fc {
        check_fibre_channel(source, &path.field("fc"), checker);
    }
    if let Some(source) = &volume.quobyte {
        check_quobyte(source, &path.field("quobyte"), checker);
    }
    if let Some(source) = &volume.flocker {
        check_flocker(source, &path.field("flocker"), checker);
    }
    if let Some(source) = &volume.azure_disk {
        check_azure_disk(source, &path.field("azureDisk"), checker);
    }
    if let Some(source) = &volume.storageos {
        check_storage_os(source, &path.field("storageos"), checker);
    }
    if let Some(source) = &volume.csi {
        check_csi(source, &path.field("csi"), checker);
    }
    if let Some(source) = &volume.flex_volume {
        for key in source.options.iter().flat_map(|options| options.keys()) {
            let domain = format!(".{}", key.split('/').next().unwrap_or_default().to_lowercase());
            if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
                let path = path.field("flexVolume.options").key(key);
                checker.invalid(&path, key.as_str(), "kubernetes.io and k8s.io namespaces are reserved");
            }
        }
    }
}

/// Checks required fields and numeric ranges.
fn check_required_fields(volume: &Volume, path: &Path, checker: &mut Checker) {
    let mut required: Vec<(&'static str, &str)> = Vec::new();
    let mut partitions = Vec::new();
    if let Some(source) = &volume.nfs {
        required.extend([("nfs.server", source.server.as_str()), ("nfs.path", &source.path)]);
        if !source.path.is_empty() && !source.path.starts_with('/') {
            checker.invalid(&path.field("nfs.path"), source.path.as_str(), "must be an absolute path");
        }
    }
    if let Some(source) = &volume.git_repo {
        required.push(("gitRepo.repository", &source.repository));
        let directory = source.directory.as_deref().unwrap_or_default();
        checker.format(&path.field("gitRepo.directory"), directory, formats::local_path(directory));
    }
    if let Some(source) = &volume.gce_persistent_disk {
        required.push(("gcePersistentDisk.pdName", &source.pd_name));
        partitions.push(("gcePersistentDisk.partition", source.partition));
    }
    if let Some(source) = &volume.aws_elastic_block_store {
        required.push(("awsElasticBlockStore.volumeID", &source.volume_id));
        partitions.push(("awsElasticBlockStore.partition", source.partition));
    }
    if let Some(source) = &volume.glusterfs {
        required
            .extend([("glusterfs.endpoints", source.endpoints.as_str()), ("glusterfs.path", &source.path)]);
    }
    if let Some(source) = &volume.persistent_volume_claim {
        required.push(("persistentVolumeClaim.claimName", &source.claim_name));
    }
    network_fields(volume, &mut required);
    if let Some(source) = &volume.cinder {
        check_secret_name(source.secret_ref.as_ref(), &path.field("cinder.secretRef"), checker);
    }
    for (field, value) in required {
        checker.require_text(&path.field(field), value);
    }
    for (field, number) in partitions {
        checker.in_range(&path.field(field), i64::from(number.unwrap_or_default()), 0, MAX_PARTITION);
    }
}

/// Collects the required fields of network storage.
fn network_fields<'a>(volume: &'a Volume, required: &mut Vec<(&'static str, &'a str)>) {
    if let Some(source) = &volume.rbd {
        required.push(("rbd.image", &source.image));
        required.push(("rbd.monitors", source.monitors.first().map_or("", |_| "set")));
    }
    if let Some(source) = &volume.cephfs {
        required.push(("cephfs.monitors", source.monitors.first().map_or("", |_| "set")));
    }
    if let Some(source) = &volume.cinder {
        required.push(("cinder.volumeID", &source.volume_id));
    }
    if let Some(source) = &volume.flex_volume {
        required.push(("flexVolume.driver", &source.driver));
    }
    if let Some(source) = &volume.azure_file {
        required.push(("azureFile.secretName", &source.secret_name));
        required.push(("azureFile.shareName", &source.share_name));
    }
    if let Some(source) = &volume.vsphere_volume {
        required.push(("vsphereVolume.volumePath", &source.volume_path));
    }
    if let Some(source) = &volume.photon_persistent_disk {
        required.push(("photonPersistentDisk.pdID", &source.pd_id));
    }
    if let Some(source) = &volume.portworx_volume {
        required.push(("portworxVolume.volumeID", &source.volume_id));
    }
    if let Some(source) = &volume.scale_io {
        required.extend([("scaleIO.gateway", source.gateway.as_str()), ("scaleIO.system", &source.system)]);
        required.push(("scaleIO.volumeName", source.volume_name.as_deref().unwrap_or_default()));
    }
}

fn check_secret_name(reference: Option<&LocalObjectReference>, path: &Path, checker: &mut Checker) {
    if let Some(reference) = reference {
        checker.require_text(&path.field("name"), &reference.name);
    }
}

fn check_iscsi(source: &ISCSIVolumeSource, path: &Path, checker: &mut Checker) {
    checker.require_text(&path.field("targetPortal"), &source.target_portal);
    if checker.require_text(&path.field("iqn"), &source.iqn) {
        checker.format(&path.field("iqn"), &source.iqn, iscsi_name(&source.iqn));
    }
    checker.in_range(&path.field("lun"), i64::from(source.lun), 0, MAX_LUN);
    let authenticates = source.chap_auth_discovery == Some(true) || source.chap_auth_session == Some(true);
    if authenticates && source.secret_ref.is_none() {
        checker.required(&path.field("secretRef"), "");
    }
    if let Some(name) = &source.initiator_name {
        checker.format(&path.field("initiatorName"), name, iscsi_name(name));
    }
}

/// Accepts `iqn.2001-04.com.example:storage`, or `eui.` with 16 or `naa.` with 32 letters and digits.
fn iscsi_name(name: &str) -> Option<String> {
    let is_tail =
        |tail: &str, length| tail.len() == length && tail.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_valid = match name.get(..4) {
        Some("iqn.") => is_iqn(name.get(4..).unwrap_or_default()),
        Some("eui.") => is_tail(name.get(4..).unwrap_or_default(), 16),
        Some("naa.") => is_tail(name.get(4..).unwrap_or_default(), 32),
        _ => return Some("must be valid format starting with iqn, eui, or naa".to_owned()),
    };
    (!is_valid).then(|| "must be valid format".to_owned())
}

fn is_iqn(rest: &str) -> bool {
    let Some((authority, target)) = rest.split_once(':') else { return false };
    let mut date = authority.splitn(2, '.');
    let is_number =
        |text: &str, length| text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_date = date
        .next()
        .and_then(|date| date.split_once('-'))
        .is_some_and(|(year, month)| is_number(year, 4) && is_number(month, 2));
    let domain = date.next().unwrap_or_default();
    is_date
        && !domain.is_empty()
        && domain.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
        && !target.is_empty()
        && !target.contains([',', ';', '*', '&', '$', '|'])
        && !target.contains(char::is_whitespace)
}

fn check_fibre_channel(source: &FCVolumeSource, path: &Path, checker: &mut Checker) {
    let has_targets = !source.target_wwns.as_deref().unwrap_or_default().is_empty();
    let has_ids = !source.wwids.as_deref().unwrap_or_default().is_empty();
    if has_targets == has_ids {
        checker.required(&path.field("targetWWNs"), "must specify either targetWWNs or wwids, but not both");
    }
    match source.lun {
        None if has_targets => {
            checker.required(&path.field("lun"), "lun is required if targetWWNs is specified");
        }
        Some(lun) if has_targets => checker.in_range(&path.field("lun"), i64::from(lun), 0, MAX_LUN),
        None | Some(_) => {}
    }
}

fn check_quobyte(source: &QuobyteVolumeSource, path: &Path, checker: &mut Checker) {
    let detail = "must be a host:port pair or multiple pairs separated by commas";
    if source.registry.is_empty() {
        checker.required(&path.field("registry"), detail);
    } else if !source.registry.split(',').all(is_host_and_port) {
        checker.invalid(&path.field("registry"), source.registry.as_str(), detail);
    }
    if source.tenant.as_deref().unwrap_or_default().len() > MAX_TENANT_LENGTH {
        checker.too_long(&path.field("tenant"), MAX_TENANT_LENGTH);
    }
    checker.require_text(&path.field("volume"), &source.volume);
}

/// Accepts `host:port`, with brackets around a host that contains colons.
fn is_host_and_port(pair: &str) -> bool {
    let Some((host, _)) = pair.rsplit_once(':') else { return false };
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    !inner.map_or_else(|| host.contains(':'), |host| host.contains(['[', ']']))
        && (inner.is_some() || !host.contains(['[', ']']))
}

fn check_flocker(source: &FlockerVolumeSource, path: &Path, checker: &mut Checker) {
    let name = source.dataset_name.as_deref().unwrap_or_default();
    match (name.is_empty(), source.dataset_uuid.as_deref().unwrap_or_default().is_empty()) {
        (true, true) => checker.required(path, "one of datasetName and datasetUUID is required"),
        (false, false) => {
            checker.invalid(
                path,
                "resource",
                "datasetName and datasetUUID can not be specified simultaneously",
            );
        }
        (true, false) | (false, true) => {}
    }
    if name.contains('/') {
        checker.invalid(&path.field("datasetName"), name, "must not contain '/'");
    }
}

fn check_azure_disk(source: &AzureDiskVolumeSource, path: &Path, checker: &mut Checker) {
    checker.require_text(&path.field("diskName"), &source.disk_name);
    if let Some(mode) = &source.caching_mode {
        checker.one_of(&path.field("cachingMode"), mode, &["None", "ReadOnly", "ReadWrite"]);
    }
    if let Some(kind) = &source.kind {
        checker.one_of(&path.field("kind"), kind, &["Dedicated", "Managed", "Shared"]);
    }
    let uri = source.disk_uri.as_str();
    if checker.require_text(&path.field("diskURI"), uri) {
        let (start, form) = match source.kind.as_deref() {
            Some("Managed") => ("/subscriptions/", "/subscriptions/{sub-id}/…/disks/{disk-id}"),
            _ => ("https://", "https://{account}.blob.core.windows.net/{container}/{disk}.vhd"),
        };
        if !uri.starts_with(start) {
            checker.unsupported(&path.field("diskURI"), uri, &[form]);
        }
    }
}

fn check_storage_os(source: &StorageOSVolumeSource, path: &Path, checker: &mut Checker) {
    let name = source.volume_name.as_deref().unwrap_or_default();
    if checker.require_text(&path.field("volumeName"), name) {
        checker.format(&path.field("volumeName"), name, formats::dns_label(name));
    }
    if let Some(namespace) = source.volume_namespace.as_deref().filter(|name| !name.is_empty()) {
        checker.format(&path.field("volumeNamespace"), namespace, formats::dns_label(namespace));
    }
    check_secret_name(source.secret_ref.as_ref(), &path.field("secretRef"), checker);
}

fn check_csi(source: &CSIVolumeSource, path: &Path, checker: &mut Checker) {
    let driver = source.driver.as_str();
    if checker.require_text(&path.field("driver"), driver) {
        if driver.len() > MAX_DRIVER_LENGTH {
            checker.too_long(&path.field("driver"), MAX_DRIVER_LENGTH);
        }
        checker.format(&path.field("driver"), driver, formats::dns_subdomain(&driver.to_lowercase()));
    }
    if let Some(reference) = &source.node_publish_secret_ref {
        let path = path.field("nodePublishSecretRef.name");
        if checker.require_text(&path, &reference.name) {
            checker.format(&path, &reference.name, formats::dns_subdomain(&reference.name));
        }
    }
}
