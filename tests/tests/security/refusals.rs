//! Invalid input in one pod: reported on that pod, without effect on others.

use anyhow::{Result, ensure};
use scenarios::{Agent, Node, podward_only, sleeper, with};
use serde_json::{Value, json};
use testkit::poll::eventually;

podward_only!(rejections_create_events_with_the_cause, missing_runtime_handler_is_reported_and_retried);

async fn events(node: &Node) -> Result<String> {
    node.agent.page("/podward/events").await
}

async fn wait_event(node: &Node, arguments: &[&str]) -> Result<()> {
    eventually(&format!("an event reports {arguments:?}"), std::time::Duration::from_secs(30), async || {
        let all = events(node).await?;
        let list: Value = serde_json::from_str(&all)?;
        let items = list.as_array().or_else(|| list["items"].as_array()).cloned().unwrap_or_default();
        let found = items.iter().any(|event| {
            let text = event.to_string();
            arguments.iter().all(|word| text.contains(&word.replace('"', "\\\"")))
        });
        ensure!(found, "not among {all}");
        Ok(())
    })
    .await
}

async fn rejections_create_events_with_the_cause(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    node.write("good.json", &sleeper("good"))?;
    let context = |name: &str, value: Value| with(sleeper(name), "/spec/securityContext", value);
    let cases = [
        (
            context("sysctl", json!({"sysctls": [{"name": "kernel.msgmax", "value": "1"}]})),
            vec![
                "sysctl-node-a",
                "Warning",
                "SysctlForbidden",
                "forbidden sysctl: \"kernel.msgmax\" not allowlisted",
            ],
        ),
        (
            context("strict", json!({"supplementalGroupsPolicy": "Strict"})),
            vec!["strict-node-a", "SupplementalGroupsPolicyNotSupported", "SupplementalGroupsPolicy=Strict"],
        ),
        (
            context("apparmor", json!({"appArmorProfile": {"type": "RuntimeDefault"}})),
            vec!["apparmor-node-a", "AppArmor", "Cannot enforce AppArmor"],
        ),
        (
            context("root", json!({"runAsNonRoot": true})),
            vec!["root-node-a", "Failed", "Error: container has runAsNonRoot", "container: main"],
        ),
        (
            with(sleeper("users"), "/spec/hostUsers", json!(false)),
            vec!["users-node-a", "FailedCreatePodSandBox", "spec.hostUsers: false"],
        ),
    ];
    for (index, (manifest, _)) in cases.iter().enumerate() {
        node.write(&format!("bad-{index}.json"), manifest)?;
    }
    for (_, arguments) in &cases {
        wait_event(&node, arguments).await?;
    }
    let good = node.wait_running("good").await?;
    ensure!(good.container("main").restarts == 0, "{good:?}");
    Ok(())
}

async fn missing_runtime_handler_is_reported_and_retried(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    node.write("kata.json", &with(sleeper("kata"), "/spec/runtimeClassName", json!("kata")))?;
    node.write("good.json", &sleeper("good"))?;
    wait_event(
        &node,
        &["kata-node-a", "FailedCreatePodSandBox", "runtimeclass.node.k8s.io \"kata\" not found"],
    )
    .await?;
    node.wait_running("good").await?;
    ensure!(node.cri().sandboxes_of("kata-node-a").await?.is_empty(), "it runs without its class");
    ensure!(node.pod("kata").await?.phase == "Pending", "{:?}", node.pod("kata").await?);
    Ok(())
}
