//! Runs each command on a terminal, against a standalone agent on a real containerd.
//!
//! Podward only: upstream's kubelet has no such commands.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, AgentOptions, NODE, Node, Screen, container, pod, podward_only, sleeper, with};
use serde_json::{Value, json};
use testkit::images::BUSYBOX;

podward_only!(
    logs_and_exec_commands_work,
    commands_show_running_pod,
    explains_why_pods_do_not_run,
    watch_flag_shows_changes,
    error_messages_contain_a_hint
);

/// Runs a command on a terminal of 100 columns; fails unless it succeeds.
async fn shown(node: &Node, line: &str) -> Result<String> {
    let (code, text) = run(node, line).await?;
    ensure!(code == 0, "`podward {line}` exited with {code}:\n{text}");
    Ok(text)
}

async fn run(node: &Node, line: &str) -> Result<(i32, String)> {
    let (status, text) = start(node, line)?.end().await?;
    Ok((status.code().context("no exit code")?, text))
}

fn start(node: &Node, line: &str) -> Result<Screen> {
    let root = node.agent.root().display().to_string();
    let mut arguments: Vec<&str> = line.split(' ').collect();
    // Flags must precede the arguments of a container's command.
    let position = arguments.iter().position(|word| *word == "--").unwrap_or(arguments.len());
    arguments.splice(position..position, ["--root-dir", &root]);
    Screen::start(&program()?, &arguments, 100)
}

fn program() -> Result<PathBuf> {
    Agent::Podward.program()
}

/// Compares without regard to column widths and line breaks.
fn expect(text: &str, parts: &[&str]) -> Result<()> {
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in parts {
        ensure!(flat(text).contains(&flat(part)), "{part:?} is not in\n{text}");
    }
    Ok(())
}

/// A running pod in the output of every command.
async fn commands_show_running_pod(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let manifest = with(sleeper("web"), "/metadata/labels", json!({"app": "web"}));
    node.write("web.json", &manifest)?;
    node.write_text("bad.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: bad}\nspec: {}\n")?;
    node.wait_pod("web", "is ready", |pod| pod.container("main").ready).await?;

    let text = shown(&node, "get pods").await?;
    expect(&text, &["NAMESPACE   NAME", "default     web-", "1/1     Running   0"])?;
    let text = shown(&node, "get pods -l app=web -n default -o wide").await?;
    expect(&text, &["QOS", "BestEffort", "podward.test/demo:1"])?;
    expect(&shown(&node, "get pods -l app=other").await?, &["No pods on this node."])?;
    expect(&shown(&node, "get pod web -o name").await?, &[&format!("pod/web-{NODE}")])?;
    let text = shown(&node, "get pod/web -o json").await?;
    let object: Value = serde_json::from_str(&text).context("read the JSON")?;
    ensure!(object["kind"] == "Pod" && object["status"]["phase"] == "Running", "{object}");
    expect(
        &shown(&node, "get pod web -o yaml").await?,
        &["kind: Pod\n", "  containers:\n  - args:\n    - sleep\n"],
    )?;

    expect(&shown(&node, "get events").await?, &["LAST SEEN", "Started", &format!("pod/web-{NODE}")])?;
    expect(&shown(&node, "events web --types Normal").await?, &["Created", "Container started"])?;
    let text = shown(&node, "get sources").await?;
    expect(&text, &["web.json", "Accepted", "bad.yaml", "Rejected", "spec.containers: Required value"])?;
    expect(&shown(&node, "get node -o wide").await?, &[NODE, "Ready", "containerd://"])?;

    let text = shown(&node, "describe pod web").await?;
    expect(
        &text,
        &["Labels:           app=web", "State:            Running", "Conditions:", "Events:", "Started"],
    )?;
    expect(&shown(&node, "explain web").await?, &[&format!("Pod default/web-{NODE} is running and ready.")])?;
    let text = shown(&node, "timeline web").await?;
    expect(&text, &["Ready:      after", "sandbox", "create        main", "start         main", "|", "█"])?;
    ensure!(text.lines().all(|line| line.chars().count() <= 100), "too wide:\n{text}");
    let page = node.agent.page("/podward/timeline").await?;
    expect(&page, &["\"step\":\"sandbox\"", "\"readyAt\":\"20"])
}

