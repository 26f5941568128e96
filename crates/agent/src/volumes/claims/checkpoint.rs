//! Checkpoint format.

use std::collections::BTreeMap;

use decide::volumes::ClaimedVolume;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use model::PodUid;
use serde::{Deserialize, Serialize};

use super::CachedClaims;
use crate::state_format::{StateError, VOLUME_CLAIMS};

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

pub(super) fn write(cached: &CachedClaims) -> Vec<u8> {
    let pods = cached
        .iter()
        .map(|(uid, claimed)| {
            let rows = claimed.iter().map(|(name, found)| {
                let row = Row { claim: found.claim.clone(), volume: found.volume.clone() };
                (name.clone(), row)
            });
            (uid.to_string(), rows.collect())
        })
        .collect();
    serde_json::to_vec(&Content { version: VOLUME_CLAIMS.version(), pods }).unwrap_or_default()
}

pub(super) fn read(content: &[u8]) -> Result<CachedClaims, StateError> {
    let Content { pods, .. } = VOLUME_CLAIMS.decode(content)?;
    let claims = pods
        .into_iter()
        .map(|(uid, rows)| {
            let rows =
                rows.into_iter().map(|(name, Row { claim, volume })| (name, ClaimedVolume { claim, volume }));
            (PodUid::from(uid.as_str()), rows.collect())
        })
        .collect();
    Ok(claims)
}
