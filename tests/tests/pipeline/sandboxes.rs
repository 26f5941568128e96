//! Recreation of a pod's sandbox, and the namespaces that it shares with the host.

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use scenarios::{Agent, Node, container, pod, scenarios, sleeper, with};
use serde_json::json;

scenarios!(
    killed_sandbox_is_recreated,
    finished_pod_has_its_sandbox_stopped,
    host_network_pod_uses_host_names,
    failed_container_start_is_reported
);

async fn killed_sandbox_is_recreated(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    node.write("web.json", &sleeper("web"))?;
    node.write("other.json", &sleeper("other"))?;
    let before = node.wait_running("web").await?;
    let other = node.wait_running("other").await?;
    let old = node.only_running("web").await?;
    let pid = node.cri().sandbox_info(&old.sandbox).await?["pid"].as_u64().context("pid of the sandbox")?;
    testkit::instance::kill(u32::try_from(pid)?, Signal::KILL)?;
    let after = node
        .wait_pod("web", "runs in a new sandbox", |pod| {
            pod.all_running() && pod.container("main").restarts == 1
        })
        .await?;
    ensure!(after.uid == before.uid, "{after:?}");
    let new = node.only_running("web").await?;
    ensure!(new.sandbox != old.sandbox && new.attempt == 1, "{new:?}");
    let sandboxes = node.cri().sandboxes_of("web-node-a").await?;
    let ready: Vec<_> = sandboxes.iter().filter(|sandbox| sandbox.ready).collect();
    ensure!(ready.len() == 1 && ready.iter().all(|sandbox| sandbox.attempt == 1), "{sandboxes:?}");
    ensure!(node.pod("other").await? == other, "the other pod changed");
    Ok(())
}

async fn finished_pod_has_its_sandbox_stopped(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let manifest = pod("job", [container("main", "print done")]);
    node.write("job.json", &with(manifest, "/spec/restartPolicy", json!("Never")))?;
    node.wait_pod("job", "succeeds", |pod| pod.phase == "Succeeded").await?;
    testkit::poll::eventually("sandbox stopped", std::time::Duration::from_secs(30), async || {
        let sandboxes = node.cri().sandboxes_of("job-node-a").await?;
        ensure!(sandboxes.iter().all(|sandbox| !sandbox.ready), "still ready");
        Ok(())
    })
    .await?;
    ensure!(node.log("job", "main").await? == "done\n", "the log went with the sandbox");
    Ok(())
}

async fn host_network_pod_uses_host_names(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let manifest = pod("web", [container("main", "hostname -- sleep forever")]);
    node.write("web.json", &with(manifest, "/spec/hostNetwork", json!(true)))?;
    let pod = node.wait_running("web").await?;
    ensure!(!pod.ip.starts_with(&node.runtime.instance().subnet()), "pod IP {}", pod.ip);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")?;
    ensure!(node.log("web", "main").await? == host, "host name {}", node.log("web", "main").await?);
    Ok(())
}

async fn failed_container_start_is_reported(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let broken = with(container("bad", ""), "/command", json!(["/no/such/program"]));
    node.write("web.json", &pod("web", [container("good", "sleep forever"), broken]))?;
    let pod = node
        .wait_pod("web", "backs off", |pod| {
            pod.container("bad").reason == "CrashLoopBackOff" && pod.container("bad").restarts >= 1
        })
        .await?;
    ensure!(pod.container("bad").exit_code == Some(128), "{pod:?}");
    ensure!(pod.container("good").state == "running" && pod.container("good").restarts == 0, "{pod:?}");
    Ok(())
}