/// Container logs, and commands in containers.
async fn logs_and_exec_commands_work(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    node.write(
        "web.json",
        &pod(
            "web",
            [
                container("main", "print one -- print two -- sleep forever"),
                container("side", "sleep forever"),
            ],
        ),
    )?;
    node.wait_running("web").await?;
    node.log("web", "main").await?;
    let text = shown(&node, "logs web").await?;
    expect(&text, &["Defaulted container \"main\" out of: main, side", "one\ntwo\n"])?;
    ensure!(shown(&node, "logs web -c main --tail 1").await? == "two\n", "--tail");
    expect(&shown(&node, "logs web main --timestamps --since 1h").await?, &["T", "Z one\n"])?;
    let follow = start(&node, "logs web -c main -f")?;
    follow.wait_for("two").await?;
    drop(follow);
    let (code, text) = run(&node, "logs web -c other").await?;
    ensure!(code == 1, "{text}");
    expect(&text, &["has no container \"other\"; it has main, side"])?;

    let (code, text) = run(&node, "exec web -c main -- /demo print hello").await?;
    ensure!(code == 0 && text == "hello\n", "{code}: {text:?}");
    let (code, text) = run(&node, "exec web -c main -- /demo exit 7").await?;
    ensure!(code == 7, "{code}: {text}");
    let (code, text) = run(&node, "exec web -c main -- /no/such/program").await?;
    ensure!(code != 0, "{text}");
    terminal(&node).await
}

