//! The list of pods as upstream writes it: fields that Go never leaves out are there, too.

use k8s_openapi::api::core::v1::PodStatus;
use model::Pod;
use serde_json::{Map, Value, json};

/// A `PodList` of pods with their statuses.
pub(super) fn pod_list<'a>(
    pods: impl Iterator<Item = (&'a Pod, &'a PodStatus)>,
) -> serde_json::Result<Value> {
    let items: Vec<Value> = pods.map(|(pod, status)| item(pod, status)).collect::<Result<_, _>>()?;
    Ok(json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}))
}

pub(super) fn item(pod: &Pod, status: &PodStatus) -> serde_json::Result<Value> {
    let mut spec = serde_json::to_value(&pod.spec)?;
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in objects(&mut spec, list) {
            container.entry("resources").or_insert_with(|| json!({}));
        }
    }
    let mut status = serde_json::to_value(status)?;
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
        let status: PodStatus = serde_json::from_value(json!({
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "a", "image": "i", "imageID": "", "ready": false, "restartCount": 1,
                "state": {"terminated": {"exitCode": 137}}}],
        }))
        .unwrap();
        let list = pod_list(std::iter::once((&pod, &status))).unwrap();
        let item = &list["items"][0];
        assert_eq!(item["spec"]["containers"][0]["resources"], json!({}));
        assert!(item["status"]["conditions"][0].as_object().unwrap().contains_key("lastProbeTime"));
        let shown = &item["status"]["containerStatuses"][0];
        assert_eq!(
            shown["state"]["terminated"],
            json!({"exitCode": 137, "startedAt": null, "finishedAt": null})
        );
        assert_eq!(shown["lastState"], json!({}));
    }
}
