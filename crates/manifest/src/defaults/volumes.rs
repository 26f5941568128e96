//! Defaults of a volume.

use k8s_openapi::api::core::v1::{
    AzureDiskVolumeSource, DownwardAPIVolumeFile, EmptyDirVolumeSource, ProjectedVolumeSource, Volume,
};

use super::{default_string, pull_policy};

/// Mode of files from API objects.
const DEFAULT_FILE_MODE: i32 = 0o644;
const DEFAULT_TOKEN_EXPIRATION_SECONDS: i64 = 60 * 60;

/// Sets the defaults of the volume's source. A volume without a source is an `emptyDir`.
pub(super) fn apply(volume: &mut Volume) {
    if crate::volume::sources(volume).is_empty() {
        volume.empty_dir = Some(EmptyDirVolumeSource::default());
    }
    if let Some(image) = volume.image.as_mut() {
        default_string(&mut image.pull_policy, pull_policy(image.reference.as_ref()));
    }
    if let Some(host_path) = volume.host_path.as_mut() {
        host_path.type_.get_or_insert_default();
    }
    if let Some(secret) = volume.secret.as_mut() {
        secret.default_mode.get_or_insert(DEFAULT_FILE_MODE);
    }
    if let Some(config_map) = volume.config_map.as_mut() {
        config_map.default_mode.get_or_insert(DEFAULT_FILE_MODE);
    }
    if let Some(downward) = volume.downward_api.as_mut() {
        downward.default_mode.get_or_insert(DEFAULT_FILE_MODE);
        downward.items.iter_mut().flatten().for_each(default_downward_file);
    }
    volume.projected.iter_mut().for_each(default_projected);
    if let Some(claim) = volume.ephemeral.as_mut().and_then(|source| source.volume_claim_template.as_mut()) {
        claim.spec.volume_mode.get_or_insert_with(|| "Filesystem".to_owned());
    }
    default_storage(volume);
}

fn default_storage(volume: &mut Volume) {
    if let Some(iscsi) = volume.iscsi.as_mut() {
        default_string(&mut iscsi.iscsi_interface, "default");
    }
    if let Some(rbd) = volume.rbd.as_mut() {
        default_string(&mut rbd.pool, "rbd");
        default_string(&mut rbd.user, "admin");
        default_string(&mut rbd.keyring, "/etc/ceph/keyring");
    }
    if let Some(scale_io) = volume.scale_io.as_mut() {
        default_string(&mut scale_io.storage_mode, "ThinProvisioned");
        default_string(&mut scale_io.fs_type, "xfs");
    }
    volume.azure_disk.iter_mut().for_each(default_azure_disk);
}

fn default_azure_disk(disk: &mut AzureDiskVolumeSource) {
    disk.caching_mode.get_or_insert_with(|| "ReadWrite".to_owned());
    disk.fs_type.get_or_insert_with(|| "ext4".to_owned());
    disk.read_only.get_or_insert(false);
    disk.kind.get_or_insert_with(|| "Shared".to_owned());
}

fn default_projected(projected: &mut ProjectedVolumeSource) {
    projected.default_mode.get_or_insert(DEFAULT_FILE_MODE);
    for source in projected.sources.iter_mut().flatten() {
        if let Some(downward) = source.downward_api.as_mut() {
            downward.items.iter_mut().flatten().for_each(default_downward_file);
        }
        if let Some(token) = source.service_account_token.as_mut() {
            token.expiration_seconds.get_or_insert(DEFAULT_TOKEN_EXPIRATION_SECONDS);
        }
    }
}

fn default_downward_file(file: &mut DownwardAPIVolumeFile) {
    if let Some(field) = file.field_ref.as_mut() {
        default_string(&mut field.api_version, "v1");
    }
}
