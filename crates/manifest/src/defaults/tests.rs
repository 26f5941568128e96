use super::pull_policy;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

/// Applies the defaults to `spec` and returns the value at `pointer`.
fn defaulted(spec: &Value, pointer: &str) -> Value {
    let mut pod: Pod = serde_json::from_value(json!({ "spec": spec })).unwrap();
    super::apply(&mut pod);
    super::publish_quantities(&mut pod);
    let spec = serde_json::to_value(pod.spec).unwrap();
    spec.pointer(pointer).cloned().unwrap_or(Value::Null)
}

#[track_caller]
fn check(spec: &Value, pointer: &str, expected: &Value) {
    assert_eq!(&defaulted(spec, pointer), expected, "{pointer}");
}

#[test]
fn sets_pod_defaults() {
    let spec = json!({ "containers": [{ "name": "c", "image": "i" }] });
    for (pointer, expected) in [
        ("/restartPolicy", json!("Always")),
        ("/dnsPolicy", json!("ClusterFirst")),
        ("/terminationGracePeriodSeconds", json!(30)),
        ("/schedulerName", json!("default-scheduler")),
        ("/securityContext", json!({})),
        ("/enableServiceLinks", json!(true)),
        ("/tolerations", Value::Null),
    ] {
        check(&spec, pointer, &expected);
    }
}

#[test]
fn keeps_values_of_the_manifest() {
    let spec = json!({
        "restartPolicy": "Never", "enableServiceLinks": false, "terminationGracePeriodSeconds": 0,
        "containers": [{ "name": "c", "image": "i", "imagePullPolicy": "Never" }],
    });
    check(&spec, "/restartPolicy", &json!("Never"));
    check(&spec, "/enableServiceLinks", &json!(false));
    check(&spec, "/terminationGracePeriodSeconds", &json!(0));
    check(&spec, "/containers/0/imagePullPolicy", &json!("Never"));
}

#[test]
fn sets_container_defaults() {
    let container = json!({
        "name": "c", "image": "i:1", "ports": [{ "containerPort": 80 }],
        "env": [{ "name": "N", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }],
        "livenessProbe": { "httpGet": { "port": 80 } }, "startupProbe": { "grpc": { "port": 1 } },
        "lifecycle": { "preStop": { "httpGet": { "port": 80 } } },
    });
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        let spec = json!({ list: [container] });
        for (field, expected) in [
            ("imagePullPolicy", json!("IfNotPresent")),
            ("terminationMessagePath", json!("/dev/termination-log")),
            ("terminationMessagePolicy", json!("File")),
            ("ports/0/protocol", json!("TCP")),
            ("env/0/valueFrom/fieldRef/apiVersion", json!("v1")),
            ("livenessProbe/timeoutSeconds", json!(1)),
            ("livenessProbe/periodSeconds", json!(10)),
            ("livenessProbe/successThreshold", json!(1)),
            ("livenessProbe/failureThreshold", json!(3)),
            ("livenessProbe/httpGet", json!({ "port": 80, "path": "/", "scheme": "HTTP" })),
            ("startupProbe/grpc/service", json!("")),
            ("lifecycle/preStop/httpGet/scheme", json!("HTTP")),
        ] {
            check(&spec, &format!("/{list}/0/{field}"), &expected);
        }
    }
}

#[test]
fn host_network_sets_the_host_port_of_every_port() {
    let spec = json!({
        "hostNetwork": true,
        "containers": [{ "name": "c", "ports": [{ "containerPort": 80 }, { "containerPort": 81, "hostPort": 82 }] }],
    });
    check(&spec, "/containers/0/ports/0/hostPort", &json!(80));
    check(&spec, "/containers/0/ports/1/hostPort", &json!(82));
}

#[test]
fn sets_volume_defaults() {
    let volumes = json!([
        { "name": "none" },
        { "name": "host", "hostPath": { "path": "/x" } },
        { "name": "down", "downwardAPI": { "items": [{ "path": "p", "fieldRef": { "fieldPath": "f" } }] } },
        { "name": "proj", "projected": { "sources": [{ "serviceAccountToken": { "path": "t" } }] } },
        { "name": "iscsi", "iscsi": { "targetPortal": "p", "iqn": "q", "lun": 0 } },
        { "name": "rbd", "rbd": { "monitors": ["m"], "image": "i" } },
        { "name": "azure", "azureDisk": { "diskName": "d", "diskURI": "u" } },
        { "name": "image", "image": { "reference": "a/b" } },
        { "name": "secret", "secret": { "secretName": "s" } },
    ]);
    let spec = json!({ "volumes": volumes, "containers": [] });
    for (pointer, expected) in [
        ("0/emptyDir", json!({})),
        ("1/hostPath/type", json!("")),
        ("2/downwardAPI/defaultMode", json!(420)),
        ("2/downwardAPI/items/0/fieldRef/apiVersion", json!("v1")),
        ("3/projected/defaultMode", json!(420)),
        ("3/projected/sources/0/serviceAccountToken/expirationSeconds", json!(3600)),
        ("4/iscsi/iscsiInterface", json!("default")),
        ("5/rbd/keyring", json!("/etc/ceph/keyring")),
        ("6/azureDisk/kind", json!("Shared")),
        ("7/image/pullPolicy", json!("Always")),
        ("8/secret/defaultMode", json!(420)),
    ] {
        check(&spec, &format!("/volumes/{pointer}"), &expected);
    }
}

