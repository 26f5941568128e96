//! Translates volumes of former in-tree cloud plugins to their CSI drivers, with upstream's names.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    AWSElasticBlockStoreVolumeSource, AzureDiskVolumeSource, CSIPersistentVolumeSource,
    GCEPersistentDiskVolumeSource, PersistentVolume, PersistentVolumeSpec, SecretReference, Volume,
    VsphereVirtualDiskVolumeSource,
};

const EBS: &str = "ebs.csi.aws.com";
const PD: &str = "pd.csi.storage.gke.io";
const AZURE_DISK: &str = "disk.csi.azure.com";
const AZURE_FILE: &str = "file.csi.azure.com";
const CINDER: &str = "cinder.csi.openstack.org";
const VSPHERE: &str = "csi.vsphere.vmware.com";
const PORTWORX: &str = "pxd.portworx.com";

const ZONE: &str = "topology.kubernetes.io/zone";
const OLD_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
const OLD_REGION: &str = "failure-domain.beta.kubernetes.io/region";
const ZONES_APART: &str = "__";
const RESOURCE_GROUP: &str = "kubernetes.io/azure-file-resource-group";
const PORTWORX_SECRET: [&str; 2] =
    ["openstorage.io/auth-secret-name", "openstorage.io/auth-secret-namespace"];

type Attributes = BTreeMap<String, String>;

/// Translates a PersistentVolume; `None` if it needs no translation.
///
/// # Errors
/// When its fields cannot be translated.
pub(super) fn persistent(volume: &PersistentVolume) -> Result<Option<PersistentVolume>, String> {
    let Some(spec) = &volume.spec else { return Ok(None) };
    let (source, zone) = if let Some(of) = &spec.aws_elastic_block_store {
        let zone = Some("topology.ebs.csi.aws.com/zone");
        (ebs(of)?, zone)
    } else if let Some(of) = &spec.gce_persistent_disk {
        let handle = disk_handle(volume, &of.pd_name)?;
        (pd(&handle, of), Some("topology.gke.io/zone"))
    } else if let Some(of) = &spec.azure_disk {
        (azure_disk(of, of.caching_mode.as_deref())?, None)
    } else if let Some(of) = &spec.azure_file {
        let bound = spec.claim_ref.as_ref().and_then(|claim| claim.namespace.clone());
        let namespace = of.secret_namespace.clone().or(bound).filter(|name| !name.is_empty());
        let Some(namespace) = namespace else {
            let problem = "could not find a secret namespace in PersistentVolumeSource or ClaimRef";
            return Err(problem.to_owned());
        };
        let group = annotation(volume, RESOURCE_GROUP).unwrap_or_default();
        let name = volume.metadata.name.as_deref().unwrap_or_default();
        let share = Share { group, secret: &of.secret_name, share: &of.share_name, name };
        (azure_file(&share, namespace, of.read_only), None)
    } else if let Some(of) = &spec.cinder {
        let zone = Some("topology.cinder.csi.openstack.org/zone");
        (plain(CINDER, &of.volume_id, of.read_only, of.fs_type.as_ref()), zone)
    } else if let Some(of) = &spec.vsphere_volume {
        let zone = Some("topology.csi.vmware.com/zone");
        (vsphere(of), zone)
    } else if let Some(of) = &spec.portworx_volume {
        let mut source = plain(PORTWORX, &of.volume_id, None, of.fs_type.as_ref());
        if let [Some(name), Some(namespace)] = PORTWORX_SECRET.map(|key| annotation(volume, key)) {
            let secret =
                SecretReference { name: Some(name.to_owned()), namespace: Some(namespace.to_owned()) };
            source.node_stage_secret_ref = Some(secret.clone());
            source.node_publish_secret_ref = Some(secret.clone());
            source.node_expand_secret_ref = Some(secret);
        }
        (source, None)
    } else {
        return Ok(None);
    };
    let mut found = volume.clone();
    if let Some(spec) = &mut found.spec {
        if spec.gce_persistent_disk.is_some() {
            spec.access_modes = spec.access_modes.as_deref().map(single_mode);
        }
        rename_zones(spec, zone);
        forget_sources(spec);
        spec.csi = Some(source);
    }
    Ok(Some(found))
}

