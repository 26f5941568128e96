//! The JSON options that a FlexVolume driver receives.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::{FlexVolume, FsGroup};

use crate::volumes::secret_content;

/// The options of every call.
pub(super) fn base(volume: &FlexVolume) -> String {
    encode(volume, BTreeMap::new())
}

/// The options of the `mount` call for a pod.
///
/// # Errors
/// If the secret is missing.
pub(super) fn for_pod(volume: &FlexVolume, group: Option<FsGroup>) -> Result<String, String> {
    let pod = &volume.pod;
    let mut pod_options: BTreeMap<String, String> = [
        ("kubernetes.io/pod.name", pod.name.clone()),
        ("kubernetes.io/pod.namespace", pod.namespace.clone()),
        ("kubernetes.io/pod.uid", pod.uid.to_string()),
        ("kubernetes.io/serviceAccount.name", pod.service_account.clone()),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect();
    for (key, value) in secret_content(&volume.secret)? {
        pod_options.insert(format!("kubernetes.io/secret/{key}"), STANDARD.encode(value));
    }
    if let Some(group) = group {
        pod_options.insert("kubernetes.io/mounterArgs.FsGroup".to_owned(), group.gid.to_string());
    }
    Ok(encode(volume, pod_options))
}

/// Like upstream, the options of the volume override the others.
fn encode(volume: &FlexVolume, additional: BTreeMap<String, String>) -> String {
    let access = if volume.read_only { "ro" } else { "rw" };
    let defaults = [
        ("kubernetes.io/fsType", volume.fs_type.as_str()),
        ("kubernetes.io/readwrite", access),
        ("kubernetes.io/pvOrVolumeName", &volume.name),
    ];
    let mut all: BTreeMap<String, String> =
        defaults.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    all.extend(additional);
    all.extend(volume.options.clone());
    serde_json::Value::Object(all.into_iter().map(|(key, value)| (key, value.into())).collect()).to_string()
}

#[cfg(test)]
mod tests {
    use model::{CsiPod, FsGroupChange, VolumeSecret};
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn encodes_options_like_upstream() {
        let volume = FlexVolume {
            path: "/v".into(),
            name: "pv".into(),
            driver: "acme/disk".into(),
            fs_type: "ext4".into(),
            read_only: true,
            options: [("size".to_owned(), "1".to_owned())].into(),
            secret: VolumeSecret::Given([("key".to_owned(), "word".to_owned())].into()),
            pod: CsiPod {
                name: "p".into(),
                namespace: "n".into(),
                uid: "u".into(),
                service_account: "s".into(),
            },
            device: None,
            size: None,
        };
        let read = |text: String| serde_json::from_str::<Value>(&text).unwrap();
        let base_options = json!({"kubernetes.io/fsType": "ext4", "kubernetes.io/readwrite": "ro",
            "kubernetes.io/pvOrVolumeName": "pv", "size": "1"});
        assert_eq!(read(base(&volume)), base_options);
        let mut expected = base_options;
        for (key, value) in [
            ("kubernetes.io/pod.name", "p"),
            ("kubernetes.io/pod.namespace", "n"),
            ("kubernetes.io/pod.uid", "u"),
            ("kubernetes.io/serviceAccount.name", "s"),
            ("kubernetes.io/secret/key", "d29yZA=="),
            ("kubernetes.io/mounterArgs.FsGroup", "77"),
        ] {
            expected[key] = value.into();
        }
        let group = FsGroup { gid: 77, change: FsGroupChange::Always };
        assert_eq!(read(for_pod(&volume, Some(group)).unwrap()), expected);
        let missing = FlexVolume { secret: VolumeSecret::Missing("gone".into()), ..volume };
        assert_eq!(for_pod(&missing, None).unwrap_err(), "gone");
    }
}
