#![expect(clippy::needless_pass_by_value, reason = "json literals are passed as they are written")]

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::runtime_spec::pod_paths::tests::settings;
use crate::test_objects::pod;

fn objects() -> ReadObjects {
    let key = |kind, name: &str| ObjectKey { kind, namespace: "default".into(), name: name.into() };
    let object = |key: ObjectKey, data: &[(&str, &str)], binary: &[(&str, &[u8])]| {
        Arc::new(ConfigObject {
            key,
            uid: String::new(),
            data: data.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect(),
            binary_data: binary.iter().map(|(key, value)| ((*key).to_owned(), value.to_vec())).collect(),
            secret_type: String::new(),
            immutable: false,
        })
    };
    let map = key(ObjectKind::ConfigMap, "map");
    let keys = key(ObjectKind::Secret, "keys");
    let gone = key(ObjectKind::ConfigMap, "gone");
    let broken = key(ObjectKind::Secret, "broken");
    [
        (map.clone(), Ok(object(map, &[("a", "1"), ("b", "2")], &[("raw", &[0, 255])]))),
        (keys.clone(), Ok(object(keys, &[("password", "x"), ("a", "secret")], &[]))),
        (gone.clone(), Err(ObjectError::NotFound(gone))),
        (broken.clone(), Err(ObjectError::Unavailable { key: broken, reason: "on fire".into() })),
    ]
    .into()
}

fn files(source: Value) -> Result<Vec<(String, String, u32)>, String> {
    let mut pod = pod(json!({
        "containers": [{"name": "c", "resources": {"limits": {"cpu": "1500m"}, "requests": {"memory": "10Mi"}}}],
        "initContainers": [{"name": "i"}],
        "resources": {"limits": {"memory": "1Gi"}},
    }));
    pod.metadata.labels = Some([("b".into(), "2".into()), ("a".into(), "\"1\"".into())].into());
    pod.metadata.annotations = Some([("note".into(), "hi".into())].into());
    let mut volume = json!({"name": "v"});
    volume.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
    let volume: Volume = serde_json::from_value(volume).unwrap();
    let facts = ProjectedContent {
        pod: &pod,
        settings: &settings(),
        objects: &objects(),
        tokens: None,
        trust_bundles: None,
        certificates: None,
    };
    let text = |file: ProjectedFile| {
        let content = String::from_utf8_lossy(&file.content).into_owned();
        (file.path.to_string_lossy().into_owned(), content, file.mode)
    };
    volume_files(&facts, &volume).map(|files| files.into_iter().map(text).collect())
}

fn expect(source: Value, expected: &[(&str, &str, u32)]) {
    let expected: Vec<_> = expected.iter().map(|(p, c, m)| ((*p).to_owned(), (*c).to_owned(), *m)).collect();
    assert_eq!(files(source.clone()), Ok(expected), "{source}");
}

#[test]
fn config_map_projects_all_or_selected_keys() {
    expect(
        json!({"configMap": {"name": "map", "defaultMode": 0o640}}),
        &[("a", "1", 0o640), ("b", "2", 0o640), ("raw", "\0\u{fffd}", 0o640)],
    );
    let items = json!([{"key": "a", "path": "deep/./er//a"}, {"key": "raw", "path": "r", "mode": 0o400}]);
    expect(
        json!({"configMap": {"name": "map", "defaultMode": 0o644, "items": items}}),
        &[("deep/er/a", "1", 0o644), ("r", "\0\u{fffd}", 0o400)],
    );
}

#[test]
fn secret_projects_all_or_selected_keys() {
    expect(
        json!({"secret": {"secretName": "keys", "items": [{"key": "password", "path": "p"}]}}),
        &[("p", "x", 0o644)],
    );
}

