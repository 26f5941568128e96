//! Typical workloads: each kind reaches its state, and a restart of the agent does not disturb it.

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, ClusterNode, PodView, container, scenarios};
use serde_json::{Value, json};
use testkit::images::{BUSYBOX, DEMO, DEMO_2};

scenarios!(
    kubectl_run_starts_a_pod,
    deployment_rolls_out_new_version,
    daemon_set_runs_one_pod_on_the_node,
    job_runs_to_completion,
    stateful_set_starts_pods_in_order
);

async fn kubectl_run_starts_a_pod(agent: Agent) -> Result<()> {
    let mut node = ClusterNode::start(agent).await?;
    node.kubectl(&["run", "web", "--image", DEMO, "--", "sleep", "forever"]).await?;
    node.kubectl(&["wait", "--for=condition=Ready", "pod/web", "--timeout=60s"]).await?;
    let pod = node.pod("web").await?;
    ensure!(!pod.ip.is_empty() && pod.container("main").restarts == 0, "{pod:?}");
    ensure!(node.running("web").await?.len() == 1, "not one container");
    node.restart_agent_unseen().await?;
    node.end()
}

fn template(name: &str, image: &str, arguments: &str) -> Value {
    let mut main = container("main", arguments);
    main["image"] = json!(image);
    json!({
        "metadata": {"labels": {"app": name}},
        "spec": {"terminationGracePeriodSeconds": 2, "containers": [main]},
    })
}

fn set(kind: &str, name: &str, replicas: i32, template: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "serviceName": name,
            "selector": {"matchLabels": {"app": name}}, "template": template,
        },
    })
}

fn without(mut object: Value, field: &str) -> Value {
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.remove(field);
    }
    object
}

async fn deployment_rolls_out_new_version(agent: Agent) -> Result<()> {
    let mut node = ClusterNode::start(agent).await?;
    let object = |image: &str| {
        without(set("Deployment", "web", 3, &template("web", image, "sleep forever")), "serviceName")
    };
    node.apply(&object(DEMO)).await?;
    node.kubectl(&["rollout", "status", "deployment/web", "--timeout=90s"]).await?;
    ensure!(node.pods("app=web").await?.iter().filter(|pod| pod.all_running()).count() == 3, "not three");
    node.restart_agent_unseen().await?;
    node.apply(&object(DEMO_2)).await?;
    node.kubectl(&["rollout", "status", "deployment/web", "--timeout=90s"]).await?;
    node.wait("only the new pods are left", async || {
        let pods = node.get(&["pods", "--selector", "app=web"]).await?;
        let items = pods["items"].as_array().context("items")?;
        ensure!(items.len() == 3, "{} pods", items.len());
        ensure!(items.iter().all(|pod| pod["spec"]["containers"][0]["image"] == DEMO_2), "old pods");
        Ok(())
    })
    .await?;
    node.kubectl(&["scale", "deployment/web", "--replicas=1"]).await?;
    node.wait("one pod is left", async || {
        let pods = node.get(&["pods", "--selector", "app=web"]).await?;
        ensure!(pods["items"].as_array().is_some_and(|items| items.len() == 1), "not one");
        Ok(())
    })
    .await?;
    node.end()
}

async fn daemon_set_runs_one_pod_on_the_node(agent: Agent) -> Result<()> {
    let mut node = ClusterNode::start(agent).await?;
    let object = set("DaemonSet", "agent", 0, &template("agent", DEMO, "sleep forever"));
    node.apply(&without(without(object, "replicas"), "serviceName")).await?;
    node.wait_field(&["daemonset", "agent"], "/status/numberReady", &json!(1)).await?;
    let [pod] = &node.pods("app=agent").await?[..] else { anyhow::bail!("not one pod") };
    ensure!(pod.all_running(), "{pod:?}");
    node.restart_agent_unseen().await?;
    node.end()
}

async fn job_runs_to_completion(agent: Agent) -> Result<()> {
    let mut node = ClusterNode::start(agent).await?;
    let main = json!({"name": "main", "image": BUSYBOX, "command": ["/bin/sh", "-c", "sleep 1; echo done"]});
    node.apply(&json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum"},
        "spec": {
            "completions": 3, "parallelism": 2,
            "template": {"spec": {"restartPolicy": "Never", "containers": [main]}},
        },
    }))
    .await?;
    node.kubectl(&["wait", "--for=condition=Complete", "job/sum", "--timeout=90s"]).await?;
    let pods = node.pods("job-name=sum").await?;
    ensure!(pods.len() == 3 && pods.iter().all(|pod| pod.phase == "Succeeded"), "{pods:?}");
    ensure!(pods.iter().all(|pod| pod.container("main").exit_code == Some(0)), "{pods:?}");
    node.restart_agent_unseen().await?;
    node.end()
}

async fn stateful_set_starts_pods_in_order(agent: Agent) -> Result<()> {
    let mut node = ClusterNode::start(agent).await?;
    node.apply(&set("StatefulSet", "db", 2, &template("db", DEMO, "sleep forever"))).await?;
    node.wait_field(&["statefulset", "db"], "/status/readyReplicas", &json!(2)).await?;
    let (first, second) = (node.pod("db-0").await?, node.pod("db-1").await?);
    ensure!(start(&first) <= start(&second), "{first:?} {second:?}");
    node.restart_agent_unseen().await?;
    node.kubectl(&["delete", "pod", "db-0", "--wait=false"]).await?;
    let uid = first.uid;
    node.wait_pod("db-0", "is replaced", |pod| pod.uid != uid && pod.all_running()).await?;
    node.end()
}

fn start(pod: &PodView) -> i64 {
    pod.container("main").started_at
}
