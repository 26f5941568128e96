#![expect(clippy::needless_pass_by_value, reason = "json literals are passed as they are written")]

use std::sync::Arc;

use model::{ConfigObject, ObjectKey};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::runtime_spec::pod_paths::tests::settings;
use crate::test_objects::pod;

fn pod_with(env: Value) -> Pod {
    let mut pod = pod(json!({
        "nodeName": "node-1", "serviceAccountName": "builder",
        "containers": [{
            "name": "c", "env": env,
            "resources": {
                "requests": {"cpu": "250m", "memory": "10Mi", "ephemeral-storage": "1Gi", "hugepages-2Mi": "4Mi"},
                "limits": {"cpu": "1500m", "memory": "64Mi"},
            },
        }, {"name": "other"}],
        "initContainers": [{"name": "init"}],
    }));
    pod.metadata.labels =
        Some([("b".into(), "2".into()), ("a".into(), "x \"y\"\n\u{e9}\u{200b}\u{7}".into())].into());
    pod.metadata.annotations = Some([("example.org/note".into(), "hi".into())].into());
    pod
}

fn variables(env: Value) -> Result<Vec<(String, String)>, String> {
    let pod = pod_with(env);
    let ips = ["fd00::7".to_owned(), "10.0.0.7".to_owned(), "10.0.0.8".to_owned()];
    let settings = settings();
    let sources = sources();
    let inputs = EnvironmentInputs { pod: &pod, pod_ips: &ips, settings: &settings, sources: &sources };
    environment(&inputs, &pod.spec.containers[0])
}

fn field(path: &str) -> Result<String, String> {
    let env = json!([{"name": "V", "valueFrom": {"fieldRef": {"fieldPath": path}}}]);
    variables(env).map(|mut variables| variables.remove(0).1)
}