/// Translates an inline volume to a PersistentVolume; `None` if it needs no translation.
///
/// # Errors
/// When its fields cannot be translated.
pub(super) fn inline(volume: &Volume, namespace: &str) -> Result<Option<PersistentVolume>, String> {
    const ONCE: &str = "ReadWriteOnce";
    let named = |driver: &str, id: &str| format!("{driver}-{id}");
    let reading = |read_only: Option<bool>| if read_only == Some(true) { "ReadOnlyMany" } else { ONCE };
    let (name, source, mode) = if let Some(of) = &volume.aws_elastic_block_store {
        let source = ebs(of)?;
        (named(EBS, &source.volume_handle), source, ONCE)
    } else if let Some(of) = &volume.gce_persistent_disk {
        let handle = zonal_handle("UNSPECIFIED", &of.pd_name);
        let source = pd(&handle, of);
        (named(PD, &of.pd_name), source, reading(of.read_only))
    } else if let Some(of) = &volume.azure_disk {
        let caching = of.caching_mode.as_deref().filter(|mode| !mode.is_empty());
        (of.disk_uri.clone(), azure_disk(of, caching)?, ONCE)
    } else if let Some(of) = &volume.azure_file {
        let share = Share { group: "", secret: &of.secret_name, share: &of.share_name, name: &volume.name };
        let source = azure_file(&share, namespace.to_owned(), of.read_only);
        (source.volume_handle.clone(), source, "ReadWriteMany")
    } else if let Some(of) = &volume.cinder {
        let source = plain(CINDER, &of.volume_id, of.read_only, of.fs_type.as_ref());
        (named(CINDER, &of.volume_id), source, ONCE)
    } else if let Some(of) = &volume.vsphere_volume {
        let source = vsphere(of);
        (named(VSPHERE, &of.volume_path), source, ONCE)
    } else if let Some(of) = &volume.portworx_volume {
        let source = plain(PORTWORX, &of.volume_id, None, of.fs_type.as_ref());
        (named(PORTWORX, &of.volume_id), source, reading(of.read_only))
    } else {
        return Ok(None);
    };
    let mut found = PersistentVolume::default();
    // The name is also a folder name.
    found.metadata.name = Some(name.replace('/', "~"));
    found.spec = Some(PersistentVolumeSpec {
        csi: Some(source),
        access_modes: Some(vec![mode.to_owned()]),
        ..PersistentVolumeSpec::default()
    });
    Ok(Some(found))
}

fn plain(
    driver: &str,
    handle: &str,
    read_only: Option<bool>,
    fs_type: Option<&String>,
) -> CSIPersistentVolumeSource {
    CSIPersistentVolumeSource {
        driver: driver.to_owned(),
        volume_handle: handle.to_owned(),
        read_only,
        fs_type: fs_type.cloned(),
        volume_attributes: Some(Attributes::new()),
        ..CSIPersistentVolumeSource::default()
    }
}

fn with_attribute(
    mut source: CSIPersistentVolumeSource,
    key: &str,
    value: &str,
) -> CSIPersistentVolumeSource {
    source.volume_attributes.get_or_insert_default().insert(key.to_owned(), value.to_owned());
    source
}

fn ebs(of: &AWSElasticBlockStoreVolumeSource) -> Result<CSIPersistentVolumeSource, String> {
    let source = plain(EBS, &ebs_handle(&of.volume_id)?, of.read_only, of.fs_type.as_ref());
    Ok(with_attribute(source, "partition", &of.partition.unwrap_or_default().to_string()))
}

/// `aws://zone/vol-1` and `vol-1` are equivalent.
fn ebs_handle(id: &str) -> Result<String, String> {
    let Some(rest) = id.strip_prefix("aws://") else { return Ok(id.to_owned()) };
    let handle = rest.split_once('/').map_or("", |(_, path)| path.trim_matches('/'));
    if handle.starts_with("vol-") && !handle.contains('/') {
        return Ok(handle.to_owned());
    }
    Err(format!("failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({id})"))
}

fn pd(handle: &str, of: &GCEPersistentDiskVolumeSource) -> CSIPersistentVolumeSource {
    let partition = of.partition.filter(|number| *number != 0).map(|number| number.to_string());
    let source = plain(PD, handle, of.read_only, of.fs_type.as_ref());
    with_attribute(source, "partition", &partition.unwrap_or_default())
}

fn zonal_handle(zone: &str, name: &str) -> String {
    format!("projects/UNSPECIFIED/zones/{zone}/disks/{name}")
}

/// The disk's handle with its zone or region, from the labels of the volume.
fn disk_handle(volume: &PersistentVolume, name: &str) -> Result<String, String> {
    let label = |key: &str| volume.metadata.labels.as_ref().and_then(|labels| labels.get(key));
    let zones = label(OLD_ZONE).filter(|zone| !zone.is_empty()).or_else(|| label(ZONE));
    let zones: Vec<&str> = zones.map_or_else(Vec::new, |zones| zones.split(ZONES_APART).collect());
    match zones.as_slice() {
        [] | [""] => Ok(zonal_handle("UNSPECIFIED", name)),
        [zone] => Ok(zonal_handle(zone, name)),
        several => Ok(format!("projects/UNSPECIFIED/regions/{}/disks/{name}", region(several)?)),
    }
}

