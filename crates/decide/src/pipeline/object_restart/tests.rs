use std::sync::Arc;

use model::{ConfigObject, ContainerStatus, ObjectError, ObjectKey, ObjectKind, SandboxState};
use serde_json::json;

use super::*;
use crate::pipeline::pod_actions::plan;
use crate::test_objects::{container, observed, pod, sandbox};

fn objects(value: Option<&str>) -> ReadObjects {
    let key = ObjectKey { kind: ObjectKind::ConfigMap, namespace: "default".into(), name: "map".into() };
    let object = value.map(|value| {
        Arc::new(ConfigObject {
            key: key.clone(),
            uid: String::new(),
            data: [("k".to_owned(), value.into())].into(),
            binary_data: BTreeMap::new(),
            secret_type: String::new(),
            immutable: false,
        })
    });
    [(key.clone(), object.ok_or(ObjectError::NotFound(key)))].into()
}

fn opted_in() -> Pod {
    let uses = json!([{"configMapRef": {"name": "map"}}]);
    let mut pod = pod(json!({"containers": [
        {"name": "a", "envFrom": uses}, {"name": "b", "envFrom": uses}, {"name": "other"},
    ]}));
    pod.metadata.annotations = Some([(labels::RESTART_ON_CHANGE.to_owned(), "true".to_owned())].into());
    pod
}

/// A running container that was started with the given content.
fn started(pod: &Pod, name: &str, value: Option<&str>) -> ContainerStatus {
    let mut status = container(&format!("id-{name}"), name, 2, ContainerState::Running);
    let spec = pod.container(name).unwrap().container;
    status.annotations.extend(started_with_annotation(pod, spec, &objects(value)));
    status
}

fn next(pod: &Pod, containers: Vec<ContainerStatus>, now: Option<&str>) -> Option<String> {
    let observed = observed(vec![sandbox("s", 0, SandboxState::Ready)], containers);
    let actions = plan(pod, &observed, &Default::default());
    let (kill, start) = next_restart(pod, &observed, &objects(now), &actions)?;
    assert_eq!((kill.name.as_str(), start.restart_count), (start.name.as_str(), Some(3)));
    Some(kill.name)
}

fn all(pod: &Pod, a: Option<&str>, b: Option<&str>) -> Vec<ContainerStatus> {
    vec![started(pod, "a", a), started(pod, "b", b), started(pod, "other", None)]
}

#[test]
fn restarts_containers_with_changed_objects_one_at_a_time() {
    let pod = opted_in();
    assert_eq!(next(&pod, all(&pod, Some("1"), Some("1")), Some("1")), None);
    assert_eq!(next(&pod, all(&pod, Some("1"), Some("1")), Some("2")).as_deref(), Some("a"));
    assert_eq!(next(&pod, all(&pod, Some("2"), Some("1")), Some("2")).as_deref(), Some("b"));
    assert_eq!(next(&pod, all(&pod, Some("2"), Some("2")), Some("2")), None);
}

#[test]
fn next_restart_waits_until_previous_container_runs() {
    let pod = opted_in();
    let mut containers = all(&pod, Some("2"), Some("1"));
    containers[0].state = ContainerState::Exited;
    assert_eq!(next(&pod, containers, Some("2")), None);
}

#[test]
fn restarts_for_added_object_but_not_for_removed_one() {
    let pod = opted_in();
    assert_eq!(next(&pod, all(&pod, None, None), Some("1")).as_deref(), Some("a"));
    assert_eq!(next(&pod, all(&pod, Some("1"), Some("1")), None), None);
}

#[test]
fn does_not_restart_or_annotate_pods_without_opt_in() {
    let mut pod = opted_in();
    let containers = all(&pod, Some("1"), Some("1"));
    pod.metadata.annotations = None;
    assert_eq!(next(&pod, containers, Some("2")), None);
    assert_eq!(started_with_annotation(&pod, &pod.spec.containers[0], &objects(Some("1"))), None);
}
