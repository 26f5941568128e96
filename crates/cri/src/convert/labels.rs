use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use crate::list_calls::Label;
use model::labels::POD_UID;
use model::{PodUid, labels};

/// Returns the label selector for the sandboxes and containers of a pod.
pub(crate) fn pod_selector(uid: &PodUid) -> HashMap<String, String> {
    HashMap::from([(POD_UID.to_owned(), uid.to_string())])
}

/// Returns the UID, name and namespace of the pod that the labels refer to; `None` if there is no pod UID.
pub(super) fn pod_identity(labels: &[Label]) -> Option<(PodUid, String, String)> {
    let uid = value(labels, POD_UID).filter(|uid| !uid.is_empty())?;
    let get = |key| value(labels, key).unwrap_or_default().into_owned();
    Some((uid.as_ref().into(), get(labels::POD_NAME), get(labels::POD_NAMESPACE)))
}

pub(super) fn value<'a>(labels: &'a [Label], key: &str) -> Option<Cow<'a, str>> {
    labels.iter().find(|label| label.key == key.as_bytes()).map(|label| text(&label.value))
}

/// Decodes UTF-8. Invalid bytes are replaced, so that they do not fail the whole list.
pub(super) fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

pub(super) fn to_hash_map(map: &BTreeMap<String, String>) -> HashMap<String, String> {
    map.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}
