use std::collections::{BTreeMap, HashMap};

use model::labels::POD_UID;
use model::{PodUid, labels};

/// The labels that select what belongs to one pod.
pub(crate) fn of_pod(uid: &PodUid) -> HashMap<String, String> {
    HashMap::from([(POD_UID.to_owned(), uid.to_string())])
}

/// Whom labels name: the pod's UID, name and namespace. `None`: not of Kubernetes.
pub(super) fn pod(mut labels: HashMap<String, String>) -> Option<(PodUid, String, String)> {
    let uid = labels.remove(POD_UID).filter(|uid| !uid.is_empty())?;
    let mut take = |key| labels.remove(key).unwrap_or_default();
    Some((uid.into(), take(labels::POD_NAME), take(labels::POD_NAMESPACE)))
}

pub(super) fn unordered(map: &BTreeMap<String, String>) -> HashMap<String, String> {
    map.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}
