//! Volume sources that live outside the node.

use k8s_openapi::api::core::v1::{
    AzureDiskVolumeSource, CSIVolumeSource, FCVolumeSource, FlockerVolumeSource, ISCSIVolumeSource,
    LocalObjectReference, QuobyteVolumeSource, StorageOSVolumeSource, Volume,
};

use super::checker::Checker;
use super::formats;
use crate::path::Path;

const MAX_LUN: i64 = 255;
const MAX_PARTITION: i64 = 255;
const DRIVER_LENGTH: usize = 63;
const TENANT_LENGTH: usize = 64;
/// Some initiators build a name of this length from volume and portal.
const ISCSI_SESSION_LENGTH: usize = 64;

/// Checks the fields of every network source of a volume.
pub(super) fn check(volume: &Volume, at: &Path, check: &mut Checker) {
    plain_fields(volume, at, check);
    if let Some(source) = &volume.iscsi {
        iscsi(source, &at.field("iscsi"), check);
        let session = volume.name.len() + 1 + source.target_portal.len();
        if source.initiator_name.is_some() && session > ISCSI_SESSION_LENGTH {
            let detail = "volume name and iscsi.targetPortal together are too long for iscsi.initiatorName";
            check.invalid(&at.field("name"), volume.name.as_str(), detail);
        }
    }
    if let Some(source) = &volume.fc {
        fibre_channel(source, &at.field("fc"), check);
    }
    if let Some(source) = &volume.quobyte {
        quobyte(source, &at.field("quobyte"), check);
    }
    if let Some(source) = &volume.flocker {
        flocker(source, &at.field("flocker"), check);
    }
    if let Some(source) = &volume.azure_disk {
        azure_disk(source, &at.field("azureDisk"), check);
    }
    if let Some(source) = &volume.storageos {
        storage_os(source, &at.field("storageos"), check);
    }
    if let Some(source) = &volume.csi {
        csi(source, &at.field("csi"), check);
    }
    if let Some(source) = &volume.flex_volume {
        for key in source.options.iter().flat_map(|options| options.keys()) {
            let domain = format!(".{}", key.split('/').next().unwrap_or_default().to_lowercase());
            if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
                let at = at.field("flexVolume.options").key(key);
                check.invalid(&at, key.as_str(), "kubernetes.io and k8s.io namespaces are reserved");
            }
        }
    }
}

