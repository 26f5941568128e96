//! The checkpoints `allocated_pods_state` and `actuated_pods_state`, in upstream's format, so that a node can switch between
//! this agent and the kubelet.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use model::{PodResources, PodUid};
use serde_json::{Map, Value};
use values::fnv::Fnv32a;

use crate::go_text::JsonObject;

pub type ResourcesByPod = BTreeMap<PodUid, PodResources>;

/// Why a checkpoint cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    #[error("{0}")]
    Unreadable(String),
    /// The content does not match the checksum.
    #[error("checkpoint is corrupted: actual checksum {actual}, expected {expected}")]
    Checksum { actual: u64, expected: u64 },
}

/// Encodes a checkpoint. The JSON is written directly, because a `Value` of many pods would be large.
pub fn encode<'a>(all: impl Iterator<Item = (&'a PodUid, &'a PodResources)>) -> Vec<u8> {
    let entry = |own: &PodResources| {
        let containers = JsonObject::of(own.containers.iter().map(|(name, one)| (name, requirements(one))));
        let pod = own.pod.as_ref().map_or_else(|| "null".to_owned(), requirements);
        JsonObject::of([("ContainerResources", containers), ("PodLevelResources", pod)].into_iter())
    };
    // Sorted by UID, so that equal content has an equal checksum.
    let all: BTreeMap<&str, &PodResources> = all.map(|(uid, own)| (uid.as_str(), own)).collect();
    let data = if all.is_empty() {
        "{}".to_owned()
    } else {
        let entries = JsonObject::of(all.into_iter().map(|(uid, own)| (uid, entry(own))));
        JsonObject::of(std::iter::once(("entries", entries)))
    };
    let file = [("checksum", checksum(&data).to_string()), ("data", Value::from(data).to_string())];
    JsonObject::of(file.into_iter()).into_bytes()
}

/// Serializing maps of strings cannot fail.
fn requirements(own: &ResourceRequirements) -> String {
    serde_json::to_string(own).unwrap_or_default()
}

/// Decodes a checkpoint.
///
/// # Errors
/// When the content is invalid or does not match its checksum.
pub fn decode(content: &[u8]) -> Result<ResourcesByPod, CheckpointError> {
    let unreadable = |error: serde_json::Error| CheckpointError::Unreadable(error.to_string());
    let missing = |what: &str| CheckpointError::Unreadable(format!("no {what}"));
    let file: Value = serde_json::from_slice(content).map_err(unreadable)?;
    let data = file.get("data").and_then(Value::as_str).ok_or_else(|| missing("data"))?;
    let expected = file.get("checksum").and_then(Value::as_u64).ok_or_else(|| missing("checksum"))?;
    let actual = checksum(data);
    if actual != expected {
        return Err(CheckpointError::Checksum { actual, expected });
    }
    let mut data: Value = serde_json::from_str(data).map_err(unreadable)?;
    let entries = match data.get_mut("entries").map(Value::take) {
        Some(Value::Object(entries)) => entries,
        Some(Value::Null) | None => Map::new(),
        Some(_) => return Err(missing("entries")),
    };
    let entry = |(uid, mut entry): (String, Value)| {
        let mut field = |name: &str| entry.get_mut(name).map(Value::take).unwrap_or_default();
        let containers: Option<BTreeMap<String, ResourceRequirements>> =
            serde_json::from_value(field("ContainerResources")).map_err(unreadable)?;
        let pod = serde_json::from_value(field("PodLevelResources")).map_err(unreadable)?;
        let containers = containers.into_iter().flatten().collect();
        Ok((PodUid::from(uid.as_str()), PodResources { containers, pod }))
    };
    entries.into_iter().map(entry).collect()
}

/// FNV-1a over the string as Go's `spew` prints it.
fn checksum(data: &str) -> u64 {
    let mut hash = Fnv32a::new();
    hash.write(b"(string)");
    hash.write(data.as_bytes());
    u64::from(hash.finish())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn some() -> ResourcesByPod {
        let own: ResourceRequirements = serde_json::from_value(
            json!({"limits": {"cpu": "1"}, "requests": {"cpu": "500m", "memory": "64Mi"}}),
        )
        .unwrap();
        let containers = [("main", own.clone()), ("a", ResourceRequirements::default())];
        let pod = PodResources { containers: containers.into_iter().collect(), pod: Some(own) };
        let bare = [("c", ResourceRequirements::default())].into_iter().collect();
        let bare = PodResources { containers: bare, pod: None };
        [(PodUid::from("b"), pod), (PodUid::from("a"), bare)].into()
    }

    #[test]
    fn round_trips() {
        for all in [some(), ResourcesByPod::new()] {
            assert_eq!(decode(&encode(all.iter())).unwrap(), all);
        }
    }

    #[test]
    fn checksum_matches_upstream() {
        let data = r#"{"entries":{"b":{"ContainerResources":{"main":{"requests":{"cpu":"500m"}}},"PodLevelResources":null}}}"#;
        // As upstream's code computes it.
        assert_eq!(checksum(data), 920_954_151);
        let own = serde_json::from_value(json!({"requests": {"cpu": "500m"}})).unwrap();
        let pod = PodResources { containers: [("main", own)].into_iter().collect(), pod: None };
        let file: Value = serde_json::from_slice(&encode([(&"b".into(), &pod)].into_iter())).unwrap();
        assert_eq!((&file["data"], &file["checksum"]), (&json!(data), &json!(920_954_151)));
    }

    #[test]
    fn detects_corruption() {
        let text = String::from_utf8(encode(some().iter())).unwrap();
        let changed = text.replace("500m", "600m");
        assert!(matches!(decode(changed.as_bytes()), Err(CheckpointError::Checksum { .. })));
        for bad in ["", "{", "[]", "{\"data\":\"{\"}"] {
            assert!(matches!(decode(bad.as_bytes()), Err(CheckpointError::Unreadable(_))), "{bad}");
        }
    }
}
