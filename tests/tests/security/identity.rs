//! Users, groups and capabilities as a process sees them.

use anyhow::{Result, ensure};
use scenarios::{Agent, Node, container, pod, scenarios, with};
use serde_json::json;

use crate::{line, waiting};

scenarios!(
    processes_have_users_and_groups_of_the_pod,
    capabilities_are_added_and_dropped,
    run_as_non_root_rejects_root
);

async fn processes_have_users_and_groups_of_the_pod(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let own = with(
        container("own", "id -- sleep forever"),
        "/securityContext",
        json!({"runAsUser": 1001, "runAsGroup": 2001}),
    );
    let manifest = pod("web", [container("main", "id -- sleep forever"), own]);
    let context =
        json!({"runAsUser": 1000, "runAsGroup": 2000, "fsGroup": 3000, "supplementalGroups": [4000]});
    node.write("web.json", &with(manifest, "/spec/securityContext", context))?;
    node.wait_running("web").await?;
    for (name, user, group) in [("main", "1000", "2000"), ("own", "1001", "2001")] {
        let log = node.log("web", name).await?;
        ensure!(line(&log, "Uid")?.starts_with(user), "{name}: {}", line(&log, "Uid")?);
        ensure!(line(&log, "Gid")?.starts_with(group), "{name}: {}", line(&log, "Gid")?);
        let groups: Vec<&str> = line(&log, "Groups")?.split_whitespace().collect();
        ensure!(["3000", "4000"].iter().all(|group| groups.contains(group)), "{name}: {groups:?}");
        ensure!(line(&log, "CapEff")? == "0000000000000000", "{name}: {}", line(&log, "CapEff")?);
    }
    Ok(())
}

async fn capabilities_are_added_and_dropped(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let with_context =
        |name: &str, context| with(container(name, "id -- sleep forever"), "/securityContext", context);
    let one =
        json!({"capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]}, "allowPrivilegeEscalation": false});
    let manifest = pod(
        "web",
        [
            with_context("one", one),
            with_context("usual", json!({})),
            with_context("all", json!({"privileged": true})),
        ],
    );
    node.write("web.json", &manifest)?;
    node.wait_running("web").await?;
    let one = node.log("web", "one").await?;
    ensure!(line(&one, "CapEff")? == "0000000000001000", "{}", line(&one, "CapEff")?);
    ensure!(line(&one, "NoNewPrivs")? == "1", "{}", line(&one, "NoNewPrivs")?);
    let usual = node.log("web", "usual").await?;
    ensure!(line(&usual, "CapEff")? == "00000000a80425fb", "{}", line(&usual, "CapEff")?);
    ensure!(line(&usual, "NoNewPrivs")? == "0", "{}", line(&usual, "NoNewPrivs")?);
    let all = node.log("web", "all").await?;
    let own = std::fs::read_to_string("/proc/self/status")?;
    ensure!(line(&all, "CapEff")? == line(&own, "CapBnd")?, "{}", line(&all, "CapEff")?);
    Ok(())
}

async fn run_as_non_root_rejects_root(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let with_context =
        |name: &str, context| with(container(name, "sleep forever"), "/securityContext", context);
    let manifest = pod(
        "web",
        [
            with_context("image", json!({})),
            with_context("asked", json!({"runAsUser": 0})),
            with_context("fine", json!({"runAsUser": 1000})),
        ],
    );
    let manifest = with(manifest, "/spec/securityContext", json!({"runAsNonRoot": true}));
    node.write("web.json", &manifest)?;
    let pod = node
        .wait_pod("web", "says why", |pod| {
            pod.container("fine").state == "running"
                && ["image", "asked"]
                    .iter()
                    .all(|name| pod.container(name).reason == "CreateContainerConfigError")
        })
        .await?;
    let named =
        |container: &str| format!("(pod: \"web-node-a_default({})\", container: {container})", pod.uid);
    let (_, message) = waiting(&node, "web", "image").await?;
    let expected = format!("container has runAsNonRoot and image will run as root {}", named("image"));
    ensure!(message == expected, "{message}");
    let (_, message) = waiting(&node, "web", "asked").await?;
    let expected = format!("container's runAsUser breaks non-root policy {}", named("asked"));
    ensure!(message == expected, "{message}");
    Ok(())
}