/// Fields that only have to be there, or to lie in a range.
fn plain_fields(volume: &Volume, at: &Path, check: &mut Checker) {
    let mut required: Vec<(&'static str, &str)> = Vec::new();
    let mut partitions = Vec::new();
    if let Some(source) = &volume.nfs {
        required.extend([("nfs.server", source.server.as_str()), ("nfs.path", &source.path)]);
        if !source.path.is_empty() && !source.path.starts_with('/') {
            check.invalid(&at.field("nfs.path"), source.path.as_str(), "must be an absolute path");
        }
    }
    if let Some(source) = &volume.git_repo {
        required.push(("gitRepo.repository", &source.repository));
        let directory = source.directory.as_deref().unwrap_or_default();
        check.format(&at.field("gitRepo.directory"), directory, formats::descending_path(directory));
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
        secret_name(source.secret_ref.as_ref(), &at.field("cinder.secretRef"), check);
    }
    for (field, value) in required {
        check.require_text(&at.field(field), value);
    }
    for (field, number) in partitions {
        check.in_range(&at.field(field), i64::from(number.unwrap_or_default()), 0, MAX_PARTITION);
    }
}

/// The required fields of storage that is reached over the network.
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

fn secret_name(reference: Option<&LocalObjectReference>, at: &Path, check: &mut Checker) {
    if let Some(reference) = reference {
        check.require_text(&at.field("name"), &reference.name);
    }
}

fn iscsi(source: &ISCSIVolumeSource, at: &Path, check: &mut Checker) {
    check.require_text(&at.field("targetPortal"), &source.target_portal);
    if check.require_text(&at.field("iqn"), &source.iqn) {
        check.format(&at.field("iqn"), &source.iqn, iscsi_name(&source.iqn));
    }
    check.in_range(&at.field("lun"), i64::from(source.lun), 0, MAX_LUN);
    let authenticates = source.chap_auth_discovery == Some(true) || source.chap_auth_session == Some(true);
    if authenticates && source.secret_ref.is_none() {
        check.required(&at.field("secretRef"), "");
    }
    if let Some(name) = &source.initiator_name {
        check.format(&at.field("initiatorName"), name, iscsi_name(name));
    }
}

/// `iqn.2001-04.com.example:storage`, `eui.` with 16 or `naa.` with 32 letters and digits.
fn iscsi_name(name: &str) -> Option<String> {
    let is_tail =
        |tail: &str, length| tail.len() == length && tail.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_fine = match name.get(..4) {
        Some("iqn.") => is_iqn(name.get(4..).unwrap_or_default()),
        Some("eui.") => is_tail(name.get(4..).unwrap_or_default(), 16),
        Some("naa.") => is_tail(name.get(4..).unwrap_or_default(), 32),
        _ => return Some("must be valid format starting with iqn, eui, or naa".to_owned()),
    };
    (!is_fine).then(|| "must be valid format".to_owned())
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

fn fibre_channel(source: &FCVolumeSource, at: &Path, check: &mut Checker) {
    let has_targets = !source.target_wwns.as_deref().unwrap_or_default().is_empty();
    let has_ids = !source.wwids.as_deref().unwrap_or_default().is_empty();
    if has_targets == has_ids {
        check.required(&at.field("targetWWNs"), "must specify either targetWWNs or wwids, but not both");
    }
    match source.lun {
        None if has_targets => check.required(&at.field("lun"), "lun is required if targetWWNs is specified"),
        Some(lun) if has_targets => check.in_range(&at.field("lun"), i64::from(lun), 0, MAX_LUN),
        None | Some(_) => {}
    }
}

fn quobyte(source: &QuobyteVolumeSource, at: &Path, check: &mut Checker) {
    let detail = "must be a host:port pair or multiple pairs separated by commas";
    if source.registry.is_empty() {
        check.required(&at.field("registry"), detail);
    } else if !source.registry.split(',').all(is_host_and_port) {
        check.invalid(&at.field("registry"), source.registry.as_str(), detail);
    }
    if source.tenant.as_deref().unwrap_or_default().len() > TENANT_LENGTH {
        check.too_long(&at.field("tenant"), TENANT_LENGTH);
    }
    check.require_text(&at.field("volume"), &source.volume);
}

/// `host:port`, with brackets around a host that has colons itself.
fn is_host_and_port(pair: &str) -> bool {
    let Some((host, _)) = pair.rsplit_once(':') else { return false };
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    !inner.map_or_else(|| host.contains(':'), |host| host.contains(['[', ']']))
        && (inner.is_some() || !host.contains(['[', ']']))
}

fn flocker(source: &FlockerVolumeSource, at: &Path, check: &mut Checker) {
    let name = source.dataset_name.as_deref().unwrap_or_default();
    match (name.is_empty(), source.dataset_uuid.as_deref().unwrap_or_default().is_empty()) {
        (true, true) => check.required(at, "one of datasetName and datasetUUID is required"),
        (false, false) => {
            check.invalid(at, "resource", "datasetName and datasetUUID can not be specified simultaneously");
        }
        (true, false) | (false, true) => {}
    }
    if name.contains('/') {
        check.invalid(&at.field("datasetName"), name, "must not contain '/'");
    }
}

fn azure_disk(source: &AzureDiskVolumeSource, at: &Path, check: &mut Checker) {
    check.require_text(&at.field("diskName"), &source.disk_name);
    if let Some(mode) = &source.caching_mode {
        check.one_of(&at.field("cachingMode"), mode, &["None", "ReadOnly", "ReadWrite"]);
    }
    if let Some(kind) = &source.kind {
        check.one_of(&at.field("kind"), kind, &["Dedicated", "Managed", "Shared"]);
    }
    let uri = source.disk_uri.as_str();
    if check.require_text(&at.field("diskURI"), uri) {
        let (start, form) = match source.kind.as_deref() {
            Some("Managed") => ("/subscriptions/", "/subscriptions/{sub-id}/…/disks/{disk-id}"),
            _ => ("https://", "https://{account}.blob.core.windows.net/{container}/{disk}.vhd"),
        };
        if !uri.starts_with(start) {
            check.unsupported(&at.field("diskURI"), uri, &[form]);
        }
    }
}

fn storage_os(source: &StorageOSVolumeSource, at: &Path, check: &mut Checker) {
    let name = source.volume_name.as_deref().unwrap_or_default();
    if check.require_text(&at.field("volumeName"), name) {
        check.format(&at.field("volumeName"), name, formats::dns_label(name));
    }
    if let Some(namespace) = source.volume_namespace.as_deref().filter(|name| !name.is_empty()) {
        check.format(&at.field("volumeNamespace"), namespace, formats::dns_label(namespace));
    }
    secret_name(source.secret_ref.as_ref(), &at.field("secretRef"), check);
}

fn csi(source: &CSIVolumeSource, at: &Path, check: &mut Checker) {
    let driver = source.driver.as_str();
    if check.require_text(&at.field("driver"), driver) {
        if driver.len() > DRIVER_LENGTH {
            check.too_long(&at.field("driver"), DRIVER_LENGTH);
        }
        check.format(&at.field("driver"), driver, formats::dns_subdomain(&driver.to_lowercase()));
    }
    if let Some(reference) = &source.node_publish_secret_ref {
        let at = at.field("nodePublishSecretRef.name");
        if check.require_text(&at, &reference.name) {
            check.format(&at, &reference.name, formats::dns_subdomain(&reference.name));
        }
    }
}
