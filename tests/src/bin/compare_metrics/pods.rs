//! The pods that both agents run.

use scenarios::{container, pod, sleeper, with};
use serde_json::{Value, json};

/// Names and manifests; `folder` is the node's folder.
pub(crate) fn all(folder: &str) -> Vec<(&'static str, Value)> {
    vec![
        (
            "burner",
            // Runs at its limit all the time, so that its CPU time depends on nothing but its age. The second container
            // leaves the pod without a limit: of two equal quotas, the kernel enforces now this one and now that one.
            with(
                pod("burner", [container("main", "burn 100"), container("idle", "sleep forever")]),
                "/spec/containers/0/resources",
                json!({
                    "requests": {"cpu": "100m", "memory": "20Mi"}, "limits": {"cpu": "400m", "memory": "64Mi"},
                }),
            ),
        ),
        (
            "holder",
            with(
                pod("holder", [container("main", "fill 40 -- sleep forever")]),
                "/spec/containers/0/resources",
                json!({
                    "requests": {"cpu": "50m", "memory": "100Mi"}, "limits": {"cpu": "50m", "memory": "100Mi"},
                }),
            ),
        ),
        ("server", pod("server", [container("web", "serve"), container("side", "sleep forever")])),
        ("host", with(sleeper("host"), "/spec/hostNetwork", json!(true))),
        ("volumes", volumes(folder)),
    ]
}

fn volumes(folder: &str) -> Value {
    let mut main = container(
        "main",
        "write /data/file kept -- write /memory/file kept -- write /own-layer kept -- sleep forever",
    );
    if let Some(main) = main.as_object_mut() {
        main.insert(
            "volumeMounts".into(),
            json!([
                {"name": "data", "mountPath": "/data"},
                {"name": "memory", "mountPath": "/memory"},
                {"name": "host", "mountPath": "/host"},
                {"name": "downward", "mountPath": "/downward"},
            ]),
        );
    }
    with(
        pod("volumes", [main]),
        "/spec/volumes",
        json!([
            {"name": "data", "emptyDir": {}},
            {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
            {"name": "host", "hostPath": {"path": folder}},
            {"name": "downward", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        ]),
    )
}
