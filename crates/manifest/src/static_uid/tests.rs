use std::path::Path;

use serde_json::{Value, json};

use super::*;

const MANIFESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/static_uid");

fn defaulted(manifest: &str) -> Value {
    let (name, _) = manifest.rsplit_once('.').unwrap();
    let path = Path::new(MANIFESTS).join(format!("{name}.defaulted.json"));
    serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap()
}

fn uid(pod: &Value) -> String {
    static_uid(pod, &Origin { node: "node-1", place: Place::File("/pods/a.yaml") }).unwrap()
}

fn pod(spec: &Value) -> Value {
    json!({ "metadata": { "name": "a" }, "spec": spec })
}

#[test]
fn gives_every_manifest_the_uid_that_upstream_gives() {
    let table = std::fs::read_to_string(Path::new(MANIFESTS).join("uids.txt")).unwrap();
    let mut wrong = Vec::new();
    let mut checked = 0;
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let [manifest, node, source, expected] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let place = if source.starts_with("https:") { Place::Url(source) } else { Place::File(source) };
        if static_uid(&defaulted(manifest), &Origin { node, place }).unwrap() != expected {
            wrong.push(format!("{manifest} from {source}"));
        }
        checked += 1;
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(checked >= 50, "only {checked} lines");
}

#[test]
fn tells_an_empty_list_from_an_absent_one() {
    let with = uid(&pod(&json!({ "containers": [{ "name": "a", "args": [] }] })));
    let without = uid(&pod(&json!({ "containers": [{ "name": "a" }] })));
    let null = uid(&pod(&json!({ "containers": [{ "name": "a", "args": null }] })));
    assert_ne!(with, without);
    assert_eq!(null, without);
}

#[test]
fn ignores_the_node_for_a_url() {
    let pod = pod(&json!({}));
    let place = Place::Url("https://example.com/pods");
    let [a, b] = ["a", "b"].map(|node| static_uid(&pod, &Origin { node, place }).unwrap());
    assert_eq!(a, b);
}

#[test]
fn takes_the_old_name_of_the_service_account() {
    let old = uid(&pod(&json!({ "serviceAccount": "x" })));
    let new = uid(&pod(&json!({ "serviceAccountName": "x", "serviceAccount": "y" })));
    assert_eq!(old, new);
}

#[test]
fn names_the_field_that_has_the_wrong_shape() {
    let bad = pod(&json!({ "containers": [{ "name": 1 }] }));
    let origin = Origin { node: "a", place: Place::File("/a") };
    let expected = StaticUidError::Shape { field: "Name", wanted: "string" };
    assert_eq!(static_uid(&bad, &origin), Err(expected));
    let bad = pod(&json!({ "overhead": { "cpu": "much" } }));
    let expected = StaticUidError::Quantity { field: "Overhead", text: "much".to_owned() };
    assert_eq!(static_uid(&bad, &origin), Err(expected));
}

#[test]
fn gives_pods_filled_at_random_the_uid_that_upstream_gives() {
    let table = std::fs::read_to_string(Path::new(MANIFESTS).join("random.txt")).unwrap();
    let place = Place::File("/etc/kubernetes/manifests/random.yaml");
    for (index, line) in table.lines().enumerate() {
        let (expected, pod) = line.split_once('\t').unwrap();
        let pod = serde_json::from_str(pod).unwrap();
        let uid = static_uid(&pod, &Origin { node: "node-1.example.com", place }).unwrap();
        assert_eq!(uid, expected, "line {}", index + 1);
    }
}