#[test]
fn requests_default_to_limits_and_are_rounded_up() {
    let spec = json!({ "containers": [{ "name": "c", "resources": {
        "limits": { "cpu": "1.0005", "memory": "1Gi" }, "requests": { "memory": "1Mi" },
    } }] });
    check(&spec, "/containers/0/resources/requests", &json!({ "cpu": "1001m", "memory": "1Mi" }));
    check(&spec, "/containers/0/resources/limits", &json!({ "cpu": "1001m", "memory": "1Gi" }));
}

#[test]
fn pod_level_requests_default_to_container_requests_then_to_limits() {
    let spec = json!({
        "resources": { "limits": { "cpu": "4", "memory": "1Gi", "hugepages-2Mi": "4Mi" } },
        "initContainers": [
            { "name": "sidecar", "restartPolicy": "Always", "resources": { "requests": { "cpu": "100m" } } },
            { "name": "init", "resources": { "requests": { "cpu": "2" } } },
        ],
        "containers": [{ "name": "c", "resources": { "requests": { "cpu": "500m" } } }],
    });
    let expected = json!({ "cpu": "2100m", "memory": "1Gi", "hugepages-2Mi": "4Mi" });
    check(&spec, "/resources/requests", &expected);
}

#[test]
fn pod_level_huge_page_limits_default_to_container_limits() {
    let spec = json!({
        "resources": { "requests": { "cpu": "1" } },
        "containers": [{ "name": "c", "resources": { "limits": { "hugepages-2Mi": "4Mi", "memory": "1Gi" } } }],
    });
    check(&spec, "/resources/limits", &json!({ "hugepages-2Mi": "4Mi" }));
}

/// Compares our defaults with upstream's for every manifest in the static UID corpus.
#[test]
fn sets_the_same_defaults_as_upstream() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/static_uid");
    let mut differences = Vec::new();
    let mut count = 0;
    for entry in std::fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let Some(stem) = name.strip_suffix(".defaulted.json") else { continue };
        let manifest = ["yaml", "json"].map(|end| dir.join(format!("{stem}.{end}")));
        let text = manifest.iter().find_map(|path| std::fs::read(path).ok()).unwrap();
        let upstream: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let mut pod: Pod = document::parse(&text).unwrap()[0].decode().unwrap();
        super::apply(&mut pod);
        let ours = serde_json::to_value(&pod).unwrap();
        difference(stem, &without_empty(&ours), &without_empty(&upstream), &mut differences);
        count += 1;
    }
    assert!(count > 20, "{count} upstream files");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Removes null, empty and zero values, because Go's JSON does not distinguish them from unset ones.
fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| (key.clone(), without_empty(value)));
            Value::Object(fields.filter(|(_, value)| !is_empty(value)).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_empty).collect()),
        other => other.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

fn difference(path: &str, ours: &Value, upstream: &Value, found: &mut Vec<String>) {
    match (ours, upstream) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                let side =
                    |fields: &serde_json::Map<String, Value>| fields.get(key).cloned().unwrap_or(Value::Null);
                difference(&format!("{path}.{key}"), &side(a), &side(b), found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                difference(&format!("{path}[{index}]"), a, b, found);
            }
        }
        _ if ours == upstream => {}
        _ => found.push(format!("{path}: ours {ours}, upstream {upstream}")),
    }
}

#[test]
fn pull_policy_is_always_only_for_latest() {
    let digest = format!("@sha256:{}", "a".repeat(64));
    for (image, policy) in [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.25", "IfNotPresent"),
        ("registry.example.com:5000/team/app", "Always"),
        ("registry.example.com:5000/team/app:v1", "IfNotPresent"),
        ("localhost/app", "Always"),
        ("[::1]:5000/app", "Always"),
        (&format!("nginx{digest}"), "IfNotPresent"),
        (&format!("nginx:latest{digest}"), "Always"),
        ("nginx:latest@sha256:beef", "IfNotPresent"),
        ("Nginx", "IfNotPresent"),
        ("Host/app", "Always"),
        ("", "IfNotPresent"),
        ("bad image", "IfNotPresent"),
        ("a..b", "IfNotPresent"),
        ("a--b__c", "Always"),
        (&"a".repeat(64), "IfNotPresent"),
        (&"x".repeat(247), "Always"),
        (&"x".repeat(248), "IfNotPresent"),
        (&format!("a/{}", "x".repeat(253)), "Always"),
    ] {
        assert_eq!(pull_policy(Some(&image.to_owned())), policy, "{image}");
    }
}