#[test]
fn missing_objects_and_keys_are_errors_unless_optional() {
    let missing = json!([{"key": "nope", "path": "p"}, {"key": "a", "path": "a"}]);
    for (source, expected) in [
        (json!({"configMap": {"name": "gone"}}), "configmap \"gone\" not found"),
        (json!({"secret": {"secretName": "never"}}), "secret \"never\" not found"),
        (json!({"secret": {"secretName": "broken", "optional": true}}), "on fire"),
        (
            json!({"configMap": {"name": "map", "items": missing}}),
            "configmap references non-existent config key: nope",
        ),
        (
            json!({"secret": {"secretName": "keys", "items": missing}}),
            "references non-existent secret key: nope",
        ),
    ] {
        assert_eq!(files(source.clone()), Err(expected.to_owned()), "{source}");
    }
    expect(json!({"configMap": {"name": "gone", "optional": true}}), &[]);
    expect(json!({"configMap": {"name": "gone", "optional": true, "items": missing}}), &[]);
    expect(
        json!({"secret": {"secretName": "keys", "optional": true, "items": missing}}),
        &[("a", "secret", 0o644)],
    );
}

#[test]
fn downward_api_projects_fields_and_resources() {
    let field = |path: &str| json!({"path": "f", "fieldRef": {"fieldPath": path}});
    for (path, expected) in [
        ("metadata.name", "p"),
        ("metadata.namespace", "default"),
        ("metadata.uid", "u"),
        ("metadata.labels", "a=\"\\\"1\\\"\"\nb=\"2\""),
        ("metadata.annotations", "note=\"hi\""),
        ("metadata.labels['b']", "2"),
        ("metadata.annotations['none']", ""),
    ] {
        expect(json!({"downwardAPI": {"items": [field(path)]}}), &[("f", expected, 0o644)]);
    }
    let resource = |resource: &str, divisor: &str, container: &str| {
        let selector = json!({"resource": resource, "divisor": divisor, "containerName": container});
        json!({"downwardAPI": {"items": [{"path": "f", "mode": 0o400, "resourceFieldRef": selector}]}})
    };
    let memory = crate::cgroups::allocatable::allocatable(&settings().resources)["memory"].to_string();
    for (name, divisor, container, expected) in [
        ("limits.cpu", "0", "c", "2"),
        ("limits.cpu", "1m", "c", "1500"),
        ("requests.memory", "1Mi", "c", "10"),
        ("requests.cpu", "1", "c", "0"),
        // Files show what the node can give, whatever the pod as a whole is limited to.
        ("limits.memory", "1", "c", memory.as_str()),
        ("limits.memory", "1", "i", memory.as_str()),
    ] {
        expect(resource(name, divisor, container), &[("f", expected, 0o400)]);
    }
    assert_eq!(
        files(
            json!({"downwardAPI": {"items": [field("status.podIP"), field("spec.nodeName"), field("status.podIP")]}})
        ),
        Err("[unsupported fieldPath: status.podIP, unsupported fieldPath: spec.nodeName]".to_owned())
    );
    assert_eq!(files(resource("limits.cpu", "1", "none")), Err("container none not found".to_owned()));
}

#[test]
fn merges_projected_sources_in_order() {
    let sources = json!([
        {"configMap": {"name": "map", "items": [{"key": "a", "path": "a"}, {"key": "b", "path": "b", "mode": 0o600}]}},
        {"secret": {"name": "keys", "items": [{"key": "a", "path": "a"}]}},
        {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"configMap": {"name": "gone", "optional": true}},
    ]);
    expect(
        json!({"projected": {"defaultMode": 0o440, "sources": sources}}),
        &[("a", "secret", 0o440), ("b", "2", 0o600), ("name", "p", 0o440)],
    );
}

#[test]
fn rejects_sources_that_need_an_api_server() {
    let sources = json!([
        {"serviceAccountToken": {"path": "token"}}, {"configMap": {"name": "gone"}},
        {"clusterTrustBundle": {"path": "ca", "name": "x"}},
    ]);
    let problem = files(json!({"projected": {"sources": sources}})).unwrap_err();
    assert!(problem.starts_with("[serviceAccountToken: a token comes from an API server"), "{problem}");
    assert!(problem.contains(", configmap \"gone\" not found, clusterTrustBundle: "), "{problem}");
}

