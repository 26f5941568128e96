//! Rules for volume sources outside the node.

use k8s_openapi::api::core::v1::{
    AzureDiskVolumeSource, CSIVolumeSource, FCVolumeSource, FlockerVolumeSource, ISCSIVolumeSource,
    LocalObjectReference, QuobyteVolumeSource, StorageOSVolumeSource, Volume,
};

use super::field::Field;
use super::formats;

const MAX_LUN: i64 = 255;
const MAX_PARTITION: i64 = 255;
const MAX_DRIVER_LENGTH: usize = 63;
const MAX_TENANT_LENGTH: usize = 64;
/// Some initiators build a session name from volume and portal and limit its length.
const MAX_ISCSI_SESSION_LENGTH: usize = 64;

/// Checks all network sources of a volume.
pub(super) fn check(volume: &Volume, at: &Field<'_>) {
    check_required_fields(volume, at);
    if let Some(source) = &volume.iscsi {
        check_iscsi(source, &at.field("iscsi"));
        let session = volume.name.len() + 1 + source.target_portal.len();
        if source.initiator_name.is_some() && session > MAX_ISCSI_SESSION_LENGTH {
            let detail = "volume name and iscsi.targetPortal together are too long for iscsi.initiatorName";
            at.field("name").invalid(volume.name.as_str(), detail);
        }
    }
    at.if_set("fc", &volume.fc, check_fibre_channel);
    at.if_set("quobyte", &volume.quobyte, check_quobyte);
    at.if_set("flocker", &volume.flocker, check_flocker);
    at.if_set("azureDisk", &volume.azure_disk, check_azure_disk);
    at.if_set("storageos", &volume.storageos, check_storage_os);
    at.if_set("csi", &volume.csi, check_csi);
    if let Some(source) = &volume.flex_volume {
        for key in source.options.iter().flat_map(|options| options.keys()) {
            let domain = format!(".{}", key.split('/').next().unwrap_or_default().to_lowercase());
            if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
                let at = at.field("flexVolume.options").key(key);
                at.invalid(key.as_str(), "kubernetes.io and k8s.io namespaces are reserved");
            }
        }
    }
}

/// Checks required fields and numeric ranges.
fn check_required_fields(volume: &Volume, at: &Field<'_>) {
    at.if_set("nfs", &volume.nfs, |of, at| {
        if !of.path.is_empty() && !of.path.starts_with('/') {
            at.field("path").invalid(of.path.as_str(), "must be an absolute path");
        }
        at.require_all(&[("server", &of.server), ("path", &of.path)]);
    });
    at.if_set("gitRepo", &volume.git_repo, |of, at| {
        at.field("directory").format(of.directory.as_deref().unwrap_or_default(), formats::local_path);
        at.require_all(&[("repository", &of.repository)]);
    });
    at.if_set("gcePersistentDisk", &volume.gce_persistent_disk, |of, at| {
        at.require_all(&[("pdName", &of.pd_name)]);
        at.field("partition").in_range(i64::from(of.partition.unwrap_or_default()), 0, MAX_PARTITION);
    });
    at.if_set("awsElasticBlockStore", &volume.aws_elastic_block_store, |of, at| {
        at.require_all(&[("volumeID", &of.volume_id)]);
        at.field("partition").in_range(i64::from(of.partition.unwrap_or_default()), 0, MAX_PARTITION);
    });
    at.if_set("glusterfs", &volume.glusterfs, |of, at| {
        at.require_all(&[("endpoints", &of.endpoints), ("path", &of.path)]);
    });
    at.if_set("persistentVolumeClaim", &volume.persistent_volume_claim, |of, at| {
        at.require_all(&[("claimName", &of.claim_name)]);
    });
    at.if_set("rbd", &volume.rbd, |of, at| {
        at.require_all(&[("image", &of.image)]);
        check_monitors(&of.monitors, at);
    });
    at.if_set("cephfs", &volume.cephfs, |of, at| check_monitors(&of.monitors, at));
    at.if_set("cinder", &volume.cinder, |of, at| {
        at.if_set("secretRef", &of.secret_ref, check_secret_name);
        at.require_all(&[("volumeID", &of.volume_id)]);
    });
    at.if_set("flexVolume", &volume.flex_volume, |of, at| at.require_all(&[("driver", &of.driver)]));
    at.if_set("azureFile", &volume.azure_file, |of, at| {
        at.require_all(&[("secretName", &of.secret_name), ("shareName", &of.share_name)]);
    });
    at.if_set("vsphereVolume", &volume.vsphere_volume, |of, at| {
        at.require_all(&[("volumePath", &of.volume_path)]);
    });
    at.if_set("photonPersistentDisk", &volume.photon_persistent_disk, |of, at| {
        at.require_all(&[("pdID", &of.pd_id)]);
    });
    at.if_set("portworxVolume", &volume.portworx_volume, |of, at| {
        at.require_all(&[("volumeID", &of.volume_id)]);
    });
    at.if_set("scaleIO", &volume.scale_io, |of, at| {
        let name = of.volume_name.as_deref().unwrap_or_default();
        at.require_all(&[("gateway", &of.gateway), ("system", &of.system), ("volumeName", name)]);
    });
}

