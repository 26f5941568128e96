//! Restart policy and crash backoff.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, Node, container, pod, scenarios, with};
use serde_json::json;
use testkit::cri_view::ContainerView;
use testkit::poll::throughout;

scenarios!(
    crash_loop_backs_off,
    crash_loop_ends_when_the_cause_is_fixed,
    policy_never_does_not_restart_failed_container,
    policy_on_failure_restarts_until_success,
    exited_container_restarts_without_its_neighbour,
    killed_container_is_restarted_at_once,
);

async fn crash_loop_backs_off(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    node.write("bad.json", &pod("bad", [container("main", "exit 7")]))?;
    let mut attempts: BTreeMap<u32, ContainerView> = BTreeMap::new();
    let mut waited = false;
    let limit = std::time::Instant::now();
    while attempts.get(&3).is_none_or(|last| last.finished_at == 0) {
        ensure!(limit.elapsed() < Duration::from_secs(150), "3 restarts not within 150 s: {attempts:?}");
        for view in node.cri().containers_of("bad-node-a").await? {
            attempts.insert(view.attempt, view);
        }
        if let Ok(pod) = node.pod("bad").await {
            let main = pod.container("main");
            waited |=
                main.state == "waiting" && main.reason == "CrashLoopBackOff" && main.exit_code == Some(7);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    ensure!(waited, "CrashLoopBackOff with exit code 7 was never shown");
    let ids: Vec<u32> = attempts.keys().copied().collect();
    ensure!(ids == [0, 1, 2, 3], "attempts {ids:?}");
    for (attempt, least) in [(2, 10), (3, 20)] {
        let (ended, started) = (attempts.get(&(attempt - 1)), attempts.get(&attempt));
        let (ended, started) = (ended.context("attempt")?, started.context("attempt")?);
        let pause = Duration::from_nanos(u64::try_from(started.started_at - ended.finished_at)?);
        ensure!(pause >= Duration::from_secs(least), "attempt {attempt} came after {pause:?}");
    }
    let pod = node
        .wait_pod("bad", "waits again", |pod| {
            pod.container("main").restarts == 3 && pod.container("main").reason == "CrashLoopBackOff"
        })
        .await?;
    ensure!(pod.phase == "Running", "phase {}", pod.phase);
    let all = node.cri().containers_of("bad-node-a").await?;
    ensure!(all.len() <= 2, "{} dead containers are kept", all.len());
    Ok(())
}

async fn crash_loop_ends_when_the_cause_is_fixed(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let folder = node.runtime.instance().path("shared");
    std::fs::create_dir_all(&folder)?;
    let manifest = pod("bad", [container("main", "crash-until /shared/ok -- sleep forever")]);
    let manifest = with(manifest, "/spec/volumes", json!([{"name": "shared", "hostPath": {"path": folder}}]));
    let mounts = json!([{"name": "shared", "mountPath": "/shared"}]);
    node.write("bad.json", &with(manifest, "/spec/containers/0/volumeMounts", mounts))?;
    node.wait_pod("bad", "backs off", |pod| pod.container("main").reason == "CrashLoopBackOff").await?;
    std::fs::write(folder.join("ok"), "")?;
    let pod = node.wait_running("bad").await?;
    let restarts = pod.container("main").restarts;
    ensure!(restarts_fit(agent, restarts) && pod.container("main").exit_code == Some(1), "{pod:?}");
    let real = node.only_running("bad").await?.attempt;
    ensure!(i32::try_from(real)? == restarts, "attempt {real}, {pod:?}");
    Ok(())
}

/// The cause is fixed as soon as the first backoff is shown, so the second restart succeeds. Upstream shows the backoff
/// only in its next sync, which may be the one of the second restart.
fn restarts_fit(agent: Agent, restarts: i32) -> bool {
    match agent {
        Agent::Podward => restarts == 2,
        Agent::Upstream => restarts == 2 || restarts == 3,
    }
}

async fn policy_never_does_not_restart_failed_container(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let never = |name: &str, arguments: &str| {
        with(pod(name, [container("main", arguments)]), "/spec/restartPolicy", json!("Never"))
    };
    node.write("failed.json", &never("failed", "exit 3"))?;
    node.write("done.json", &never("done", "print hello"))?;
    let failed = node.wait_pod("failed", "fails", |pod| pod.phase == "Failed").await?;
    let done = node.wait_pod("done", "succeeds", |pod| pod.phase == "Succeeded").await?;
    ensure!(
        failed.container("main").exit_code == Some(3) && failed.container("main").reason == "Error",
        "{failed:?}"
    );
    ensure!(
        done.container("main").exit_code == Some(0) && done.container("main").reason == "Completed",
        "{done:?}"
    );
    ensure!(node.log("done", "main").await? == "hello\n");
    throughout("no restart", Duration::from_secs(4), async || {
        for name in ["failed", "done"] {
            let pod = node.pod(name).await?;
            ensure!(
                pod.container("main").restarts == 0 && pod.container("main").state == "terminated",
                "{pod:?}"
            );
        }
        let attempts = node.cri().containers().await?.into_iter().filter(|view| view.attempt > 0).count();
        ensure!(attempts == 0, "{attempts} restarts in the runtime");
        Ok(())
    })
    .await
}

async fn policy_on_failure_restarts_until_success(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let folder = node.runtime.instance().path("shared");
    std::fs::create_dir_all(&folder)?;
    let manifest = pod("job", [container("main", "crash-until /shared/ok -- print finished")]);
    let manifest = with(manifest, "/spec/restartPolicy", json!("OnFailure"));
    let manifest = with(manifest, "/spec/volumes", json!([{"name": "shared", "hostPath": {"path": folder}}]));
    let mounts = json!([{"name": "shared", "mountPath": "/shared"}]);
    node.write("job.json", &with(manifest, "/spec/containers/0/volumeMounts", mounts))?;
    node.wait_pod("job", "backs off", |pod| pod.container("main").reason == "CrashLoopBackOff").await?;
    std::fs::write(folder.join("ok"), "")?;
    let pod = node.wait_pod("job", "succeeds", |pod| pod.phase == "Succeeded").await?;
    let restarts = pod.container("main").restarts;
    ensure!(restarts_fit(agent, restarts) && pod.container("main").exit_code == Some(0), "{pod:?}");
    throughout("no restart after success", Duration::from_secs(3), async || {
        let now = node.pod("job").await?;
        ensure!(now.container("main").restarts == restarts && now.phase == "Succeeded", "{now:?}");
        Ok(())
    })
    .await
}

async fn exited_container_restarts_without_its_neighbour(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let two =
        |name: &str| pod(name, [container("stays", "sleep forever"), container("goes", "exit 4 --after 1")]);
    node.write("always.json", &two("always"))?;
    node.write("never.json", &with(two("never"), "/spec/restartPolicy", json!("Never")))?;
    let before = node.wait_running("always").await?;
    let after = node.wait_pod("always", "restarts `goes`", |pod| pod.container("goes").restarts >= 1).await?;
    ensure!(after.container("stays") == before.container("stays"), "{before:?}\n{after:?}");
    ensure!(after.container("goes").exit_code == Some(4), "{after:?}");
    let never = node
        .wait_pod("never", "has one terminated container", |pod| pod.container("goes").state == "terminated")
        .await?;
    ensure!(never.phase == "Running" && never.container("stays").state == "running", "{never:?}");
    ensure!(
        never.container("goes").exit_code == Some(4) && never.container("goes").restarts == 0,
        "{never:?}"
    );
    Ok(())
}

async fn killed_container_is_restarted_at_once(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    node.write("web.json", &pod("web", [container("main", "sleep forever")]))?;
    node.wait_running("web").await?;
    let old = node.only_running("web").await?;
    testkit::instance::kill(node.cri().pid(&old.id).await?, rustix::process::Signal::KILL)?;
    let pod = node
        .wait_pod("web", "runs again", |pod| pod.all_running() && pod.container("main").restarts == 1)
        .await?;
    ensure!(pod.container("main").exit_code == Some(137), "{pod:?}");
    let new = node.only_running("web").await?;
    ensure!(new.sandbox == old.sandbox && new.attempt == 1, "{new:?}");
    let views = node.cri().containers_of("web-node-a").await?;
    let ended = views.iter().find(|view| view.id == old.id).context("the dead container is kept")?;
    let pause = Duration::from_nanos(u64::try_from(new.created_at - ended.finished_at)?);
    ensure!(pause < Duration::from_secs(10), "it was delayed: {pause:?}");
    Ok(())
}
