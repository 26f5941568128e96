use crate::{ConfigObject, ManifestLocation, ManifestRules, ManifestSource, ObjectKind, ObjectSource, read};

const FILE: ManifestSource<'_> =
    ManifestSource { node: "node-a", location: ManifestLocation::File("/etc/pods/web.yaml") };
const LOCAL: ManifestRules = ManifestRules {
    prevent_api_references: true,
    objects: ObjectSource::Manifests,
    restarts: crate::RestartRules::All,
    validation_gates: crate::ValidationGates::DEFAULT,
};
const POD: &str =
    "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\nspec:\n  containers:\n  - name: web\n    image: i\n";

fn objects(text: &str) -> Vec<ConfigObject> {
    read(text.as_bytes(), &FILE, &LOCAL).unwrap().objects
}

fn problems(text: &str) -> Vec<String> {
    read(text.as_bytes(), &FILE, &LOCAL).unwrap_err().iter().map(ToString::to_string).collect()
}

fn config_map(rest: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings}}\n{rest}")
}

fn secret(rest: &str) -> String {
    format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: keys}}\n{rest}")
}

#[test]
fn reads_config_map_with_text_and_binary_data() {
    let text = config_map("data: {a: x, empty: null}\nbinaryData: {b: AAE=}\nimmutable: true\n");
    let [object] = &*objects(&text) else { panic!("one object") };
    assert_eq!(
        (object.kind, &*object.namespace, &*object.name),
        (ObjectKind::ConfigMap, "default", "settings")
    );
    assert_eq!(object.data["a"], b"x");
    assert_eq!(object.data["empty"], b"");
    assert_eq!(object.binary_data["b"], [0, 1]);
    assert!(object.immutable && object.line == 1);
}

#[test]
fn string_data_takes_precedence_over_data_of_a_secret() {
    let text = secret("data:\n  a: eA==\n  b: |\n    e\n    Q==\nstringData: {a: plain}\n");
    let [object] = &*objects(&text) else { panic!("one object") };
    assert_eq!(object.data["a"], b"plain");
    assert_eq!(object.data["b"], b"y");
    assert_eq!(object.secret_type, "Opaque");
}

#[test]
fn reads_objects_next_to_pods_in_documents_and_lists() {
    let text = format!("{}---\n{POD}---\n{}", config_map(""), secret(""));
    let manifest = read(text.as_bytes(), &FILE, &LOCAL).unwrap();
    let alone = read(POD.as_bytes(), &FILE, &LOCAL).unwrap();
    assert_eq!(
        manifest.pods[0].pod, alone.pods[0].pod,
        "objects in the same manifest must not change the pod"
    );
    let lines: Vec<_> = manifest.objects.iter().map(|object| (object.kind, object.line)).collect();
    assert_eq!(lines, [(ObjectKind::ConfigMap, 1), (ObjectKind::Secret, 14)]);

    let item = |text: &str| format!("- {}\n", text.trim_end().replace('\n', "\n  "));
    let list = format!(
        "apiVersion: v1\nkind: List\nitems:\n{}{}{}",
        item(&config_map("data: {a: b}\n")),
        item(POD),
        item(&secret(""))
    );
    let manifest = read(list.as_bytes(), &FILE, &LOCAL).unwrap();
    assert_eq!((manifest.pods.len(), manifest.objects.len()), (1, 2));
    assert_eq!(manifest.pods[0].pod, alone.pods[0].pod);
}

#[test]
fn unknown_fields_are_warnings() {
    let manifest = read(config_map("dataa: {}\n").as_bytes(), &FILE, &LOCAL).unwrap();
    assert_eq!(
        manifest.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["line 4: dataa: unknown field"]
    );
}

