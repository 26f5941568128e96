use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, Node, scenarios, with};
use serde_json::{Value, json};
use testkit::poll::eventually;

use crate::diary::{Diary, plus, sh, writer};

scenarios!(
    next_container_waits_for_post_start_hook,
    failed_post_start_hook_stops_its_container,
    http_hooks_send_requests,
    pre_stop_hooks_run_before_the_stop_signal,
    pre_stop_hook_is_limited_by_the_grace_period,
    pre_stop_hook_runs_until_its_container_is_killed,
);

fn exec(script: &str) -> Value {
    json!({"exec": {"command": ["sh", "-c", script]}})
}

async fn next_container_waits_for_post_start_hook(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let diary = Diary::new(&node, "web")?;
    let first = plus(
        sh("first", "sleep 1000"),
        &json!({"lifecycle": {"postStart": exec("sleep 2; echo hook >> /d/diary")}}),
    );
    let second = plus(writer("second"), &json!({"lifecycle": {"postStart": {"sleep": {"seconds": 1}}}}));
    let third = plus(writer("third"), &json!({"lifecycle": {"postStart": {"sleep": {"seconds": 0}}}}));
    node.write("web.json", &diary.pod("web", [], [first, second, third]))?;
    if agent == Agent::Podward {
        // Upstream reports it as running only after the hook.
        node.wait_pod("web", "runs its first container only", |pod| {
            pod.container("first").state == "running" && pod.container("second").state == "waiting"
        })
        .await?;
    }
    let pod = node.wait_running("web").await?;
    diary.wait(&["hook", "second", "third"]).await?;
    let views = node.running("web").await?;
    let started = |name: &str| {
        views.iter().find(|view| view.name == name).map(|view| view.started_at).context("not started")
    };
    let pause = |from: &str, to: &str| -> Result<Duration> {
        Ok(Duration::from_nanos(u64::try_from(started(to)? - started(from)?)?))
    };
    ensure!(pause("first", "second")? >= Duration::from_secs(2), "{pod:?}");
    ensure!(pause("second", "third")? >= Duration::from_secs(1), "{pod:?}");
    Ok(())
}

async fn failed_post_start_hook_stops_its_container(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let hooks = [
        (
            "exec",
            exec("echo out; echo err >&2; exit 3"),
            "Exec lifecycle hook ([sh -c echo out; echo err >&2; exit 3]) for Container \"main\" in Pod \"POD\" failed - error: command 'sh -c echo out; echo err >&2; exit 3' exited with 3: err\n, message: \"out\\nerr\\n\"",
        ),
        (
            "tcp",
            json!({"tcpSocket": {"port": 80}}),
            "Cannot run handler: invalid handler: &LifecycleHandler{Exec:nil,HTTPGet:nil,TCPSocket:&TCPSocketAction{Port:{0 80 },Host:,},Sleep:nil,}",
        ),
    ];
    for (name, hook, _) in &hooks {
        let diary = Diary::new(&node, name)?;
        let main = plus(
            writer("main"),
            &json!({"lifecycle": {"postStart": hook, "preStop": exec("echo bye >> /d/diary")}}),
        );
        node.write(&format!("{name}.json"), &diary.pod(name, [], [main]))?;
    }
    for (name, _, expected) in &hooks {
        eventually("the hook's failure is shown", Duration::from_secs(60), async || {
            let pod = node.api_pod(name).await?;
            let status = serde_json::to_value(pod.status.unwrap_or_default())?;
            let waiting = status.pointer("/containerStatuses/0/state/waiting").cloned().unwrap_or_default();
            let full = format!("{name}-node-a_default({})", pod.metadata.uid.unwrap_or_default());
            ensure!(waiting["reason"] == "PostStartHookError", "{status}");
            ensure!(waiting["message"] == expected.replace("POD", &full), "{waiting}");
            Ok(())
        })
        .await?;
        let diary = Diary::new(&node, name)?;
        let lines = diary.lines();
        ensure!(lines.contains(&"bye".to_owned()), "stopped without its preStop hook: {lines:?}");
    }
    Ok(())
}

