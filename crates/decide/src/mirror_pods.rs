//! Static pods and the API objects that mirror them.

use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use model::{Pod, PodUid, WorkerPhase, WorkerView, labels};

/// What is to be done about a mirror pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MirrorStep {
    /// It is as it should be.
    Nothing,
    /// It is to be made.
    Create,
    /// It is to go; one that is wanted is made anew afterwards.
    Delete(PodUid),
}

/// What is to be done about the mirror of a static pod. `pod` is `None` when the pod is gone and has stopped.
#[must_use]
pub fn mirror_step(pod: Option<&Pod>, mirror: Option<&Pod>) -> MirrorStep {
    match (pod, mirror) {
        (None, None) => MirrorStep::Nothing,
        (Some(_), None) => MirrorStep::Create,
        (None, Some(mirror)) => MirrorStep::Delete(mirror.uid.clone()),
        (Some(pod), Some(mirror)) if mirror.is_deleted() || !mirrors(mirror, pod) => {
            MirrorStep::Delete(mirror.uid.clone())
        }
        (Some(_), Some(_)) => MirrorStep::Nothing,
    }
}

/// Whether a pod waits for the end of another version of itself, which the mirror stands for until then.
#[must_use]
pub fn waits_its_turn(pod: &Pod, workers: &[Arc<WorkerView>]) -> bool {
    let begun = workers.iter().any(|worker| worker.uid == pod.uid && worker.started);
    !begun
        && workers.iter().any(|worker| {
            worker.uid != pod.uid && worker.full_name == pod.full_name && worker.phase < WorkerPhase::Finished
        })
}

/// Whether it mirrors this very version of the pod.
fn mirrors(mirror: &Pod, pod: &Pod) -> bool {
    mirror.annotation(labels::CONFIG_MIRROR) == pod.annotation(labels::CONFIG_HASH)
}

/// The Node object that mirror pods belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Name of the node.
    pub name: String,
    /// UID of the Node object.
    pub uid: String,
}

/// The object that mirrors a static pod.
#[must_use]
pub fn mirror_object(pod: &Pod, owner: &Owner) -> core::Pod {
    let mut metadata = pod.metadata.clone();
    // These are the API server's to give.
    metadata.uid = None;
    metadata.resource_version = None;
    metadata.creation_timestamp = None;
    metadata.namespace = Some(pod.full_name.namespace.clone());
    metadata.name = Some(pod.full_name.name.clone());
    let hash = pod.annotation(labels::CONFIG_HASH).unwrap_or_default().to_owned();
    metadata.annotations.get_or_insert_default().insert(labels::CONFIG_MIRROR.to_owned(), hash);
    metadata.owner_references = Some(vec![OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
        controller: Some(true),
        block_owner_deletion: None,
    }]);
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
    fn a_mirror_follows_its_pod() {
        let pod = with(labels::CONFIG_HASH, "one");
        let (same, other) = (with(labels::CONFIG_MIRROR, "one"), with(labels::CONFIG_MIRROR, "two"));
        let mut deleted = same.clone();
        deleted.metadata.deletion_timestamp = Some(model::Timestamp::ZERO.to_api_time());
        let delete = MirrorStep::Delete("u".into());
        assert_eq!(mirror_step(None, None), MirrorStep::Nothing);
        assert_eq!(mirror_step(Some(&pod), None), MirrorStep::Create);
        assert_eq!(mirror_step(Some(&pod), Some(&same)), MirrorStep::Nothing);
        assert_eq!(mirror_step(Some(&pod), Some(&other)), delete);
        assert_eq!(mirror_step(Some(&pod), Some(&deleted)), delete);
        assert_eq!(mirror_step(None, Some(&same)), delete);
    }

    #[test]
    fn a_mirror_belongs_to_the_node_and_names_the_version() {
        let owner = Owner { name: "n".into(), uid: "node-uid".into() };
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