#[test]
fn rejects_invalid_objects_with_line_and_field() {
    let large = "x".repeat(600 * 1024);
    for (text, expected) in [
        (config_map("data: {a b: x}\n"), "line 4: data[a b]: Invalid value: \"a b\": "),
        (config_map("data: {..: x}\n"), "line 4: data[..]: Invalid value: \"..\": "),
        (config_map("data:\n  port: 8080\n"), "line 5: data.port: must be a string; quote the value"),
        (config_map("data: [a]\n"), "line 4: data: must map keys to strings"),
        (
            config_map("data: {a: x}\nbinaryData: {a: eA==}\n"),
            "line 4: data[a]: Invalid value: \"a\": duplicate of key present in binaryData",
        ),
        (
            config_map("binaryData: {a: 'no base64!'}\n"),
            "line 4: binaryData[a]: Invalid value: \"<contents redacted>\": must be base64; use data for plain text",
        ),
        (
            config_map(&format!("data: {{a: {large}, b: {large}}}\n")),
            "line 1: Too long: may not be more than 1048576 bytes",
        ),
        (
            secret(&format!("stringData: {{a: {large}, b: {large}}}\n")),
            "line 1: data: Too long: may not be more than 1048576 bytes",
        ),
        (config_map("immutable: maybe\n"), "line 4: immutable: invalid type"),
        ("apiVersion: v1\nkind: ConfigMap\n".to_owned(), "line 1: metadata.name: Required value"),
        (
            config_map("").replace("settings", "Not_Good"),
            "line 3: metadata.name: Invalid value: \"Not_Good\": ",
        ),
        (
            secret("type: kubernetes.io/tls\nstringData: {tls.crt: x}\n"),
            "line 1: data[tls.key]: Required value",
        ),
        (
            secret("type: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: hunter2}\n"),
            "line 1: data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": not a JSON object at line 1",
        ),
        (secret("type: kubernetes.io/ssh-auth\n"), "line 1: data[ssh-privatekey]: Required value"),
        (secret("type: kubernetes.io/basic-auth\n"), "line 1: data[username]: Required value"),
        (
            format!("{}---\n{}", config_map(""), config_map("")),
            "line 7: metadata.name: Duplicate value: \"settings\"",
        ),
    ] {
        let found = problems(&text);
        assert!(found.iter().any(|problem| problem.starts_with(expected)), "{expected}: {found:?}");
    }
}

#[test]
fn problems_never_contain_secret_values() {
    for rest in [
        "data: {a: hunter2!}\n",
        "data: {a: 4711}\n",
        "stringData: {a: [hunter2]}\n",
        "stringData: hunter2\n",
        "data: {a: {hunter2: 4711}}\n",
        "type: kubernetes.io/dockercfg\nstringData: {.dockercfg: hunter2}\n",
    ] {
        let found = problems(&secret(rest));
        assert!(!found.iter().any(|text| text.contains("hunter2") || text.contains("4711")), "{found:?}");
    }
}

#[test]
fn rejects_config_objects_on_a_node_with_an_api_server() {
    let found = read(config_map("").as_bytes(), &FILE, &ManifestRules::default()).unwrap_err();
    assert_eq!(
        found[0].to_string(),
        "line 2: kind: Unsupported value: \"ConfigMap\": supported values: \"Pod\", \"PodList\", \"List\""
    );
}

#[test]
fn allows_references_to_local_objects_only() {
    for (spec, is_allowed) in [
        ("    envFrom: [{configMapRef: {name: x}}, {secretRef: {name: z}}]\n", true),
        ("    env: [{name: A, valueFrom: {configMapKeyRef: {name: x, key: k}}}]\n", true),
        ("    env: [{name: A, valueFrom: {secretKeyRef: {name: x, key: k}}}]\n", true),
        ("  volumes: [{name: v, configMap: {name: x}}, {name: w, secret: {secretName: x}}]\n", true),
        (
            "  volumes: [{name: v, projected: {sources: [{configMap: {name: x}}, {secret: {name: z}}]}}]\n",
            true,
        ),
        ("  imagePullSecrets: [{name: x}]\n", true),
        ("  serviceAccountName: x\n", false),
        ("  volumes: [{name: v, persistentVolumeClaim: {claimName: x}}]\n", false),
        ("  volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}]\n", false),
        ("  volumes: [{name: v, csi: {driver: x, nodePublishSecretRef: {name: s}}}]\n", false),
    ] {
        let result = read(format!("{POD}{spec}").as_bytes(), &FILE, &LOCAL);
        assert_eq!(result.is_ok(), is_allowed, "{spec}: {result:?}");
        if let Err(found) = result {
            let text: Vec<_> = found.iter().map(ToString::to_string).collect();
            let reason = text.iter().find(|text| text.contains("static pods may not reference"));
            assert!(reason.is_some_and(|reason| reason.contains("no API server")), "{text:?}");
        }
    }
}