async fn http_hooks_send_requests(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let diary = Diary::new(&node, "web")?;
    let server = plus(
        sh("server", "exec httpd -f -vv -p 8080"),
        &json!({"ports": [{"name": "web", "containerPort": 8080}]}),
    );
    let asks = plus(
        sh("asks", "trap 'exit 0' TERM; sleep 1000 & wait"),
        &json!({
            "ports": [{"name": "other", "containerPort": 8080}],
            "lifecycle": {
                "postStart": {"httpGet": {"path": "/hello", "port": "other"}},
                // The server does not support TLS, so the agent retries without it. The 404 response is not a failure.
                "preStop": {"httpGet": {"path": "/bye", "port": 8080, "scheme": "HTTPS"}},
            },
        }),
    );
    // The server is stopped after the container whose hook calls it.
    let server = plus(server, &json!({"restartPolicy": "Always"}));
    let manifest = diary.pod("web", [server], [asks]);
    node.write("web.json", &with(manifest, "/spec/terminationGracePeriodSeconds", json!(20)))?;
    let pod = node.wait_running("web").await?;
    ensure!(pod.container("asks").restarts == 0, "{pod:?}");
    let log = node.log("web", "server").await?;
    ensure!(log.contains("/hello"), "the server saw {log:?}");
    let all = node.cri().containers_of("web-node-a").await?;
    let path = all.iter().find(|view| view.name == "server").map(|view| view.log_path.clone());
    // Opened now, because the log is removed with its container.
    let saved = std::fs::File::open(path.context("no log")?)?;
    node.remove("web.json")?;
    node.wait_gone("web").await?;
    let log = std::io::read_to_string(saved)?;
    ensure!(log.contains("/bye"), "the server saw {log:?}");
    Ok(())
}

async fn pre_stop_hooks_run_before_the_stop_signal(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let diary = Diary::new(&node, "web")?;
    let one = plus(writer("one"), &json!({"lifecycle": {"preStop": exec("echo bye >> /d/diary")}}));
    node.write("web.json", &diary.pod("web", [], [one]))?;
    let sleeps =
        plus(sh("main", "sleep 1000"), &json!({"lifecycle": {"preStop": {"sleep": {"seconds": 2}}}}));
    node.write("sleeps.json", &diary.pod("sleeps", [], [sleeps]))?;
    let fails = plus(writer("fails"), &json!({"lifecycle": {"preStop": exec("exit 1")}}));
    let last = Diary::new(&node, "fails")?;
    node.write("fails.json", &last.pod("fails", [], [fails]))?;
    for name in ["web", "sleeps", "fails"] {
        node.wait_running(name).await?;
    }
    diary.wait(&["one"]).await?;
    last.wait(&["fails"]).await?;
    let start = Instant::now();
    for name in ["web", "sleeps", "fails"] {
        node.remove(&format!("{name}.json"))?;
    }
    node.wait_gone("web").await?;
    diary.wait(&["one", "bye", "one-end"]).await?;
    // A failed hook has no effect on the termination.
    node.wait_gone("fails").await?;
    last.wait(&["fails", "fails-end"]).await?;
    node.wait_gone("sleeps").await?;
    ensure!(start.elapsed() >= Duration::from_secs(2), "removed after {:?}", start.elapsed());
    Ok(())
}

async fn pre_stop_hook_is_limited_by_the_grace_period(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let diary = Diary::new(&node, "web")?;
    let main = plus(writer("main"), &json!({"lifecycle": {"preStop": exec("sleep 1000")}}));
    node.write("web.json", &diary.pod("web", [], [main]))?;
    node.wait_running("web").await?;
    diary.wait(&["main"]).await?;
    let start = Instant::now();
    node.remove("web.json")?;
    node.wait_gone("web").await?;
    ensure!(start.elapsed() >= Duration::from_secs(3), "removed after {:?}", start.elapsed());
    // The process still received its signal, and time to react.
    diary.wait(&["main", "main-end"]).await
}

async fn pre_stop_hook_runs_until_its_container_is_killed(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let diary = Diary::new(&node, "web")?;
    // The container ignores the signal, so it is killed 2 s after the grace period of 3 s.
    let main = sh("main", "trap '' TERM; echo main >> /d/diary; while true; do sleep 1; done");
    let hook = exec("sleep 4; echo hook-end >> /d/diary; sleep 1000");
    let main = plus(main, &json!({"lifecycle": {"preStop": hook}}));
    let manifest = with(diary.pod("web", [], [main]), "/spec/terminationGracePeriodSeconds", json!(3));
    node.write("web.json", &manifest)?;
    node.wait_running("web").await?;
    diary.wait(&["main"]).await?;
    node.remove("web.json")?;
    node.wait_gone("web").await?;
    diary.wait(&["main", "hook-end"]).await
}
