//! Tests of the public interface.

use super::*;

mod properties;

const FILE: ManifestSource<'_> =
    ManifestSource { node: "node-a", location: ManifestLocation::File("/etc/pods/web.yaml") };
const URL: ManifestSource<'_> =
    ManifestSource { node: "node-a", location: ManifestLocation::Url("http://example.com/pods") };
const WEB: &str = "apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: web
    image: nginx:1.25
";

fn pods(text: &str, source: &ManifestSource<'_>) -> Vec<StaticPod> {
    read(text.as_bytes(), source, &ManifestRules::default()).unwrap().pods
}

fn problems(text: &str) -> Vec<String> {
    let problems = read(text.as_bytes(), &FILE, &ManifestRules::default()).unwrap_err();
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn pod_from_a_file_gets_the_identity_of_a_static_pod() {
    let [StaticPod { pod, line: 1 }] = &*pods(WEB, &FILE) else { panic!("one pod on line 1") };
    let metadata = &pod.metadata;
    assert_eq!(metadata.name.as_deref(), Some("web-node-a"));
    assert_eq!(metadata.namespace.as_deref(), Some("default"));
    assert_eq!(
        metadata.annotations.as_ref().unwrap().get("kubernetes.io/config.hash"),
        metadata.uid.as_ref()
    );
    let spec = pod.spec.as_ref().unwrap();
    assert_eq!(spec.node_name.as_deref(), Some("node-a"));
    let [toleration] = &**spec.tolerations.as_ref().unwrap() else { panic!("one toleration") };
    assert_eq!(toleration.operator.as_deref(), Some("Exists"));
    assert_eq!(toleration.effect.as_deref(), Some("NoExecute"));
    assert_eq!(pod.status.as_ref().unwrap().phase.as_deref(), Some("Pending"));
}

#[test]
fn pod_from_a_url_gets_no_toleration() {
    let [StaticPod { pod, .. }] = &*pods(WEB, &URL) else { panic!("one pod") };
    assert_eq!(pod.spec.as_ref().unwrap().tolerations, None);
}

#[test]
fn keeps_uid_and_namespace_of_the_manifest() {
    let text = WEB.replace("  name: web\nspec", "  name: web\n  uid: my-uid\n  namespace: kube-system\nspec");
    let [StaticPod { pod, .. }] = &*pods(&text, &FILE) else { panic!("one pod") };
    assert_eq!(pod.metadata.uid.as_deref(), Some("my-uid"));
    assert_eq!(pod.metadata.namespace.as_deref(), Some("kube-system"));
}

#[test]
fn removes_the_time_limit_of_a_matching_toleration() {
    let text =
        format!("{WEB}  tolerations:\n  - {{operator: Exists, effect: NoExecute, tolerationSeconds: 5}}\n");
    let [StaticPod { pod, .. }] = &*pods(&text, &FILE) else { panic!("one pod") };
    let [toleration] = &**pod.spec.as_ref().unwrap().tolerations.as_ref().unwrap() else {
        panic!("one toleration")
    };
    assert_eq!(toleration.toleration_seconds, None);
}

#[test]
fn reads_several_documents_and_lists() {
    let second = WEB.replace("name: web", "name: two");
    let names = |text: &str| -> Vec<_> {
        pods(text, &FILE).into_iter().map(|pod| (pod.pod.metadata.name.unwrap(), pod.line)).collect()
    };
    assert_eq!(names(&format!("{WEB}---\n{second}")), [("web-node-a".into(), 1), ("two-node-a".into(), 10)]);
    let item = |text: &str| format!("- {}\n", text.trim_end().replace('\n', "\n  "));
    let list = format!("apiVersion: v1\nkind: List\nitems:\n{}{}", item(WEB), item(&second));
    assert_eq!(names(&list), [("web-node-a".into(), 4), ("two-node-a".into(), 12)]);
    let bare = list.replace("kind: List", "kind: PodList").replace("- apiVersion: v1\n  kind: Pod\n", "-\n");
    assert_eq!(names(&bare).len(), 2);
}

#[test]
fn reads_json() {
    let value = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"j"},
        "spec":{"containers":[{"name":"c","image":"i"}]},"status":{}}"#;
    assert_eq!(pods(value, &FILE).len(), 1);
}

#[test]
fn unknown_fields_are_warnings() {
    let text = WEB.replace("    image: nginx:1.25", "    image: nginx:1.25\n    imagee: x");
    let manifest = read(text.as_bytes(), &FILE, &ManifestRules::default()).unwrap();
    let warnings: Vec<_> = manifest.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings, ["line 9: spec.containers[0].imagee: unknown field"]);
    assert_eq!(manifest.pods.len(), 1);
}

#[test]
fn rejects_documents_that_are_not_pods() {
    for (text, expected) in [
        ("", "the manifest contains no object"),
        ("---\n# nothing\n", "the manifest contains no object"),
        ("just text", "line 1: not an object"),
        ("kind: Pod\n", "line 1: apiVersion: Required value"),
        ("apiVersion: v1\n", "line 1: kind: Required value"),
        ("apiVersion: v2\nkind: Pod\n", "line 1: apiVersion: Unsupported value: \"v2\""),
        ("apiVersion: v1\nkind: ConfigMap\n", "line 2: kind: Unsupported value: \"ConfigMap\""),
        ("apiVersion: apps/v1\nkind: Deployment\n", "line 2: kind: Unsupported value: \"Deployment\""),
        (
            "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Secret\n",
            "line 5: items[0].kind: Unsupp",
        ),
        ("apiVersion: v1\nkind: Pod\nspec:\n  hostPID: 7\n", "line 4: spec.hostPID: invalid type"),
        ("apiVersion: v1\nkind: Pod\n", "line 1: metadata.name: Required value"),
        ("a: [", "line "),
    ] {
        let found = problems(text);
        assert!(found.iter().any(|problem| problem.starts_with(expected)), "{text:?}: {found:?}");
    }
}