/// A shell on a terminal: input is forwarded, window size changes follow, and the exit code is passed on.
async fn terminal(node: &Node) -> Result<()> {
    let mut shell = sleeper("shell");
    shell["spec"]["containers"][0] =
        json!({"name": "main", "image": BUSYBOX, "command": ["/bin/sh", "-c", "sleep 3600"]});
    node.write("shell.json", &shell)?;
    node.wait_running("shell").await?;
    let mut screen = start(node, "exec -it shell -- /bin/sh")?;
    screen.keys("stty size; echo mark-$((1+1))\n")?;
    let text = screen.wait_for("mark-2").await?;
    expect(&text, &["40 100"])?;
    screen.resize(71)?;
    let mut seen = String::new();
    for number in 0..40 {
        screen.keys(&format!("stty size; echo again-$(({number}+100))\n"))?;
        seen = screen.wait_for(&format!("again-{}", number + 100)).await?;
        if seen.contains("40 71") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    expect(&seen, &["40 71"])?;
    screen.keys("exit 5\n")?;
    let (status, text) = screen.end().await?;
    ensure!(status.code() == Some(5), "{status}: {text}");
    Ok(())
}

/// Pods that do not run: the explanation names the reason.
async fn explains_why_pods_do_not_run(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let missing = with(sleeper("missing"), "/spec/containers/0/image", json!("podward.test/none:1"));
    let missing = with(missing, "/spec/containers/0/imagePullPolicy", json!("Never"));
    node.write("missing.json", &missing)?;
    node.write("crash.json", &pod("crash", [container("main", "exit 3")]))?;
    let mut needs = sleeper("needs");
    needs["spec"]["containers"][0]["envFrom"] = json!([{"configMapRef": {"name": "settings"}}]);
    node.write("needs.json", &needs)?;
    let mut unready = sleeper("unready");
    unready["spec"]["containers"][0]["readinessProbe"] =
        json!({"tcpSocket": {"port": 1}, "periodSeconds": 1});
    node.write("unready.json", &unready)?;

    node.wait_pod("crash", "waits", |pod| pod.container("main").reason == "CrashLoopBackOff").await?;
    let text = shown(&node, "explain crash").await?;
    expect(&text, &["keeps restarting: container main ended with exit code 3", "Causes:", "Next try: in "])?;
    let text = shown(&node, "explain missing").await?;
    expect(&text, &["is not on this node, and may not be pulled", "imagePullPolicy is Never"])?;
    let text = shown(&node, "explain needs").await?;
    expect(&text, &["ConfigMap \"settings\", which container main needs, does not exist"])?;
    node.wait_running("unready").await?;
    let screen =
        eventually_explained(&node, "unready", "the readiness probe of container main fails").await?;
    expect(&screen, &["Readiness probe failed: dial tcp"])
}

/// Retries until the text appears: a probe takes time.
async fn eventually_explained(node: &Node, pod: &str, part: &str) -> Result<String> {
    let mut last = String::new();
    for _ in 0..60 {
        last = shown(node, &format!("explain {pod}")).await?;
        if expect(&last, &[part]).is_ok() {
            return Ok(last);
        }
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
    anyhow::bail!("{part:?} was not explained:\n{last}")
}

/// `--watch` shows changes while it runs.
async fn watch_flag_shows_changes(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let pods = start(&node, "get pods --watch")?;
    let events = start(&node, "events --watch")?;
    pods.wait_for("NAMESPACE").await?;
    node.write("web.json", &sleeper("web"))?;
    pods.wait_for("Running").await?;
    events.wait_for("Container started").await?;
    node.remove("web.json")?;
    events.wait_for("Killing").await?;
    drop((pods, events));
    node.wait_gone("web").await
}

/// Error messages contain a hint.
async fn error_messages_contain_a_hint(agent: Agent) -> Result<()> {
    let mut node = Node::prepare(agent, &AgentOptions::default()).await?;
    let failed = async |node: &Node, line: &str, parts: &[&str]| -> Result<()> {
        let (code, text) = run(node, line).await?;
        ensure!(code != 0, "`podward {line}` succeeded unexpectedly:\n{text}");
        expect(&text, parts)
    };
    failed(&node, "get pods", &["no agent runs here", "podward agent", "--root-dir"]).await?;
    node.agent.start()?;
    node.agent.wait_ready().await?;
    failed(&node, "explain web", &["pod \"web\" not found", "get sources"]).await?;
    node.write("web.json", &sleeper("web"))?;
    node.write_text("bad.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: bad}\nspec: {}\n")?;
    node.wait_running("web").await?;
    failed(&node, "describe pod wbe", &["Did you mean default/web-"]).await?;
    failed(&node, "explain bad", &["bad.yaml was rejected: line 4: spec.containers: Required value"]).await?;
    failed(&node, "get podds", &["Did you mean pods?"]).await?;
    failed(&node, "explian web", &["explain"]).await?;

    let mode = |path: PathBuf| -> Result<u32> {
        Ok(std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(path)?.permissions()) & 0o777)
    };
    let folder = node.agent.root().join("podward");
    ensure!(mode(folder.clone())? == 0o700, "the folder is open to others");
    ensure!(mode(folder.join("agent.sock"))? == 0o600, "the socket is open to others");
    node.agent.kill9()?;
    failed(&node, "get pods", &["no agent listens on", "is it running?"]).await?;
    node.agent.start()?;
    node.agent.wait_ready().await?;
    expect(&shown(&node, "timeline web").await?, &["ran already when this agent started"])?;

    for shell in ["bash", "zsh", "fish"] {
        let (_, text) = Screen::start(&program()?, &["completions", shell], 100)?.end().await?;
        expect(&text, &["podward", "explain", "timeline"])?;
    }
    let (status, text) = Screen::start(&program()?, &["get", "--help"], 100)?.end().await?;
    ensure!(status.success(), "{text}");
    expect(&text, &["Examples:", "podward get pods --watch"])
}
