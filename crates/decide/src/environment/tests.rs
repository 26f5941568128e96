#![expect(clippy::needless_pass_by_value, reason = "json literals are passed as they are written")]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::pod_paths::tests::settings;
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
    let facts = EnvironmentFacts { pod: &pod, pod_ips: &ips, settings: &settings };
    environment(&facts, &pod.spec.containers[0])
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
fn references_are_replaced_by_upstreams_rules() {
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
fn variables_see_those_before_them_and_keep_their_order() {
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
fn pod_fields_are_readable() {
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
        assert!(field(path).unwrap_err().starts_with("environment variable \"V\": "), "{path}");
    }
}

#[test]
fn pods_in_the_hosts_network_have_its_addresses() {
    let mut pod = pod_with(json!([{"name": "V", "valueFrom": {"fieldRef": {"fieldPath": "status.podIPs"}}}]));
    pod.spec.host_network = Some(true);
    let settings = settings();
    let facts = EnvironmentFacts { pod: &pod, pod_ips: &[], settings: &settings };
    let variables = environment(&facts, &pod.spec.containers[0]);
    assert_eq!(variables, Ok(pairs(&[("V", "192.0.2.1,2001:db8::1")])));
}

#[test]
fn the_nodes_family_decides_which_address_is_first() {
    let mut settings = settings();
    settings.addresses.reverse();
    let ips = ["10.0.0.7".to_owned(), "fd00:0::07".to_owned(), "junk".to_owned()];
    assert_eq!(ordered_pod_ips(&ips, &settings), ["fd00::7", "10.0.0.7"]);
    settings.addresses.clear();
    assert_eq!(ordered_pod_ips(&ips[1..], &settings), ["fd00::7"]);
}

#[test]
fn resources_are_divided_and_rounded_up() {
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
        // What the node may hand out, where a container sets no limit.
        ("limits.cpu", "1", "other", "3"),
        ("limits.memory", "1Gi", "other", "6"),
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
    assert!(resource("limits.cpu", "1", "nobody").unwrap_err().contains("\"nobody\" not found"));
}

#[test]
fn the_pods_limits_come_before_the_nodes() {
    let mut pod = pod_with(json!([{"name": "V", "valueFrom": {
        "resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi", "containerName": "other"},
    }}]));
    pod.spec.resources = serde_json::from_value(json!({"limits": {"memory": "100Mi"}})).unwrap();
    let settings = settings();
    let facts = EnvironmentFacts { pod: &pod, pod_ips: &[], settings: &settings };
    assert_eq!(environment(&facts, &pod.spec.containers[0]), Ok(pairs(&[("V", "100")])));
}

#[test]
fn objects_of_the_api_are_absent_unless_optional() {
    let reference = |kind: &str, optional| json!([{"name": "V", "valueFrom": {kind: {"name": "o", "key": "k", "optional": optional}}}]);
    assert_eq!(
        variables(reference("configMapKeyRef", false)).unwrap_err(),
        "environment variable \"V\": couldn't get configMap default/o: no API server is configured"
    );
    assert!(variables(reference("secretKeyRef", false)).unwrap_err().contains("secret default/o"));
    assert_eq!(variables(reference("secretKeyRef", true)), Ok(vec![]));
    let mut pod = pod_with(json!([]));
    let settings = settings();
    for (optional, is_fine) in [(true, true), (false, false)] {
        pod.spec.containers[0].env_from =
            serde_json::from_value(json!([{"secretRef": {"name": "s", "optional": optional}}])).unwrap();
        let facts = EnvironmentFacts { pod: &pod, pod_ips: &[], settings: &settings };
        assert_eq!(environment(&facts, &pod.spec.containers[0]).is_ok(), is_fine);
    }
}

proptest! {
    #[test]
    fn text_without_a_dollar_stays_as_it_is(text in "[^$]*") {
        prop_assert_eq!(expand(&text, |_| Some("X".to_owned())), text);
    }

    #[test]
    fn unknown_references_stay_and_only_escapes_shrink(text in "[$()a\u{e9}]{0,30}") {
        let expanded = expand(&text, |_| None);
        prop_assert!(expanded.len() <= text.len());
        prop_assert_eq!(text.replace("$$", "$").replace('$', ""), expanded.replace('$', ""));
    }

    #[test]
    fn doubled_dollars_protect_any_text(text in ".*") {
        prop_assert_eq!(expand(&text.replace('$', "$$"), |_| Some("X".to_owned())), text);
    }
}
