//! Init containers, sidecars, restarts and readiness, as reported to the API server.

use anyhow::{Result, ensure};
use scenarios::{Agent, ClusterNode, condition, container, pod, scenarios, with};
use serde_json::{Value, json};
use testkit::images::{BUSYBOX, DEMO_2};

scenarios!(
    reports_init_containers_and_sidecars,
    crashing_container_is_restarted_and_reported,
    replaced_container_is_never_reported_as_terminated,
    readiness_is_reported
);

fn sh(name: &str, script: &str) -> Value {
    json!({"name": name, "image": BUSYBOX, "command": ["/bin/sh", "-c", script]})
}

async fn reports_init_containers_and_sidecars(agent: Agent) -> Result<()> {
    let mut node = ClusterNode::start(agent).await?;
    let mut side = container("side", "sleep forever");
    side["restartPolicy"] = json!("Always");
    let init = json!([sh("first", "sleep 1"), side, sh("second", "true")]);
    node.apply(&with(pod("web", [container("main", "sleep forever")]), "/spec/initContainers", init)).await?;
    node.kubectl(&["wait", "--for=condition=Ready", "pod/web", "--timeout=60s"]).await?;
    let object = node.get(&["pod", "web"]).await?;
    ensure!(condition(&object, "Initialized") == "True", "{}", object["status"]);
    let statuses = &object["status"]["initContainerStatuses"];
    ensure!(statuses[0]["state"]["terminated"]["exitCode"] == 0, "{statuses}");
    ensure!(statuses[1]["started"] == true && statuses[1]["ready"] == true, "{statuses}");
    ensure!(statuses[2]["state"]["terminated"]["exitCode"] == 0, "{statuses}");
    node.restart_agent_unseen().await?;
    // A pod whose regular containers have exited does not wait for its sidecar.
    let mut side = container("side", "sleep forever");
    side["restartPolicy"] = json!("Always");
    let job = with(pod("job", [sh("main", "sleep 1")]), "/spec/initContainers", json!([side]));
    node.apply(&with(job, "/spec/restartPolicy", json!("Never"))).await?;
    node.wait_pod("job", "succeeds", |pod| pod.phase == "Succeeded").await?;
    node.end()
}

async fn crashing_container_is_restarted_and_reported(agent: Agent) -> Result<()> {
    let node = ClusterNode::start(agent).await?;
    node.apply(&pod("web", [container("main", "exit 3 --after 1")])).await?;
    let again = node.wait_pod("web", "was restarted", |pod| pod.container("main").restarts >= 1).await?;
    ensure!(again.container("main").exit_code == Some(3), "{again:?}");
    node.wait_pod("web", "backs off", |pod| pod.container("main").reason == "CrashLoopBackOff").await?;
    node.end()
}

/// An image update and a failed liveness probe, under policies that do not restart a container that exits with 0.
async fn replaced_container_is_never_reported_as_terminated(agent: Agent) -> Result<()> {
    let node = ClusterNode::start(agent).await?;
    let folder = node.containerd.instance().path("health");
    std::fs::create_dir_all(&folder)?;
    let updated = pod("updated", [container("main", "sleep forever --exit 0")]);
    node.apply(&with(updated, "/spec/restartPolicy", json!("Never"))).await?;
    let mut main = sh("main", "trap 'exit 0' TERM; while true; do sleep 1 & wait $!; done");
    let check = "test ! -e /health/bad || { printf 'first line\\nsecond line\\n'; false; }";
    main["livenessProbe"] = json!({"exec": {"command": ["/bin/sh", "-c", check]}, "periodSeconds": 1});
    main["volumeMounts"] = json!([{"name": "health", "mountPath": "/health"}]);
    let volumes = json!([{"name": "health", "hostPath": {"path": folder}}]);
    let failing = with(pod("failing", [main]), "/spec/volumes", volumes);
    node.apply(&with(failing, "/spec/restartPolicy", json!("OnFailure"))).await?;
    for name in ["updated", "failing"] {
        node.wait_running(name).await?;
    }
    node.kubectl(&["set", "image", "pod/updated", &format!("main={DEMO_2}")]).await?;
    std::fs::write(folder.join("bad"), "")?;
    for name in ["failing", "updated"] {
        let restarted = |pod: &scenarios::PodView| pod.container("main").restarts == 1 && pod.all_running();
        let pod = node.wait_pod(name, "runs again", restarted).await?;
        if name == "failing" {
            std::fs::remove_file(folder.join("bad"))?;
        }
        ensure!(pod.container("main").exit_code == Some(0), "the container was killed: {pod:?}");
    }
    for write in node.status_writes()? {
        let status = &write.body["status"];
        let ended = status["containerStatuses"].as_array().into_iter().flatten();
        let ended = ended.filter(|container| container["state"]["terminated"].is_object()).count();
        let is_terminal = status["phase"] == "Succeeded" || status["phase"] == "Failed";
        ensure!(ended == 0 && !is_terminal, "{} was reported as {status}", write.name);
    }
    node.end()
}

async fn readiness_is_reported(agent: Agent) -> Result<()> {
    let mut node = ClusterNode::start(agent).await?;
    let folder = node.containerd.instance().path("health");
    std::fs::create_dir_all(&folder)?;
    let mut main = sh("main", "sleep 100000");
    main["readinessProbe"] = json!({"exec": {"command": ["test", "-e", "/health/good"]}, "periodSeconds": 1});
    main["volumeMounts"] = json!([{"name": "health", "mountPath": "/health"}]);
    let volumes = json!([{"name": "health", "hostPath": {"path": folder}}]);
    node.apply(&with(pod("web", [main]), "/spec/volumes", volumes)).await?;
    node.wait_running("web").await?;
    ensure!(condition(&node.get(&["pod", "web"]).await?, "Ready") == "False", "ready too early");
    std::fs::write(folder.join("good"), "")?;
    node.kubectl(&["wait", "--for=condition=Ready", "pod/web", "--timeout=60s"]).await?;
    if agent == Agent::Podward {
        // The upstream kubelet loses its probe results and briefly removes the pod from its services.
        node.restart_agent_unseen().await?;
    }
    std::fs::remove_file(folder.join("good"))?;
    node.kubectl(&["wait", "--for=condition=Ready=false", "pod/web", "--timeout=60s"]).await?;
    node.end()
}
