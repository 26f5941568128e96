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
    static_uid(pod, &ManifestSource { node: "node-1", location: ManifestLocation::File("/pods/a.yaml") })
        .unwrap()
}

fn pod(spec: &Value) -> Value {
    json!({ "metadata": { "name": "a" }, "spec": spec })
}

#[test]
fn matches_upstream_uids_of_all_golden_manifests() {
    let table = std::fs::read_to_string(Path::new(MANIFESTS).join("uids.txt")).unwrap();
    let mut wrong = Vec::new();
    let mut checked = 0;
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let [manifest, node, source, expected] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let location = if source.starts_with("https:") {
            ManifestLocation::Url(source)
        } else {
            ManifestLocation::File(source)
        };
        if static_uid(&defaulted(manifest), &ManifestSource { node, location }).unwrap() != expected {
            wrong.push(format!("{manifest} from {source}"));
        }
        checked += 1;
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(checked >= 50, "only {checked} lines");
}

#[test]
fn distinguishes_empty_lists_from_absent_lists() {
    let with = uid(&pod(&json!({ "containers": [{ "name": "a", "args": [] }] })));
    let without = uid(&pod(&json!({ "containers": [{ "name": "a" }] })));
    let null = uid(&pod(&json!({ "containers": [{ "name": "a", "args": null }] })));
    assert_ne!(with, without);
    assert_eq!(null, without);
}

#[test]
fn ignores_node_name_for_url_source() {
    let pod = pod(&json!({}));
    let location = ManifestLocation::Url("https://example.com/pods");
    let [a, b] = ["a", "b"].map(|node| static_uid(&pod, &ManifestSource { node, location }).unwrap());
    assert_eq!(a, b);
}

#[test]
fn falls_back_to_deprecated_service_account_field() {
    let old = uid(&pod(&json!({ "serviceAccount": "x" })));
    let new = uid(&pod(&json!({ "serviceAccountName": "x", "serviceAccount": "y" })));
    assert_eq!(old, new);
}

#[test]
fn error_names_the_malformed_field() {
    let bad = pod(&json!({ "containers": [{ "name": 1 }] }));
    let source = ManifestSource { node: "a", location: ManifestLocation::File("/a") };
    let expected = StaticUidError::Shape { field: "Name", expected: "string" };
    assert_eq!(static_uid(&bad, &source), Err(expected));
    let bad = pod(&json!({ "overhead": { "cpu": "much" } }));
    let expected = StaticUidError::Quantity { field: "Overhead", text: "much".to_owned() };
    assert_eq!(static_uid(&bad, &source), Err(expected));
}

#[test]
fn matches_upstream_uids_of_random_pods() {
    let table = std::fs::read_to_string(Path::new(MANIFESTS).join("random.txt")).unwrap();
    let location = ManifestLocation::File("/etc/kubernetes/manifests/random.yaml");
    for (index, line) in table.lines().enumerate() {
        let (expected, pod) = line.split_once('\t').unwrap();
        let pod = serde_json::from_str(pod).unwrap();
        let uid = static_uid(&pod, &ManifestSource { node: "node-1.example.com", location }).unwrap();
        assert_eq!(uid, expected, "line {}", index + 1);
    }
}
