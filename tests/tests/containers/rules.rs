use std::time::Duration;

use anyhow::{Result, ensure};
use scenarios::{Agent, Node, scenarios, with};
use serde_json::{Value, json};

use crate::diary::{Diary, init_status, plus, sh, writer};

scenarios!(restart_rule_matches_exit_code, restart_all_restarts_the_pod_in_the_same_sandbox);

fn rule(action: &str, operator: &str, code: i32) -> Value {
    json!({"restartPolicy": "Never", "restartPolicyRules": [
        {"action": action, "exitCodes": {"operator": operator, "values": [code]}}]})
}

async fn restart_rule_matches_exit_code(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let diary = Diary::new(&node, "job")?;
    let main = sh("main", "echo try >> /d/diary; if mkdir /d/once; then exit 42; fi; exit 5");
    let manifest = diary.pod("job", [], [plus(main, &rule("Restart", "In", 42))]);
    node.write("job.json", &with(manifest, "/spec/restartPolicy", json!("Never")))?;
    let pod = node.wait_pod("job", "fails", |pod| pod.phase == "Failed").await?;
    let main = pod.container("main");
    ensure!(main.restarts == 1 && main.exit_code == Some(5), "{pod:?}");
    diary.wait(&["try", "try"]).await
}

async fn restart_all_restarts_the_pod_in_the_same_sandbox(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let diary = Diary::new(&node, "web")?;
    let init = [sh("init", "echo init >> /d/diary")];
    let cause = sh("cause", "if mkdir /d/once; then sleep 2; exit 42; fi; sleep 1000");
    let manifest =
        diary.pod("web", init, [plus(cause, &rule("RestartAllContainers", "In", 42)), writer("other")]);
    node.write("web.json", &with(manifest, "/spec/restartPolicy", json!("Never")))?;
    node.wait_running("web").await?;
    let sandboxes = node.cri().sandboxes_of("web-node-a").await?;
    let pod = node
        .wait_pod("web", "runs again", |pod| {
            pod.all_running() && ["cause", "other"].iter().all(|name| pod.container(name).restarts == 1)
        })
        .await?;
    let lines = diary.lines();
    let starts = |what: &str| lines.iter().filter(|line| *line == what).count();
    ensure!(starts("init") == 2 && starts("other") == 2, "{lines:?}, {pod:?}");
    ensure!(init_status(&node, "web", "init").await?.restart_count == 1);
    let after = node.cri().sandboxes_of("web-node-a").await?;
    ensure!(
        after.iter().map(|one| &one.id).eq(sandboxes.iter().map(|one| &one.id)),
        "{sandboxes:?}\n{after:?}"
    );
    tokio::time::sleep(Duration::from_secs(2)).await;
    ensure!(node.pod("web").await?.container("other").restarts == 1);
    Ok(())
}