#[test]
fn digest_depends_on_content_path_and_mode() {
    let file = |path: &str, content: &str, mode| ProjectedFile {
        path: path.into(),
        content: content.into(),
        mode,
        owner: None,
    };
    let base = digest(&[file("a", "b", 1), file("c", "", 1)]);
    for other in [
        vec![file("a", "c", 1), file("c", "", 1)],
        vec![file("ab", "", 1), file("c", "", 1)],
        vec![file("a", "b", 2), file("c", "", 1)],
        vec![file("a", "b", 1)],
    ] {
        assert_ne!(digest(&other), base, "{other:?}");
    }
}

#[test]
fn token_mode_depends_on_owner_and_group() {
    let wish = model::TokenSpec { audiences: vec!["vault".into()], expiration_seconds: Some(600) };
    let token = model::IssuedToken {
        token: "t".into(),
        expires_at: model::Timestamp::from_secs(600),
        expiration_seconds: 600,
    };
    let volume = json!({"name": "v", "projected": {"defaultMode": 0o644, "sources": [
        {"serviceAccountToken": {"path": "token", "audience": "vault", "expirationSeconds": 600}},
    ]}});
    let volume: Volume = serde_json::from_value(volume).unwrap();
    let files = |context: serde_json::Value, token: Result<model::IssuedToken, String>| {
        let pod = pod(json!({"securityContext": context, "containers": [{"name": "c"}]}));
        let tokens = [(wish.clone(), token)].into();
        let (settings, objects) = (settings(), objects());
        let facts = ProjectedContent {
            pod: &pod,
            settings: &settings,
            objects: &objects,
            tokens: Some(&tokens),
            trust_bundles: None,
            certificates: None,
        };
        volume_files(&facts, &volume)
    };
    for (context, mode, owner) in [
        (json!({}), 0o644, None),
        (json!({"runAsUser": 7}), 0o600, Some(7)),
        (json!({"fsGroup": 9}), 0o600, None),
        (json!({"fsGroup": 9, "runAsUser": 7}), 0o600, Some(7)),
    ] {
        let expected = ProjectedFile { path: "token".into(), content: b"t".to_vec(), mode, owner };
        assert_eq!(files(context.clone(), Ok(token.clone())).unwrap(), [expected], "{context}");
    }
    let problem = "failed to fetch token: no".to_owned();
    assert_eq!(files(json!({}), Err(problem.clone())).unwrap_err(), problem);
}

#[test]
fn certificate_and_key_share_a_file_or_not() {
    let volume = json!({"name": "v", "projected": {"defaultMode": 0o644, "sources": [
        {"podCertificate": {"signerName": "a.b/c", "keyType": "ED25519", "credentialBundlePath": "both"}},
        {"podCertificate": {"signerName": "a.b/c", "keyType": "ED25519", "keyPath": "key",
            "certificateChainPath": "chain"}},
    ]}});
    let volume: Volume = serde_json::from_value(volume).unwrap();
    let files = |context: serde_json::Value, second: Result<model::PodCertificate, String>| {
        let pod = pod(json!({"securityContext": context, "containers": [{"name": "c"}]}));
        let first = model::PodCertificate { key: "K\n".into(), chain: "C\n".into() };
        let certificates = [(("v".to_owned(), 0), Ok(first)), (("v".to_owned(), 1), second)].into();
        let (settings, objects) = (settings(), objects());
        let facts = ProjectedContent {
            pod: &pod,
            settings: &settings,
            objects: &objects,
            tokens: None,
            trust_bundles: None,
            certificates: Some(&certificates),
        };
        volume_files(&facts, &volume)
    };
    let second = model::PodCertificate { key: "k\n".into(), chain: "c\n".into() };
    let file = |path: &str, content: &str, mode, owner| ProjectedFile {
        path: path.into(),
        content: content.as_bytes().to_vec(),
        mode,
        owner,
    };
    assert_eq!(
        files(json!({"runAsUser": 7}), Ok(second.clone())).unwrap(),
        [
            file("both", "K\nC\n", 0o600, Some(7)),
            file("chain", "c\n", 0o600, Some(7)),
            file("key", "k\n", 0o600, Some(7)),
        ]
    );
    assert!(files(json!({}), Ok(second)).unwrap().iter().all(|file| file.mode == 0o644));
    assert_eq!(files(json!({}), Err("not yet".to_owned())).unwrap_err(), "not yet");
}
