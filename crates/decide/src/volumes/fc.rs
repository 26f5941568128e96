//! Fibre Channel volumes.

use k8s_openapi::api::core::v1::FCVolumeSource;
use model::{DiskUse, FcDisk, FcName, VolumePlan};
use std::path::PathBuf;

/// Properties from the pod and its volume.
pub(super) struct VolumeProperties {
    pub(super) path: PathBuf,
    pub(super) use_as: DiskUse,
    pub(super) read_only: bool,
}

/// Plans an inline volume or a PersistentVolume.
///
/// # Errors
/// When the source does not identify a disk.
pub(super) fn plan(source: &FCVolumeSource, properties: VolumeProperties) -> Result<VolumePlan, String> {
    let targets = source.target_wwns.clone().unwrap_or_default();
    let ids = source.wwids.iter().flatten();
    // In the form of udev.
    let ids: Vec<String> = ids.map(|id| id.replace(' ', "_")).collect();
    let (name, attachment) = match source.lun {
        Some(lun) if !targets.is_empty() => {
            let attachment = format!("[{}]:{lun}", targets.join(" "));
            (FcName::Targets { names: targets, lun }, attachment)
        }
        Some(_) | None if !ids.is_empty() => {
            let attachment = format!("[{}]", source.wwids.clone().unwrap_or_default().join(" "));
            (FcName::Ids(ids), attachment)
        }
        Some(_) | None => {
            return Err("fc: no fc disk information found. failed to make a new mounter".to_owned());
        }
    };
    let (FcName::Targets { names: words, .. } | FcName::Ids(words)) = &name;
    // They are used as a folder name.
    if let Some(word) = words.iter().find(|word| is_invalid_name(word)) {
        return Err(format!("fc: {word:?} is no name of a target or a disk"));
    }
    let VolumeProperties { path, use_as, read_only } = properties;
    let attachment = format!("kubernetes.io/fc/{attachment}");
    Ok(VolumePlan::Fc(Box::new(FcDisk { path, name, attachment, use_as, read_only })))
}

fn is_invalid_name(word: &str) -> bool {
    word.is_empty() || word.starts_with('.') || word.contains(['/', '\0'])
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn disk(source: &Value) -> Result<FcDisk, String> {
        let properties = VolumeProperties { path: "/v".into(), use_as: DiskUse::Device, read_only: false };
        match plan(&serde_json::from_value(source.clone()).unwrap(), properties)? {
            VolumePlan::Fc(disk) => Ok(*disk),
            other => panic!("{other:?}"),
        }
    }

    fn named(source: &Value) -> Result<FcName, String> {
        disk(source).map(|disk| disk.name)
    }

    #[test]
    fn fc_volume_names_match_upstream() {
        for (source, expected) in [
            (json!({"targetWWNs": ["5006", "5007"], "lun": 2}), "kubernetes.io/fc/[5006 5007]:2"),
            (json!({"wwids": ["3600", "ACME DISK 1"]}), "kubernetes.io/fc/[3600 ACME DISK 1]"),
        ] {
            assert_eq!(disk(&source).unwrap().attachment, expected);
        }
    }

    #[test]
    fn fc_disk_is_identified_by_targets_or_wwid() {
        let targets = FcName::Targets { names: vec!["5006".into(), "5007".into()], lun: 2 };
        let ids = FcName::Ids(vec!["3600".into(), "ACME_DISK_1".into()]);
        for (source, expected) in [
            (json!({"targetWWNs": ["5006", "5007"], "lun": 2}), targets.clone()),
            (json!({"targetWWNs": ["5006", "5007"], "lun": 2, "wwids": ["x"]}), targets),
            (json!({"wwids": ["3600", "ACME DISK 1"]}), ids.clone()),
            (json!({"wwids": ["3600", "ACME DISK 1"], "lun": 2}), ids),
        ] {
            assert_eq!(named(&source).unwrap(), expected, "{source}");
        }
        for (source, part) in [
            (json!({}), "no fc disk information found"),
            (json!({"targetWWNs": ["5006"]}), "no fc disk information found"),
            (json!({"targetWWNs": ["../x"], "lun": 0}), "is no name"),
            (json!({"wwids": ["a/b"]}), "is no name"),
        ] {
            assert!(named(&source).unwrap_err().contains(part), "{source}");
        }
    }

    #[test]
    fn fc_disk_is_parsed_from_its_folder() {
        for (name, folder) in [
            (FcName::Targets { names: vec!["5006".into(), "5007".into()], lun: 2 }, "5006-5007-lun-2"),
            (FcName::Ids(vec!["3600".into()]), "3600"),
            (FcName::Ids(vec!["3600".into(), "3601".into()]), "3600-3601"),
        ] {
            assert_eq!(name.folder(), folder);
            assert_eq!(FcName::of_folder(folder), Some(name));
        }
        assert_eq!(FcName::of_folder("lun-2"), None);
        assert_eq!(FcName::of_folder("a-lun-x"), None);
    }
}