fn check_monitors(monitors: &[String], at: &Field<'_>) {
    if monitors.is_empty() {
        at.field("monitors").required("");
    }
}

fn check_secret_name(reference: &LocalObjectReference, at: &Field<'_>) {
    at.field("name").require(&reference.name);
}

fn check_iscsi(source: &ISCSIVolumeSource, at: &Field<'_>) {
    at.field("targetPortal").require(&source.target_portal);
    at.field("iqn").required_format(&source.iqn, iscsi_name);
    at.field("lun").in_range(i64::from(source.lun), 0, MAX_LUN);
    let authenticates = source.chap_auth_discovery == Some(true) || source.chap_auth_session == Some(true);
    if authenticates && source.secret_ref.is_none() {
        at.field("secretRef").required("");
    }
    at.field("initiatorName").optional_format(&source.initiator_name, iscsi_name);
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

fn check_fibre_channel(source: &FCVolumeSource, at: &Field<'_>) {
    let has_targets = !source.target_wwns.as_deref().unwrap_or_default().is_empty();
    let has_ids = !source.wwids.as_deref().unwrap_or_default().is_empty();
    if has_targets == has_ids {
        at.field("targetWWNs").required("must specify either targetWWNs or wwids, but not both");
    }
    match source.lun {
        None if has_targets => {
            at.field("lun").required("lun is required if targetWWNs is specified");
        }
        Some(lun) if has_targets => at.field("lun").in_range(i64::from(lun), 0, MAX_LUN),
        None | Some(_) => {}
    }
}

fn check_quobyte(source: &QuobyteVolumeSource, at: &Field<'_>) {
    let detail = "must be a host:port pair or multiple pairs separated by commas";
    if source.registry.is_empty() {
        at.field("registry").required(detail);
    } else if !source.registry.split(',').all(is_host_and_port) {
        at.field("registry").invalid(source.registry.as_str(), detail);
    }
    if source.tenant.as_deref().unwrap_or_default().len() > MAX_TENANT_LENGTH {
        at.field("tenant").too_long(MAX_TENANT_LENGTH);
    }
    at.field("volume").require(&source.volume);
}

/// Accepts `host:port`, with brackets around a host that contains colons.
fn is_host_and_port(pair: &str) -> bool {
    let Some((host, _)) = pair.rsplit_once(':') else { return false };
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    !inner.map_or_else(|| host.contains(':'), |host| host.contains(['[', ']']))
        && (inner.is_some() || !host.contains(['[', ']']))
}

fn check_flocker(source: &FlockerVolumeSource, at: &Field<'_>) {
    let name = source.dataset_name.as_deref().unwrap_or_default();
    match (name.is_empty(), source.dataset_uuid.as_deref().unwrap_or_default().is_empty()) {
        (true, true) => at.required("one of datasetName and datasetUUID is required"),
        (false, false) => {
            at.invalid("resource", "datasetName and datasetUUID can not be specified simultaneously");
        }
        (true, false) | (false, true) => {}
    }
    if name.contains('/') {
        at.field("datasetName").invalid(name, "must not contain '/'");
    }
}

fn check_azure_disk(source: &AzureDiskVolumeSource, at: &Field<'_>) {
    at.field("diskName").require(&source.disk_name);
    at.field("cachingMode").optional_one_of(&source.caching_mode, &["None", "ReadOnly", "ReadWrite"]);
    at.field("kind").optional_one_of(&source.kind, &["Dedicated", "Managed", "Shared"]);
    let uri = source.disk_uri.as_str();
    if at.field("diskURI").require(uri) {
        let (start, form) = match source.kind.as_deref() {
            Some("Managed") => ("/subscriptions/", "/subscriptions/{sub-id}/…/disks/{disk-id}"),
            _ => ("https://", "https://{account}.blob.core.windows.net/{container}/{disk}.vhd"),
        };
        if !uri.starts_with(start) {
            at.field("diskURI").unsupported(uri, &[form]);
        }
    }
}

fn check_storage_os(source: &StorageOSVolumeSource, at: &Field<'_>) {
    let name = source.volume_name.as_deref().unwrap_or_default();
    at.field("volumeName").required_format(name, formats::dns_label);
    at.field("volumeNamespace").empty_or_format(&source.volume_namespace, formats::dns_label);
    at.if_set("secretRef", &source.secret_ref, check_secret_name);
}

fn check_csi(source: &CSIVolumeSource, at: &Field<'_>) {
    let driver = source.driver.as_str();
    if at.field("driver").require(driver) {
        if driver.len() > MAX_DRIVER_LENGTH {
            at.field("driver").too_long(MAX_DRIVER_LENGTH);
        }
        at.field("driver").format(driver, |driver| formats::dns_subdomain(&driver.to_lowercase()));
    }
    if let Some(reference) = &source.node_publish_secret_ref {
        at.field("nodePublishSecretRef.name").required_format(&reference.name, formats::dns_subdomain);
    }
}
