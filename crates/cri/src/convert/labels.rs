use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use crate::brief::Label;
use model::labels::POD_UID;
use model::{PodUid, labels};

/// The labels that select what belongs to one pod.
pub(crate) fn of_pod(uid: &PodUid) -> HashMap<String, String> {
    HashMap::from([(POD_UID.to_owned(), uid.to_string())])
}

/// Whom labels name: the pod's UID, name and namespace. `None`: not of Kubernetes.
pub(super) fn pod(labels: &[Label]) -> Option<(PodUid, String, String)> {
    let uid = value(labels, POD_UID).filter(|uid| !uid.is_empty())?;
    let take = |key| value(labels, key).unwrap_or_default().into_owned();
    Some((uid.as_ref().into(), take(labels::POD_NAME), take(labels::POD_NAMESPACE)))
}

/// The value of one label.
pub(super) fn value<'a>(labels: &'a [Label], key: &str) -> Option<Cow<'a, str>> {
    labels.iter().find(|label| label.key == key.as_bytes()).map(|label| text(&label.value))
}

/// Text of the wire. The contract says UTF-8; what is not is shown as such instead of failing the whole list.
pub(super) fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

pub(super) fn unordered(map: &BTreeMap<String, String>) -> HashMap<String, String> {
    map.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}
