//! Status of finished pods on both agents; `make compare-status` compares complete statuses.

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, Node, container, pod, podward_only, scenarios, with};
use serde_json::{Value, json};

scenarios!(termination_messages_are_reported);
podward_only!(hostile_message_file_exposes_no_other_file, events_command_shows_pod_events);

/// Termination message of a pod's only container.
async fn message(node: &Node, name: &str) -> Result<String> {
    node.wait_pod(name, "has failed", |pod| {
        pod.phase == "Failed" && pod.container("main").exit_code.is_some()
    })
    .await?;
    let pod = node.api_pod(name).await?;
    let statuses = pod.status.and_then(|status| status.container_statuses).unwrap_or_default();
    let ended = statuses.first().and_then(|status| status.state.clone()?.terminated);
    Ok(ended.context("the container has not ended")?.message.unwrap_or_default())
}

fn once(name: &str, steps: &str) -> Value {
    with(pod(name, [container("main", steps)]), "/spec/restartPolicy", json!("Never"))
}

async fn termination_messages_are_reported(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    node.write("file.yaml", &once("file", "write /dev/termination-log why -- exit 1"))?;
    let log = once("log", "print first -- warn last -- exit 1");
    let log = with(log, "/spec/containers/0/terminationMessagePolicy", json!("FallbackToLogsOnError"));
    node.write("log.yaml", &log)?;
    let silent = once("silent", "print nothing -- exit 1");
    node.write("silent.yaml", &silent)?;
    ensure!(message(&node, "file").await? == "why\n");
    let text = message(&node, "log").await?;
    ensure!(text.contains("first\n") && text.contains("last\n"), "{text:?}");
    ensure!(message(&node, "silent").await?.is_empty());
    Ok(())
}

/// A container that mounts the folder of the message files replaces its own with a link. Upstream follows it.
async fn hostile_message_file_exposes_no_other_file(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let root = node.agent.root().join("pods");
    let script = "for f in /pods/*/containers/main/*; do rm -f $f; ln -s /etc/passwd $f; done; exit 1";
    let mut manifest = once("hostile", "");
    manifest = with(
        manifest,
        "/spec/containers/0",
        json!({
            "name": "main", "image": testkit::images::BUSYBOX, "command": ["sh", "-c", script],
            "volumeMounts": [{"name": "pods", "mountPath": "/pods"}],
        }),
    );
    manifest = with(manifest, "/spec/volumes", json!([{"name": "pods", "hostPath": {"path": root}}]));
    node.write("hostile.yaml", &manifest)?;
    let text = message(&node, "hostile").await?;
    ensure!(text.starts_with("Error on reading termination log"), "{text}");
    ensure!(!text.contains("root:"), "{text}");
    Ok(())
}

async fn events_command_shows_pod_events(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    node.write("web.yaml", &scenarios::sleeper("web"))?;
    node.write("other.yaml", &scenarios::sleeper("other"))?;
    node.wait_running("web").await?;
    node.wait_running("other").await?;
    let ask = |arguments: &[&str]| -> Result<String> {
        let output = std::process::Command::new(Agent::Podward.program()?)
            .arg("events")
            .arg(format!("--server=127.0.0.1:{}", node.agent.ports().read_only))
            .args(arguments)
            .output()
            .context("start podward events")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let all = ask(&[])?;
    ensure!(all.starts_with("LAST SEEN"), "{all}");
    ensure!(all.contains("pod/web-node-a") && all.contains("pod/other-node-a"), "{all}");
    let one = ask(&["web-node-a"])?;
    ensure!(one.contains("Started") && !one.contains("other-node-a"), "{one}");
    let list: Value = serde_json::from_str(&ask(&["web-node-a", "-o", "json"])?)?;
    let reasons: Vec<&str> =
        list["items"].as_array().into_iter().flatten().filter_map(|item| item["reason"].as_str()).collect();
    for reason in ["Pulled", "Created", "Started"] {
        ensure!(reasons.contains(&reason), "{reason} is not in {reasons:?}");
    }
    Ok(())
}