#[test]
fn reports_the_problems_of_every_document() {
    let bad = "apiVersion: v1\nkind: Pod\nspec: {containers: 7}\n";
    let found = problems(&format!("{bad}---\n{WEB}---\n{bad}"));
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn converts_quantities_to_canonical_form() {
    let text = format!("{WEB}    resources: {{limits: {{cpu: 1000m, memory: 1024Mi}}}}\n");
    let [StaticPod { pod, .. }] = &*pods(&text, &FILE) else { panic!("one pod") };
    let json = serde_json::to_value(pod).unwrap();
    assert_eq!(
        json["spec"]["containers"][0]["resources"]["requests"],
        serde_json::json!({"cpu": "1", "memory": "1Gi"})
    );
}

#[test]
fn reports_path_of_a_malformed_quantity() {
    let text = format!("{WEB}    resources:\n      limits:\n        cpu: lots\n");
    assert_eq!(problems(&text).len(), 1);
    assert!(
        problems(&text)[0]
            .starts_with("line 11: spec.containers[0].resources.limits[cpu]: Invalid value: \"lots\"")
    );
}

#[test]
fn rejects_references_to_api_objects() {
    let with = |spec: &str| format!("{WEB}{spec}");
    for (spec, expected) in [
        (
            "  serviceAccountName: x\n",
            "line 9: spec.serviceAccountName: Forbidden: static pods may not reference serviceaccounts",
        ),
        (
            "  serviceAccount: x\n",
            "line 5: spec.serviceAccountName: Forbidden: static pods may not reference serviceaccounts",
        ),
        (
            "  imagePullSecrets: [{name: x}]\n",
            "line 9: spec.imagePullSecrets[0]: Forbidden: static pods may not reference secrets",
        ),
        (
            "    envFrom: [{configMapRef: {name: x}}]\n",
            "line 9: spec.containers[0].envFrom[0].configMapRef: Forbidden: static pods may not reference configmaps",
        ),
        (
            "  volumes: [{name: v, configMap: {name: x}}]\n",
            "line 9: spec.volumes[0].configMap: Forbidden: static pods may not reference configmaps (via configmap volumes)",
        ),
        (
            "  volumes: [{name: v, secret: {secretName: x}}]\n",
            "line 9: spec.volumes[0].secret: Forbidden: static pods may not reference secrets (via secret volumes)",
        ),
        (
            "  volumes: [{name: v, persistentVolumeClaim: {claimName: x}}]\n",
            "line 9: spec.volumes[0].persistentVolumeClaim: Forbidden: static pods may not reference persistentvolumeclaims",
        ),
        (
            "  volumes: [{name: v, csi: {driver: x}}]\n",
            "line 9: spec.volumes[0].csi: Forbidden: static pods may not reference csidrivers (via CSI volumes)",
        ),
        (
            "  resourceClaims: [{name: x, resourceClaimName: other}]\n",
            "line 9: spec.resourceClaims[0]: Forbidden: static pods may not reference resourceclaims",
        ),
    ] {
        assert_eq!(problems(&with(spec)), [expected]);
        let without_gate = ManifestRules { prevent_api_references: false, ..ManifestRules::default() };
        let is_allowed = read(with(spec).as_bytes(), &FILE, &without_gate).is_ok();
        assert_eq!(is_allowed, !spec.contains("resourceClaims"), "{spec}");
    }
}

#[test]
fn reports_problems_in_the_order_of_the_text() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: A\nspec:\n  containers:\n  - image: i\n  volumes:\n  - name: B\n";
    let lines: Vec<_> =
        problems(text).iter().map(|problem| problem.split(':').next().unwrap().to_owned()).collect();
    assert_eq!(lines, ["line 4", "line 7", "line 9"]);
}

/// Compares UIDs with those recorded from upstream.
#[test]
fn static_pod_uids_equal_upstream() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/static_uid");
    let table = std::fs::read_to_string(dir.join("uids.txt")).unwrap();
    let mut count = 0;
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let [name, node, source, uid] = *line.split(' ').collect::<Vec<_>>() else { panic!("{line}") };
        let location = if source.starts_with("http") {
            ManifestLocation::Url(source)
        } else {
            ManifestLocation::File(source)
        };
        let text = std::fs::read(dir.join(name)).unwrap();
        let without_gate = ManifestRules { prevent_api_references: false, ..ManifestRules::default() };
        // Upstream hashes some manifests before it rejects them; those produce no pod.
        let Ok(manifest) = read(&text, &ManifestSource { node, location }, &without_gate) else { continue };
        assert_eq!(manifest.pods[0].pod.metadata.uid.as_deref(), Some(uid), "{line}");
        count += 1;
    }
    assert!(count > 60, "{count} of {} checked", table.lines().count());
}
