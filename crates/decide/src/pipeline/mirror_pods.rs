//! Static pods and the API objects that mirror them.

use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use model::{Pod, PodUid, WorkerPhase, WorkerProgress, WorkerView, labels};

use crate::node::owner::node_owner;

/// The next action for a mirror pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MirrorAction {
    Nothing,
    Create,
    /// Delete the mirror pod with this UID. If the static pod still exists, a later call returns `Create`.
    Delete(PodUid),
}

/// Compares a static pod with its mirror pod. `pod` is `None` once the static pod was removed and has stopped.
pub fn mirror_action(pod: Option<&Pod>, mirror: Option<&Pod>) -> MirrorAction {
    match (pod, mirror) {
        (None, None) => MirrorAction::Nothing,
        (Some(_), None) => MirrorAction::Create,
        (None, Some(mirror)) => MirrorAction::Delete(mirror.uid.clone()),
        (Some(pod), Some(mirror)) if mirror.is_deleted() || !mirrors(mirror, pod) => {
            MirrorAction::Delete(mirror.uid.clone())
        }
        (Some(_), Some(_)) => MirrorAction::Nothing,
    }
}

/// Whether a static pod waits until its previous version has finished. Until then the mirror pod represents that version.
pub fn waits_for_old_version(pod: &Pod, workers: &[Arc<WorkerView>]) -> bool {
    let started =
        workers.iter().any(|worker| worker.uid == pod.uid && worker.progress > WorkerProgress::NotStarted);
    !started
        && workers.iter().any(|worker| {
            worker.uid != pod.uid && worker.full_name == pod.full_name && worker.phase < WorkerPhase::Finished
        })
}

/// Whether the mirror pod was created from this version of the static pod.
fn mirrors(mirror: &Pod, pod: &Pod) -> bool {
    mirror.annotation(labels::CONFIG_MIRROR) == pod.annotation(labels::CONFIG_HASH)
}

/// The Node object that owns the mirror pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorOwner {
    pub name: String,
    pub uid: String,
}

/// The mirror pod for a static pod.
pub fn mirror_object(pod: &Pod, owner: &MirrorOwner) -> core::Pod {
    let mut metadata = pod.metadata.clone();
    // The API server assigns these.
    metadata.uid = None;
    metadata.resource_version = None;
    metadata.creation_timestamp = None;
    metadata.namespace = Some(pod.full_name.namespace.clone());
    metadata.name = Some(pod.full_name.name.clone());
    let hash = pod.annotation(labels::CONFIG_HASH).unwrap_or_default().to_owned();
    metadata.annotations.get_or_insert_default().insert(labels::CONFIG_MIRROR.to_owned(), hash);
    let owner = OwnerReference { controller: Some(true), ..node_owner(&owner.name, &owner.uid) };
    metadata.owner_references = Some(vec![owner]);
    core::Pod { metadata, spec: Some(pod.spec.clone()), status: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_objects::pod;

    fn with(annotation: &str, hash: &str) -> Pod {
        let mut pod = pod(serde_json::json!({"containers": []}));
        pod.metadata.annotations = Some([(annotation.to_owned(), hash.to_owned())].into());
        pod
    }

    #[test]
    fn mirror_action_follows_static_pod() {
        let pod = with(labels::CONFIG_HASH, "one");
        let (same, other) = (with(labels::CONFIG_MIRROR, "one"), with(labels::CONFIG_MIRROR, "two"));
        let mut deleted = same.clone();
        deleted.metadata.deletion_timestamp = Some(model::Timestamp::ZERO.to_api_time());
        let delete = MirrorAction::Delete("u".into());
        assert_eq!(mirror_action(None, None), MirrorAction::Nothing);
        assert_eq!(mirror_action(Some(&pod), None), MirrorAction::Create);
        assert_eq!(mirror_action(Some(&pod), Some(&same)), MirrorAction::Nothing);
        assert_eq!(mirror_action(Some(&pod), Some(&other)), delete);
        assert_eq!(mirror_action(Some(&pod), Some(&deleted)), delete);
        assert_eq!(mirror_action(None, Some(&same)), delete);
    }

    #[test]
    fn mirror_pod_is_owned_by_node_and_carries_config_hash() {
        let owner = MirrorOwner { name: "n".into(), uid: "node-uid".into() };
        let mirror = mirror_object(&with(labels::CONFIG_HASH, "one"), &owner);
        let annotations = mirror.metadata.annotations.unwrap();
        assert_eq!(annotations.get(labels::CONFIG_MIRROR).unwrap(), "one");
        let reference = &mirror.metadata.owner_references.unwrap()[0];
        assert_eq!(
            (&*reference.kind, &*reference.uid, reference.controller),
            ("Node", "node-uid", Some(true))
        );
        assert_eq!((mirror.metadata.uid, mirror.status), (None, None));
    }
}