fn region(zones: &[&str]) -> Result<String, String> {
    let mut regions = BTreeSet::new();
    for zone in zones {
        let parts: Vec<&str> = zone.split('-').collect();
        let [locale, region, _] = parts.as_slice() else {
            return Err(format!(
                "failed to get region from zones: zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, \
                 got: {zone}"
            ));
        };
        regions.insert(format!("{locale}-{region}"));
    }
    let mut regions = regions.into_iter();
    match (regions.next(), regions.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(format!(
            "failed to get region from zones: multiple or no regions gotten from zones, got: {zones:?}"
        )),
    }
}

/// In-tree plugins did not check access modes; a single writer is assumed.
fn single_mode(modes: &[String]) -> Vec<String> {
    let only_reads = !modes.is_empty() && modes.iter().all(|mode| mode == "ReadOnlyMany");
    vec![if only_reads { "ReadOnlyMany" } else { "ReadWriteOnce" }.to_owned()]
}

fn azure_disk(
    of: &AzureDiskVolumeSource,
    caching: Option<&str>,
) -> Result<CSIPersistentVolumeSource, String> {
    if let Some(kind) = of.kind.as_deref().filter(|kind| !kind.eq_ignore_ascii_case("managed")) {
        return Err(format!("kind({kind}) is not supported in csi migration"));
    }
    let source = plain(AZURE_DISK, &of.disk_uri, of.read_only, of.fs_type.as_ref());
    let mut source = with_attribute(source, "kind", "Managed");
    if let Some(caching) = caching {
        source = with_attribute(source, "cachingmode", caching);
    }
    if let Some(fs_type) = &of.fs_type {
        source = with_attribute(source, "fstype", fs_type);
    }
    Ok(source)
}

struct Share<'a> {
    group: &'a str,
    secret: &'a str,
    share: &'a str,
    name: &'a str,
}

fn azure_file(share: &Share<'_>, namespace: String, read_only: Option<bool>) -> CSIPersistentVolumeSource {
    let Share { group, secret, share, name } = share;
    let inner = secret.split_once("azure-storage-account-").and_then(|(_, rest)| rest.rsplit_once("-secret"));
    let account = inner.map(|(account, _)| account).filter(|account| !account.is_empty()).unwrap_or(secret);
    let handle = format!("{group}#{account}#{share}#{name}#{namespace}");
    let mut source = with_attribute(plain(AZURE_FILE, &handle, read_only, None), "sharename", share);
    source.node_stage_secret_ref =
        Some(SecretReference { name: Some((*secret).to_owned()), namespace: Some(namespace) });
    source
}

fn vsphere(of: &VsphereVirtualDiskVolumeSource) -> CSIPersistentVolumeSource {
    let source = plain(VSPHERE, &of.volume_path, None, of.fs_type.as_ref());
    match of.storage_policy_name.as_deref().filter(|policy| !policy.is_empty()) {
        Some(policy) => with_attribute(source, "storagepolicyname", policy),
        None => source,
    }
}

fn annotation<'a>(volume: &'a PersistentVolume, key: &str) -> Option<&'a str> {
    volume.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// CSI drivers use their own topology labels.
fn rename_zones(spec: &mut PersistentVolumeSpec, zone: Option<&str>) {
    let required = spec.node_affinity.as_mut().and_then(|affinity| affinity.required.as_mut());
    let terms = required.into_iter().flat_map(|required| required.node_selector_terms.iter_mut());
    for requirement in terms.flat_map(|term| term.match_expressions.iter_mut().flatten()) {
        match (requirement.key.as_str(), zone) {
            (ZONE | OLD_ZONE, Some(zone)) => zone.clone_into(&mut requirement.key),
            (OLD_REGION, Some(_)) => REGION.clone_into(&mut requirement.key),
            _ => {}
        }
    }
}

fn forget_sources(spec: &mut PersistentVolumeSpec) {
    spec.aws_elastic_block_store = None;
    spec.gce_persistent_disk = None;
    spec.azure_disk = None;
    spec.azure_file = None;
    spec.cinder = None;
    spec.vsphere_volume = None;
    spec.portworx_volume = None;
}

#[cfg(test)]
mod tests;
