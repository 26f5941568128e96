//! The form on disk.

use std::collections::BTreeMap;

use decide::volumes::ClaimedVolume;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use model::PodUid;
use serde::{Deserialize, Serialize};

use super::Known;

pub(super) const NAME: &str = "volume_claims_state";
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Content {
    version: u32,
    pods: BTreeMap<String, BTreeMap<String, Row>>,
}

#[derive(Serialize, Deserialize)]
struct Row {
    claim: PersistentVolumeClaim,
    volume: PersistentVolume,
}

pub(super) fn write(known: &Known) -> Vec<u8> {
    let pods = known
        .iter()
        .map(|(uid, claimed)| {
            let rows = claimed.iter().map(|(name, found)| {
                let row = Row { claim: found.claim.clone(), volume: found.volume.clone() };
                (name.clone(), row)
            });
            (uid.to_string(), rows.collect())
        })
        .collect();
    serde_json::to_vec(&Content { version: VERSION, pods }).unwrap_or_default()
}

/// A content of another version, or one that cannot be read, stands for nothing known.
pub(super) fn read(content: &[u8]) -> Known {
    let Ok(Content { version: VERSION, pods }) = serde_json::from_slice(content) else { return Known::new() };
    pods.into_iter()
        .map(|(uid, rows)| {
            let rows =
                rows.into_iter().map(|(name, Row { claim, volume })| (name, ClaimedVolume { claim, volume }));
            (PodUid::from(uid.as_str()), rows.collect())
        })
        .collect()
}
