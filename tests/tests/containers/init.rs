use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, Node, scenarios, with};
use serde_json::json;
use testkit::poll::{eventually, throughout};

use crate::diary::{Diary, init_status, sh, writer};

scenarios!(
    init_containers_run_once_in_order,
    failed_init_container_is_retried_until_it_succeeds,
    failed_init_container_fails_pod_with_policy_never,
);

async fn init_containers_run_once_in_order(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let diary = Diary::new(&node, "web")?;
    let init = [
        sh("one", "echo one >> /d/diary; sleep 1; echo one-end >> /d/diary"),
        sh("two", "echo two >> /d/diary"),
    ];
    node.write("web.json", &diary.pod("web", init, [writer("main")]))?;
    node.wait_pod("web", "waits for its init containers", |pod| {
        pod.container("main").reason == "PodInitializing" && pod.phase == "Pending"
    })
    .await?;
    node.wait_running("web").await?;
    diary.wait(&["one", "one-end", "two", "main"]).await?;
    let main = node.only_running("web").await?;
    testkit::instance::kill(node.cri().pid(&main.id).await?, rustix::process::Signal::KILL)?;
    node.wait_pod("web", "restarts", |pod| pod.all_running() && pod.container("main").restarts == 1).await?;
    diary.wait(&["one", "one-end", "two", "main", "main"]).await?;
    for name in ["one", "two"] {
        let status = init_status(&node, "web", name).await?;
        let ended = status.state.unwrap_or_default().terminated.context("terminated")?;
        ensure!(status.ready && status.restart_count == 0 && ended.exit_code == 0, "{name}: {ended:?}");
    }
    Ok(())
}

async fn failed_init_container_is_retried_until_it_succeeds(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let mut diaries = Vec::new();
    for policy in ["Always", "OnFailure"] {
        let name = policy.to_lowercase();
        let diary = Diary::new(&node, &name)?;
        let init = [sh("init", "echo try >> /d/diary; test -e /d/ok")];
        let manifest = diary.pod(&name, init, [writer("main")]);
        node.write(&format!("{name}.json"), &with(manifest, "/spec/restartPolicy", json!(policy)))?;
        diaries.push((name, diary));
    }
    for (name, diary) in diaries {
        eventually("the init container backs off", Duration::from_secs(60), async || {
            let status = init_status(&node, &name, "init").await?;
            let reason = status.state.unwrap_or_default().waiting.and_then(|waiting| waiting.reason);
            ensure!(reason.as_deref() == Some("CrashLoopBackOff"), "{reason:?}");
            Ok(())
        })
        .await?;
        ensure!(node.pod(&name).await?.phase == "Pending");
        let tries = diary.lines();
        ensure!(tries.len() >= 2 && tries.iter().all(|line| line == "try"), "{tries:?}");
        diary.touch("ok")?;
        node.wait_running(&name).await?;
        let restarts = usize::try_from(init_status(&node, &name, "init").await?.restart_count)?;
        ensure!(restarts + 1 == diary.lines().iter().filter(|line| *line == "try").count());
    }
    Ok(())
}

async fn failed_init_container_fails_pod_with_policy_never(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let diary = Diary::new(&node, "job")?;
    let init = [sh("init", "echo try >> /d/diary; exit 3"), sh("next", "echo next >> /d/diary")];
    let manifest = diary.pod("job", init, [writer("main")]);
    node.write("job.json", &with(manifest, "/spec/restartPolicy", json!("Never")))?;
    node.wait_pod("job", "fails", |pod| pod.phase == "Failed").await?;
    throughout("nothing else is started", Duration::from_secs(3), async || {
        ensure!(diary.lines() == ["try"], "{:?}", diary.lines());
        let pod = node.pod("job").await?;
        ensure!(pod.phase == "Failed" && pod.container("main").state == "waiting", "{pod:?}");
        Ok(())
    })
    .await
}
