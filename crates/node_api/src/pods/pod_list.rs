//! The list of pods as upstream writes it: fields that Go never leaves out are there, too.

use std::sync::Arc;

use agent::kept_status::KeptStatus;
use bytes::Bytes;
use model::Pod;
use serde_json::{Map, Value, json};

/// Roughly the size of a piece.
const PIECE: usize = 32 * 1024;

/// A `PodList` of pods with their statuses, in pieces that are made when they are asked for.
pub(super) fn pieces(
    pods: Vec<(Arc<Pod>, Option<Arc<KeptStatus>>)>,
) -> impl Iterator<Item = serde_json::Result<Bytes>> {
    let mut pods = pods.into_iter();
    let mut begun = false;
    let mut over = false;
    std::iter::from_fn(move || {
        if over {
            return None;
        }
        let mut piece = Vec::new();
        while piece.len() < PIECE {
            let first = !std::mem::replace(&mut begun, true);
            if first {
                piece.extend_from_slice(br#"{"apiVersion":"v1","items":["#);
            }
            let Some((pod, status)) = pods.next() else {
                piece.extend_from_slice(br#"],"kind":"PodList","metadata":{}}"#);
                over = true;
                break;
            };
            if !first {
                piece.push(b',');
            }
            let written =
                item(&pod, status.as_deref()).and_then(|item| serde_json::to_writer(&mut piece, &item));
            if let Err(error) = written {
                // An answer that breaks off cannot be taken for a whole one.
                over = true;
                return Some(Err(error));
            }
        }
        Some(Ok(piece.into()))
    })
}

pub(super) fn item(pod: &Pod, status: Option<&KeptStatus>) -> serde_json::Result<Value> {
    let mut spec = serde_json::to_value(&pod.spec)?;
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in objects(&mut spec, list) {
            container.entry("resources").or_insert_with(|| json!({}));
        }
    }
    let mut status = match status {
        Some(status) => status.to_value()?,
        None => serde_json::to_value(&pod.status)?,
    };
    for condition in objects(&mut status, "conditions") {
        fill_times(condition, &["lastProbeTime", "lastTransitionTime"]);
    }
    for list in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
        for container in objects(&mut status, list) {
            for name in ["state", "lastState"] {
                let state = container.entry(name).or_insert_with(|| json!({}));
                fill_state(state);
            }
        }
    }
    Ok(json!({"metadata": &pod.metadata, "spec": spec, "status": status}))
}

/// The objects of a list field.
fn objects<'a>(value: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    let list = value.get_mut(field).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

fn fill_state(state: &mut Value) {
    if let Some(running) = state.get_mut("running").and_then(Value::as_object_mut) {
        fill_times(running, &["startedAt"]);
    }
    if let Some(ended) = state.get_mut("terminated").and_then(Value::as_object_mut) {
        fill_times(ended, &["startedAt", "finishedAt"]);
    }
}

/// A time that is not known is null.
fn fill_times(object: &mut Map<String, Value>, names: &[&str]) {
    for name in names {
        object.entry(*name).or_insert(Value::Null);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_are_not_known_and_empty_resources_are_shown() {
        let object = json!({"metadata": {"name": "p", "uid": "u"},
            "spec": {"containers": [{"name": "a"}]}});
        let object = serde_json::from_value(object).unwrap();
        let pod = Pod::from_object(object, model::PodSource::File).unwrap();
        let status = serde_json::from_value(json!({
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "a", "image": "i", "imageID": "", "ready": false, "restartCount": 1,
                "state": {"terminated": {"exitCode": 137}}}],
        }))
        .unwrap();
        let item = item(&pod, Some(&KeptStatus::of(&status))).unwrap();
        assert_eq!(item["spec"]["containers"][0]["resources"], json!({}));
        assert!(item["status"]["conditions"][0].as_object().unwrap().contains_key("lastProbeTime"));
        let shown = &item["status"]["containerStatuses"][0];
        assert_eq!(
            shown["state"]["terminated"],
            json!({"exitCode": 137, "startedAt": null, "finishedAt": null})
        );
        assert_eq!(shown["lastState"], json!({}));
    }

    fn written(pods: usize) -> (usize, Value) {
        let pod = |number: usize| {
            let object = json!({"metadata": {"name": format!("p{number}"), "uid": number.to_string()},
                "spec": {"containers": [{"name": "a", "image": "i".repeat(300)}]}});
            let pod = Pod::from_object(serde_json::from_value(object).unwrap(), model::PodSource::File);
            (Arc::new(pod.unwrap()), None)
        };
        let pieces: Vec<Bytes> = pieces((0..pods).map(pod).collect()).map(Result::unwrap).collect();
        (pieces.len(), serde_json::from_slice(&pieces.concat()).unwrap())
    }

    #[test]
    fn a_list_is_whole_however_many_pieces_it_takes() {
        for pods in [0, 1, 2, 300] {
            let (pieces, list) = written(pods);
            assert_eq!((list["kind"].as_str(), list["apiVersion"].as_str()), (Some("PodList"), Some("v1")));
            assert_eq!(list["metadata"], json!({}));
            let items = list["items"].as_array().unwrap();
            assert_eq!(items.len(), pods);
            let uids: Vec<_> = items.iter().map(|item| item["metadata"]["uid"].clone()).collect();
            assert_eq!(uids, (0..pods).map(|at| json!(at.to_string())).collect::<Vec<_>>());
            assert_eq!(pieces > 1, pods == 300, "{pieces}");
        }
    }
}