fn resource(name: &str, divisor: &str, container: &str) -> Result<String, String> {
    let reference = json!({"resource": name, "divisor": divisor, "containerName": container});
    let env = json!([{"name": "V", "valueFrom": {"resourceFieldRef": reference}}]);
    variables(env).map(|mut variables| variables.remove(0).1)
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn expands_references_like_upstream() {
    let lookup = |name: &str| match name {
        "A" => Some("1".to_owned()),
        "B" => Some("$(A)".to_owned()),
        "" => Some("empty".to_owned()),
        _ => None,
    };
    for (text, expected) in [
        ("", ""),
        ("plain", "plain"),
        ("$(A)", "1"),
        ("x$(A)y$(A)", "x1y1"),
        ("$(B)", "$(A)"),
        ("$(C)", "$(C)"),
        ("$()", "empty"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$$$$(A)", "$$(A)"),
        ("$$", "$"),
        ("$", "$"),
        ("a$", "a$"),
        ("$A", "$A"),
        ("$é(A)", "$é(A)"),
        ("$(A", "$(A"),
        ("$(A$(A)", "$(A$(A)"),
        ("$($(A)", "$($(A)"),
        ("${A}", "${A}"),
    ] {
        assert_eq!(expand(text, lookup), expected, "{text}");
    }
}

#[test]
fn variables_reference_earlier_ones_in_order() {
    let env = json!([
        {"name": "Z", "value": "$(A)"},
        {"name": "A", "value": "1"},
        {"name": "B", "value": "$(A)2"},
        {"name": "A", "value": "$(A)$(B)"},
        {"name": "EMPTY"},
    ]);
    assert_eq!(variables(env), Ok(pairs(&[("Z", "$(A)"), ("A", "112"), ("B", "12"), ("EMPTY", "")])));
}

#[test]
fn reads_pod_fields() {
    for (path, expected) in [
        ("metadata.name", "p"),
        ("metadata.namespace", "default"),
        ("metadata.uid", "u"),
        ("metadata.labels", "a=\"x \\\"y\\\"\\né\\u200b\\a\"\nb=\"2\""),
        ("metadata.labels['b']", "2"),
        ("metadata.labels['nope']", ""),
        ("metadata.annotations", "example.org/note=\"hi\""),
        ("metadata.annotations['example.org/note']", "hi"),
        ("spec.nodeName", "node-1"),
        ("spec.serviceAccountName", "builder"),
        ("status.hostIP", "192.0.2.1"),
        ("status.hostIPs", "192.0.2.1,2001:db8::1"),
        ("status.podIP", "10.0.0.7"),
        ("status.podIPs", "10.0.0.7,fd00::7"),
    ] {
        assert_eq!(field(path).as_deref(), Ok(expected), "{path}");
    }
    for path in ["spec.containers", "status.phase", "metadata.name['a']", ""] {
        assert!(!field(path).unwrap_err().is_empty(), "{path}");
    }
}

#[test]
fn host_network_pod_uses_node_addresses() {
    let mut pod = pod_with(json!([{"name": "V", "valueFrom": {"fieldRef": {"fieldPath": "status.podIPs"}}}]));
    pod.spec.host_network = Some(true);
    let settings = settings();
    let inputs = EnvironmentInputs { pod: &pod, pod_ips: &[], settings: &settings, sources: &sources() };
    let variables = environment(&inputs, &pod.spec.containers[0]);
    assert_eq!(variables, Ok(pairs(&[("V", "192.0.2.1,2001:db8::1")])));
}

#[test]
fn prefers_node_addresses_of_api_server() {
    let field = |path: &str| json!({"name": path, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let mut pod = pod_with(json!([field("status.hostIP"), field("status.hostIPs"), field("status.podIP")]));
    pod.spec.host_network = Some(true);
    let host_ips = vec!["198.51.100.3".parse().unwrap(), "2001:db8::3".parse().unwrap()];
    let sources = EnvironmentSources { host_ips, ..sources() };
    let inputs = EnvironmentInputs { pod: &pod, pod_ips: &[], settings: &settings(), sources: &sources };
    let expected = pairs(&[
        ("status.hostIP", "198.51.100.3"),
        ("status.hostIPs", "198.51.100.3,2001:db8::3"),
        ("status.podIP", "198.51.100.3"),
    ]);
    assert_eq!(environment(&inputs, &pod.spec.containers[0]), Ok(expected));
}

#[test]
fn orders_pod_ips_by_node_ip_family() {
    let mut settings = settings();
    settings.addresses.reverse();
    let ips = ["10.0.0.7".to_owned(), "fd00:0::07".to_owned(), "junk".to_owned()];
    assert_eq!(ordered_pod_ips(&ips, settings.addresses.first()), ["fd00::7", "10.0.0.7"]);
    settings.addresses.clear();
    assert_eq!(ordered_pod_ips(&ips[1..], settings.addresses.first()), ["fd00::7"]);
}

#[test]
fn divides_resources_rounding_up() {
    for (name, divisor, container, expected) in [
        ("limits.cpu", "0", "", "2"),
        ("limits.cpu", "1m", "", "1500"),
        ("requests.cpu", "1", "", "1"),
        ("requests.cpu", "100m", "", "3"),
        ("limits.memory", "1Mi", "", "64"),
        ("limits.memory", "1", "", "67108864"),
        ("requests.memory", "3Mi", "", "4"),
        ("requests.ephemeral-storage", "1Gi", "", "1"),
        ("requests.hugepages-2Mi", "1Mi", "", "4"),
        ("limits.hugepages-2Mi", "1Mi", "", "0"),
        ("limits.cpu", "1m", "other", allocatable("cpu").as_str()),
        ("limits.memory", "1", "other", allocatable("memory").as_str()),
        ("requests.memory", "1", "other", "0"),
        ("limits.cpu", "1", "init", "0"),
    ] {
        assert_eq!(
            resource(name, divisor, container).as_deref(),
            Ok(expected),
            "{name} {divisor} {container}"
        );
    }
    assert!(resource("limits.gpu", "1", "").is_err());
    assert!(resource("cpu", "1", "").is_err());
    assert!(resource("limits.cpu", "1", "nobody").unwrap_err().contains("container nobody not found"));
}

#[test]
fn missing_limit_defaults_to_pod_then_node() {
    let mut pod = pod_with(json!([{"name": "V", "valueFrom": {
        "resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi", "containerName": "other"},
    }}]));
    pod.spec.resources = serde_json::from_value(json!({"limits": {"memory": "100Mi"}})).unwrap();
    let settings = settings();
    let inputs = EnvironmentInputs { pod: &pod, pod_ips: &[], settings: &settings, sources: &sources() };
    assert_eq!(environment(&inputs, &pod.spec.containers[0]), Ok(pairs(&[("V", "100")])));
}

#[test]
fn reads_keys_of_config_maps_and_secrets() {
    let reference = |kind: &str, name: &str, key: &str, optional| json!([{"name": "V", "valueFrom": {kind: {"name": name, "key": key, "optional": optional}}}]);
    for (kind, name, key, optional, expected) in [
        ("configMapKeyRef", "map", "a", false, Ok(Some("one"))),
        ("secretKeyRef", "keys", "a", false, Ok(Some("$(HOME)"))),
        ("configMapKeyRef", "gone", "a", false, Err("configmap \"gone\" not found")),
        ("configMapKeyRef", "gone", "a", true, Ok(None)),
        ("secretKeyRef", "never", "a", false, Err("secret \"never\" not found")),
        ("configMapKeyRef", "map", "nope", false, Err("couldn't find key nope in ConfigMap default/map")),
        ("secretKeyRef", "keys", "nope", false, Err("couldn't find key nope in Secret default/keys")),
        ("secretKeyRef", "keys", "nope", true, Ok(None)),
        // Like upstream, only text data is used.
        ("configMapKeyRef", "map", "raw", false, Err("couldn't find key raw in ConfigMap default/map")),
        (
            "secretKeyRef",
            "binary",
            "raw",
            false,
            Err(
                "key raw in Secret default/binary is not UTF-8 text, which a variable must be; mount it as a file",
            ),
        ),
    ] {
        let found = variables(reference(kind, name, key, optional));
        let expected = expected.map(|value| value.map(|value| vec![("V".to_owned(), value.to_owned())]));
        let expected = expected.map(Option::unwrap_or_default).map_err(str::to_owned);
        assert_eq!(found, expected, "{kind} {name} {key}");
    }
}

#[test]
fn orders_env_from_before_env_before_services() {
    let mut pod = pod_with(json!([
        {"name": "b", "value": "own $(P_a) $(HOST) $(a)"},
        {"name": "c", "value": "$(b)"},
    ]));
    pod.spec.containers[0].env_from = serde_json::from_value(json!([
        {"configMapRef": {"name": "map"}},
        {"prefix": "P_", "secretRef": {"name": "keys"}},
        {"configMapRef": {"name": "gone", "optional": true}},
    ]))
    .unwrap();
    let (settings, mut sources) = (settings(), sources());
    sources.services = pairs(&[("HOST", "10.0.0.1"), ("a", "service")]);
    let inputs = EnvironmentInputs { pod: &pod, pod_ips: &[], settings: &settings, sources: &sources };
    assert_eq!(
        environment(&inputs, &pod.spec.containers[0]),
        Ok(pairs(&[
            ("a", "one"),
            ("b", "own $(HOME) 10.0.0.1 one"),
            ("P_a", "$(HOME)"),
            ("c", "own $(HOME) 10.0.0.1 one"),
            ("HOST", "10.0.0.1"),
        ]))
    );
    pod.spec.containers[0].env_from =
        serde_json::from_value(json!([{"secretRef": {"name": "never"}}])).unwrap();
    let inputs = EnvironmentInputs { pod: &pod, pod_ips: &[], settings: &settings, sources: &sources };
    assert_eq!(environment(&inputs, &pod.spec.containers[0]), Err("secret \"never\" not found".to_owned()));
}

#[test]
fn reads_values_from_env_files() {
    let reference = |path: &str, key: &str, optional: bool| {
        let selector = json!({"volumeName": "v", "path": path, "key": key, "optional": optional});
        json!([{"name": "V", "valueFrom": {"fileKeyRef": selector}}])
    };
    assert_eq!(variables(reference("env", "A", false)), Ok(pairs(&[("V", "one")])));
    assert_eq!(variables(reference("env", "B", true)), Ok(Vec::new()));
    assert_eq!(
        variables(reference("env", "B", false)),
        Err("environment variable key \"B\" not found in file \"/v/env\"".to_owned())
    );
    for (path, optional) in [("bad", true), ("missing", true), ("missing", false)] {
        let problem = variables(reference(path, "A", optional)).unwrap_err();
        assert!(problem.starts_with(&format!("couldn't parse env file: /v/{path}: ")), "{problem}");
    }
    assert_eq!(
        variables(reference("other", "A", false)),
        Err("cannot find the volume \"v\" referenced by FileKeyRef".to_owned())
    );
    let pod = pod_with(reference("env", "A", false));
    let mut settings = settings();
    assert_eq!(env_files(&pod.spec.containers[0], &settings), [("v".to_owned(), "env".to_owned())]);
    settings.gates.env_files = false;
    assert!(env_files(&pod.spec.containers[0], &settings).is_empty());
    let inputs = EnvironmentInputs { pod: &pod, pod_ips: &[], settings: &settings, sources: &sources() };
    assert_eq!(environment(&inputs, &pod.spec.containers[0]), Ok(pairs(&[("V", "")])));
}

fn allocatable(name: &str) -> String {
    crate::cgroups::allocatable::allocatable(&settings().resources)[name].to_string()
}

fn sources() -> EnvironmentSources {
    let object = |kind, name: &str, data: &[(&str, &[u8])], binary: &[(&str, &[u8])]| {
        let key = ObjectKey { kind, namespace: "default".into(), name: name.into() };
        let map = |list: &[(&str, &[u8])]| {
            list.iter().map(|(key, value)| ((*key).to_owned(), value.to_vec())).collect()
        };
        let (data, binary_data) = (map(data), map(binary));
        let object = ConfigObject {
            key: key.clone(),
            uid: String::new(),
            data,
            binary_data,
            secret_type: String::new(),
            immutable: false,
        };
        (key, Ok(Arc::new(object)))
    };
    let gone = ObjectKey { kind: ObjectKind::ConfigMap, namespace: "default".into(), name: "gone".into() };
    let file = |path: &str, content: Result<&str, &str>| {
        let content = content.map(|text| text.as_bytes().to_vec()).map_err(str::to_owned);
        (("v".to_owned(), path.to_owned()), EnvFile { path: Path::new("/v").join(path), content })
    };
    EnvironmentSources {
        objects: [
            object(ObjectKind::ConfigMap, "map", &[("a", b"one"), ("b", b"two")], &[("raw", b"x")]),
            object(ObjectKind::Secret, "keys", &[("a", b"$(HOME)")], &[]),
            object(ObjectKind::Secret, "binary", &[("raw", &[255])], &[]),
            (gone.clone(), Err(model::ObjectError::NotFound(gone))),
        ]
        .into(),
        files: [file("env", Ok("A='one'\n")), file("bad", Ok("A=one")), file("missing", Err("not there"))]
            .into(),
        services: Vec::new(),
        host_ips: Vec::new(),
    }
}

proptest! {
    #[test]
    fn text_without_dollar_is_unchanged(text in "[^$]*") {
        prop_assert_eq!(expand(&text, |_| Some("X".to_owned())), text);
    }

    #[test]
    fn unknown_references_are_unchanged(text in "[$()a\u{e9}]{0,30}") {
        let expanded = expand(&text, |_| None);
        prop_assert!(expanded.len() <= text.len());
        prop_assert_eq!(text.replace("$$", "$").replace('$', ""), expanded.replace('$', ""));
    }

    #[test]
    fn doubled_dollars_escape_any_text(text in ".*") {
        prop_assert_eq!(expand(&text.replace('$', "$$"), |_| Some("X".to_owned())), text);
    }
}
