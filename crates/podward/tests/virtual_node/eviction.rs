//! Eviction under pressure and by storage limits.

use decide::eviction::{EvictionSettings, Signal, Threshold, ThresholdValue};
use serde_json::{Value as Json, json};
use testkit::poll::eventually;

use crate::cluster::Cluster;
use crate::node::{TIMEOUT, VirtualNode, pod};

fn node() -> (VirtualNode, Cluster) {
    let (mut node, cluster) = (VirtualNode::new(), Cluster::default());
    node.cluster = Some(cluster.clone());
    (node, cluster)
}

/// A pod of the API server.
fn scheduled(name: &str, priority: i32) -> Json {
    let mut pod = pod(name, name, &["main"]);
    pod["metadata"]["namespace"] = json!("default");
    let spec = &mut pod["spec"];
    spec["nodeName"] = json!("node");
    spec["priority"] = json!(priority);
    spec["enableServiceLinks"] = json!(false);
    spec["restartPolicy"] = json!("Always");
    pod
}

async fn until_shown(cluster: &Cluster, node: &VirtualNode, name: &str, phase: &str) -> Json {
    let question = || async {
        let pod = cluster.pods.pod(name).unwrap_or_default();
        anyhow::ensure!(pod["status"]["phase"] == phase, "the pod is {}", pod["status"]);
        Ok(pod["status"].clone())
    };
    let found = eventually(&format!("{name} is {phase}"), TIMEOUT, question).await;
    found.unwrap_or_else(|error| panic!("{error:#}\n{}", node.describe()))
}

#[tokio::test]
async fn pressure_evicts_a_pod_and_spares_critical_ones() {
    let (mut node, cluster) = node();
    node.start_agent();
    node.write("fixed.json", &pod("fixed", "uid-fixed", &["main"]));
    cluster.pods.put(scheduled("plain", 0));
    cluster.pods.put(scheduled("critical", 2_000_000_000));
    node.until_running("uid-fixed").await;
    for name in ["plain", "critical"] {
        until_shown(&cluster, &node, name, "Running").await;
    }
    // More process IDs than any machine has.
    let value = ThresholdValue::parse("1G").unwrap();
    let threshold =
        Threshold { signal: Signal::PidAvailable, value, grace: Default::default(), min_reclaim: None };
    node.kill_agent().await;
    node.eviction =
        EvictionSettings { thresholds: vec![threshold], transition: TIMEOUT, ..EvictionSettings::default() };
    node.start_agent();

    let status = until_shown(&cluster, &node, "plain", "Failed").await;
    assert_eq!(status["reason"], "Evicted", "{status}");
    let message = status["message"].as_str().unwrap();
    let beginning = "The node was low on resource: pids. Threshold quantity: 1G, available: ";
    assert!(message.starts_with(beginning), "{message}");
    let conditions = status["conditions"].as_array().unwrap();
    let disrupted = conditions.iter().find(|own| own["type"] == "DisruptionTarget").unwrap();
    assert_eq!(
        (&disrupted["status"], &disrupted["reason"]),
        (&json!("True"), &json!("TerminationByKubelet"))
    );
    assert_eq!(disrupted["message"], message);
    node.until("nothing of the evicted pod is left", |state| {
        state.containers().all(|container| container.pod_uid != "plain")
    })
    .await;

    let question = || async {
        anyhow::ensure!(cluster.has_condition("PIDPressure"), "no condition");
        let evicted = cluster.events("Evicted");
        anyhow::ensure!(
            !evicted.is_empty() && !cluster.events("EvictionThresholdMet").is_empty(),
            "no events"
        );
        assert_eq!(
            (evicted[0].message.as_str(), &*evicted[0].annotations["starved_resource"]),
            (message, "pids")
        );
        Ok(())
    };
    eventually("the event is recorded", TIMEOUT, question).await.unwrap();
    // New pods are rejected, critical pods keep running.
    cluster.pods.put(scheduled("late", 0));
    let status = until_shown(&cluster, &node, "late", "Failed").await;
    assert_eq!(status["message"], "Pod was rejected: The node had condition: [PIDPressure]. ");
    for name in ["critical", "uid-fixed"] {
        node.until_running(name).await;
    }
    assert_eq!(node.containers("critical").len(), 1, "it was not restarted");
    node.assert_no_violations();
}

#[tokio::test]
async fn storage_limits_evict_pods() {
    let (mut node, cluster) = node();
    node.eviction = EvictionSettings { local_storage: true, ..EvictionSettings::default() };
    node.start_agent();
    let limited = |name: &str| {
        let mut pod = scheduled(name, 0);
        pod["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {"sizeLimit": "64Ki"}}]);
        pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
        pod
    };
    for name in ["full", "fits"] {
        cluster.pods.put(limited(name));
        until_shown(&cluster, &node, name, "Running").await;
    }
    let volume =
        |name: &str| node.path("root/pods").join(name).join("volumes/kubernetes.io~empty-dir/v/file");
    std::fs::write(volume("full"), vec![1; 256 << 10]).unwrap();
    std::fs::write(volume("fits"), vec![1; 1 << 10]).unwrap();
    let status = until_shown(&cluster, &node, "full", "Failed").await;
    assert_eq!(
        (&status["reason"], &status["message"]),
        (&json!("Evicted"), &json!("Usage of EmptyDir volume \"v\" exceeds the limit \"64Ki\". "),)
    );
    let conditions = status["conditions"].as_array().unwrap();
    assert!(conditions.iter().all(|own| own["type"] != "DisruptionTarget"), "nobody else needs its room");
    assert_eq!(cluster.pods.pod("fits").unwrap()["status"]["phase"], "Running");
}
