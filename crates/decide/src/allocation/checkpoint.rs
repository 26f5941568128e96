//! The files `allocated_pods_state` and `actuated_pods_state`, in upstream's form: a node may be switched between
//! agents.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::ResourceRequirements;
use model::{PodResources, PodUid};
use serde_json::{Map, Value, json};

/// Resources of all pods.
pub type AllResources = BTreeMap<PodUid, PodResources>;

/// Why a file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckpointProblem {
    /// It is no such file.
    Unreadable(String),
    /// Its content is not what was written.
    Checksum {
        /// Of the content.
        actual: u64,
        /// In the file.
        expected: u64,
    },
}

impl fmt::Display for CheckpointProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(reason) => f.write_str(reason),
            Self::Checksum { actual, expected } => {
                write!(f, "checkpoint is corrupted: actual checksum {actual}, expected {expected}")
            }
        }
    }
}

impl std::error::Error for CheckpointProblem {}

/// The content of a file.
#[must_use]
pub fn encode(all: &AllResources) -> Vec<u8> {
    let entry = |own: &PodResources| {
        let containers: Map<String, Value> =
            own.containers.iter().map(|(name, one)| (name.clone(), requirements(one))).collect();
        json!({"ContainerResources": containers, "PodLevelResources": own.pod.as_ref().map(requirements)})
    };
    let entries: Map<String, Value> = all.iter().map(|(uid, own)| (uid.to_string(), entry(own))).collect();
    let data = if entries.is_empty() { json!({}) } else { json!({"entries": entries}) }.to_string();
    json!({"data": data, "checksum": checksum(&data)}).to_string().into_bytes()
}

/// What a file says.
///
/// # Errors
/// When it is damaged.
pub fn decode(content: &[u8]) -> Result<AllResources, CheckpointProblem> {
    let unreadable = |error: serde_json::Error| CheckpointProblem::Unreadable(error.to_string());
    let missing = |what: &str| CheckpointProblem::Unreadable(format!("no {what}"));
    let file: Value = serde_json::from_slice(content).map_err(unreadable)?;
    let data = file.get("data").and_then(Value::as_str).ok_or_else(|| missing("data"))?;
    let expected = file.get("checksum").and_then(Value::as_u64).ok_or_else(|| missing("checksum"))?;
    let actual = checksum(data);
    if actual != expected {
        return Err(CheckpointProblem::Checksum { actual, expected });
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
        Ok((PodUid::from(uid.as_str()), PodResources { containers: containers.unwrap_or_default(), pod }))
    };
    entries.into_iter().map(entry).collect()
}

/// Maps of text cannot fail to be written.
fn requirements(own: &ResourceRequirements) -> Value {
    serde_json::to_value(own).unwrap_or_default()
}

/// FNV-1a over what Go's debug printer makes of a string.
fn checksum(data: &str) -> u64 {
    let bytes = b"(string)".iter().chain(data.as_bytes());
    let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    u64::from(hash)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn some() -> AllResources {
        let own: ResourceRequirements = serde_json::from_value(
            json!({"limits": {"cpu": "1"}, "requests": {"cpu": "500m", "memory": "64Mi"}}),
        )
        .unwrap();
        let pod = PodResources { containers: [("main".to_owned(), own.clone())].into(), pod: Some(own) };
        let bare = PodResources {
            containers: [("c".to_owned(), ResourceRequirements::default())].into(),
            pod: None,
        };
        [(PodUid::from("b"), pod), (PodUid::from("a"), bare)].into()
    }

    #[test]
    fn what_is_written_is_read_again() {
        for all in [some(), AllResources::new()] {
            assert_eq!(decode(&encode(&all)).unwrap(), all);
        }
    }

    #[test]
    fn the_checksum_is_upstreams() {
        let data = r#"{"entries":{"b":{"ContainerResources":{"main":{"requests":{"cpu":"500m"}}},"PodLevelResources":null}}}"#;
        // As upstream's code computes it.
        assert_eq!(checksum(data), 920_954_151);
        let own = serde_json::from_value(json!({"requests": {"cpu": "500m"}})).unwrap();
        let pod = PodResources { containers: [("main".to_owned(), own)].into(), pod: None };
        let file: Value = serde_json::from_slice(&encode(&[(PodUid::from("b"), pod)].into())).unwrap();
        assert_eq!((&file["data"], &file["checksum"]), (&json!(data), &json!(920_954_151)));
    }

    #[test]
    fn damage_is_noticed() {
        let text = String::from_utf8(encode(&some())).unwrap();
        let changed = text.replace("500m", "600m");
        assert!(matches!(decode(changed.as_bytes()), Err(CheckpointProblem::Checksum { .. })));
        for bad in ["", "{", "[]", "{\"data\":\"{\"}"] {
            assert!(matches!(decode(bad.as_bytes()), Err(CheckpointProblem::Unreadable(_))), "{bad}");
        }
    }
}
