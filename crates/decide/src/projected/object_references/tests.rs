use serde_json::json;

use super::*;
use crate::test_objects::pod;

fn names(keys: BTreeSet<ObjectKey>) -> Vec<String> {
    keys.into_iter().map(|key| key.to_string()).collect()
}

fn everything() -> Pod {
    pod(json!({
        "imagePullSecrets": [{"name": "registry"}, {"name": ""}],
        "initContainers": [{"name": "i", "envFrom": [{"configMapRef": {"name": "init"}}]}],
        "containers": [
            {
                "name": "a",
                "envFrom": [{"secretRef": {"name": "bulk"}}],
                "env": [
                    {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "one", "key": "k"}}},
                    {"name": "B", "valueFrom": {"secretKeyRef": {"name": "one", "key": "k"}}},
                ],
                "volumeMounts": [{"name": "all", "mountPath": "/x"}],
            },
            {"name": "b", "volumeMounts": [{"name": "plain", "mountPath": "/x"}]},
        ],
        "volumes": [
            {"name": "plain", "configMap": {"name": "files"}},
            {"name": "keys", "secret": {"secretName": "keys"}},
            {"name": "all", "projected": {"sources": [
                {"configMap": {"name": "part"}}, {"secret": {"name": "part"}}, {"downwardAPI": {}},
            ]}},
        ],
    }))
}

#[test]
fn finds_every_reference_of_a_pod() {
    assert_eq!(
        names(object_references(&everything())),
        [
            "configmap default/files",
            "configmap default/init",
            "configmap default/one",
            "configmap default/part",
            "secret default/bulk",
            "secret default/keys",
            "secret default/one",
            "secret default/part",
            "secret default/registry",
        ]
    );
}

#[test]
fn container_references_cover_environment_and_mounts() {
    let pod = everything();
    let of = |index: usize| names(container_references(&pod, &pod.spec.containers[index]));
    assert_eq!(
        of(0),
        [
            "configmap default/one",
            "configmap default/part",
            "secret default/bulk",
            "secret default/one",
            "secret default/part"
        ]
    );
    assert_eq!(of(1), ["configmap default/files"]);
}
