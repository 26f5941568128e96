use model::usage::{DiskUse, WritableLayer};
use model::{ContainerId, Timestamp};
use serde::Deserialize;

use crate::v1;

/// Returns `None` if the runtime does not report the layer.
pub(crate) fn writable_layer(stats: v1::ContainerStats) -> Option<(ContainerId, WritableLayer)> {
    let layer = stats.writable_layer?;
    let value = |number: Option<v1::UInt64Value>| number.map_or(0, |number| number.value);
    let used = DiskUse { bytes: value(layer.used_bytes), inodes: value(layer.inodes_used) };
    let time = Timestamp::from_nanos(layer.timestamp);
    Some((stats.attributes?.id.into(), WritableLayer { time, used }))
}

/// Extracts the sandbox image from containerd's verbose JSON.
pub(crate) fn image(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Details {
        image: String,
    }
    serde_json::from_str::<Details>(text).ok().map(|details| details.image).filter(|image| !image.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_writable_layer_if_reported() {
        let value = |value| Some(v1::UInt64Value { value });
        let attributes = v1::ContainerAttributes { id: "c1".into(), ..Default::default() };
        let layer = v1::FilesystemUsage {
            timestamp: 7,
            used_bytes: value(4096),
            inodes_used: value(2),
            ..Default::default()
        };
        let stats = v1::ContainerStats {
            attributes: Some(attributes),
            writable_layer: Some(layer),
            ..Default::default()
        };
        let (id, found) = writable_layer(stats.clone()).unwrap();
        assert_eq!((id.as_str(), found.time), ("c1", Timestamp::from_nanos(7)));
        assert_eq!(found.used, DiskUse { bytes: 4096, inodes: 2 });
        assert!(writable_layer(v1::ContainerStats { writable_layer: None, ..stats }).is_none());
    }

    #[test]
    fn extracts_sandbox_image_from_verbose_info() {
        assert_eq!(image(r#"{"pid":1,"image":"pause:1"}"#).as_deref(), Some("pause:1"));
        assert_eq!(image("{}"), None);
        assert_eq!(image("not JSON"), None);
    }
}
