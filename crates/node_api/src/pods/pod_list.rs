//! The pod list in upstream's form: it includes the empty fields that Go does not omit.

use std::sync::Arc;

use agent::pipeline::cached_status::CachedStatus;
use bytes::Bytes;
use model::Pod;
use serde_json::{Map, Value, json};

/// Approximate size.
const CHUNK: usize = 32 * 1024;

/// A `PodList` in chunks, each of which is serialized when the client reads it.
pub(super) fn chunks(
    pods: Vec<(Arc<Pod>, Option<Arc<CachedStatus>>)>,
) -> impl Iterator<Item = serde_json::Result<Bytes>> {
    let mut pods = pods.into_iter();
    let mut is_started = false;
    let mut is_finished = false;
    std::iter::from_fn(move || {
        if is_finished {
            return None;
        }
        let mut chunk = Vec::new();
        while chunk.len() < CHUNK {
            let is_first = !std::mem::replace(&mut is_started, true);
            if is_first {
                chunk.extend_from_slice(br#"{"apiVersion":"v1","items":["#);
            }
            let Some((pod, status)) = pods.next() else {
                chunk.extend_from_slice(br#"],"kind":"PodList","metadata":{}}"#);
                is_finished = true;
                break;
            };
            if !is_first {
                chunk.push(b',');
            }
            let written =
                item(&pod, status.as_deref()).and_then(|item| serde_json::to_writer(&mut chunk, &item));
            if let Err(error) = written {
                // The client detects the truncated response.
                is_finished = true;
                return Some(Err(error));
            }
        }
        Some(Ok(chunk.into()))
    })
}

pub(super) fn item(pod: &Pod, status: Option<&CachedStatus>) -> serde_json::Result<Value> {
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

/// The elements of a list field that are objects.
fn objects<'a>(value: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    let list = value.get_mut(field).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

fn fill_state(state: &mut Value) {
    if let Some(running) = state.get_mut("running").and_then(Value::as_object_mut) {
        fill_times(running, &["startedAt"]);
    }
    if let Some(terminated) = state.get_mut("terminated").and_then(Value::as_object_mut) {
        fill_times(terminated, &["startedAt", "finishedAt"]);
    }
}

/// Adds null for missing times.
fn fill_times(object: &mut Map<String, Value>, names: &[&str]) {
    for name in names {
        object.entry(*name).or_insert(Value::Null);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn item_includes_null_times_and_empty_resources() {
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
        let item = item(&pod, Some(&CachedStatus::of(&status))).unwrap();
        assert_eq!(item["spec"]["containers"][0]["resources"], json!({}));
        assert!(item["status"]["conditions"][0].as_object().unwrap().contains_key("lastProbeTime"));
        let container_status = &item["status"]["containerStatuses"][0];
        assert_eq!(
            container_status["state"]["terminated"],
            json!({"exitCode": 137, "startedAt": null, "finishedAt": null})
        );
        assert_eq!(container_status["lastState"], json!({}));
    }

    fn serialized_list(pods: usize) -> (usize, Value) {
        let pod = |number: usize| {
            let object = json!({"metadata": {"name": format!("p{number}"), "uid": number.to_string()},
                "spec": {"containers": [{"name": "a", "image": "i".repeat(300)}]}});
            let pod = Pod::from_object(serde_json::from_value(object).unwrap(), model::PodSource::File);
            (Arc::new(pod.unwrap()), None)
        };
        let chunks: Vec<Bytes> = chunks((0..pods).map(pod).collect()).map(Result::unwrap).collect();
        (chunks.len(), serde_json::from_slice(&chunks.concat()).unwrap())
    }

    #[test]
    fn chunks_form_complete_list() {
        for pods in [0, 1, 2, 300] {
            let (chunks, list) = serialized_list(pods);
            assert_eq!((list["kind"].as_str(), list["apiVersion"].as_str()), (Some("PodList"), Some("v1")));
            assert_eq!(list["metadata"], json!({}));
            let items = list["items"].as_array().unwrap();
            assert_eq!(items.len(), pods);
            let uids: Vec<_> = items.iter().map(|item| item["metadata"]["uid"].clone()).collect();
            assert_eq!(uids, (0..pods).map(|at| json!(at.to_string())).collect::<Vec<_>>());
            assert_eq!(chunks > 1, pods == 300, "{chunks}");
        }
    }
}
