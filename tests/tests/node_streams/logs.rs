//! kubectl logs.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, AgentOptions, ClusterNode, Joining, pod, scenarios, with};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::support::{StreamProtocol, TIMEOUT, run, sh, start};

scenarios!(
    kubectl_logs_supports_all_options,
    log_follower_misses_no_line_across_rotations,
    container_exit_ends_log_followers
);

async fn logs(node: &ClusterNode, arguments: &[&str]) -> Result<String> {
    run(node, StreamProtocol::WebSocket, &[&["logs"], arguments].concat(), "").await?.success()
}

async fn kubectl_logs_supports_all_options(agent: Agent) -> Result<()> {
    let node = ClusterNode::start(agent).await?;
    let script = "echo one; sleep 0.3; echo two >&2; sleep 0.3; echo three; trap 'exit 0' TERM; while true; do sleep 1; done";
    let again = "echo run of $$; sleep 2; exit 1";
    node.apply(&pod("web", [sh("main", script), sh("again", again)])).await?;
    node.wait_pod("web", "was restarted", |pod| pod.container("again").restarts >= 1).await?;
    node.wait("everything is written", async || {
        let text = logs(&node, &["web", "-c", "main"]).await?;
        ensure!(text == "one\ntwo\nthree\n", "{text:?}");
        Ok(())
    })
    .await?;
    let main = async |option: &str| logs(&node, &["web", "-c", "main", option]).await;
    ensure!(main("--tail=2").await? == "two\nthree\n");
    ensure!(main("--tail=0").await?.is_empty());
    ensure!(main("--limit-bytes=5").await? == "one\nt");
    ensure!(main("--since=1h").await? == "one\ntwo\nthree\n");
    ensure!(main("--since-time=2100-01-01T00:00:00Z").await?.is_empty());
    let stamped = main("--timestamps").await?;
    for (line, word) in stamped.lines().zip(["one", "two", "three"]) {
        let (time, text) = line.split_once(' ').context("a time")?;
        ensure!(time.parse::<jiff::Timestamp>().is_ok() && text == word, "{stamped}");
        ensure!(time.split_once('.').is_some_and(|(_, digits)| digits.len() == 10), "{stamped}");
    }
    let third = stamped.lines().nth(2).and_then(|line| line.split(' ').next()).context("a third line")?;
    ensure!(main(&format!("--since-time={third}")).await?.ends_with("three\n"));
    let previous = logs(&node, &["web", "-c", "again", "--previous"]).await?;
    ensure!(previous.starts_with("run of "), "{previous:?}");
    let none =
        run(&node, StreamProtocol::WebSocket, &["logs", "web", "-c", "main", "--previous"], "").await?;
    ensure!(!none.status.success() && none.stderr.contains("previous terminated container"), "{none:?}");
    ensure!(logs(&node, &["web", "--all-containers", "--prefix"]).await?.contains("[pod/web/main] one"));
    // Queries that kubectl never sends.
    let path = |query: &str| {
        format!("/api/v1/nodes/{}/proxy/containerLogs/{}/web/main{query}", node.name, node.namespace)
    };
    let raw =
        async |query: &str| run(&node, StreamProtocol::WebSocket, &["get", "--raw", &path(query)], "").await;
    ensure!(raw("?tail=1").await?.success()? == "three\n");
    for query in ["?tailLines=x", "?tailLines=-1", "?limitBytes=0", "?sinceSeconds=0"] {
        let answer = raw(query).await?;
        ensure!(!answer.status.success(), "{query}: {answer:?}");
    }
    node.end()
}

async fn log_follower_misses_no_line_across_rotations(agent: Agent) -> Result<()> {
    let overlay =
        json!({"containerLogMaxSize": "4Ki", "containerLogMaxFiles": 3, "containerLogMonitorInterval": "3s"});
    let options = AgentOptions { overlay, ..AgentOptions::default() };
    let node = ClusterNode::start_with(agent, Joining::WithCertificate, &options).await?;
    let script = "i=0; trap 'exit 0' TERM; while true; do echo line $i; i=$((i+1)); usleep 10000; done";
    node.apply(&pod("count", [sh("main", script)])).await?;
    node.wait_running("count").await?;
    let mut follower = start(&node, StreamProtocol::WebSocket, &["logs", "-f", "--tail=1", "count"])?;
    let mut lines = BufReader::new(follower.stdout.take().context("its output")?).lines();
    let folder = {
        let all = node.running("count").await?;
        let log = std::path::PathBuf::from(&all.first().context("a container")?.log_path);
        log.parent().context("a folder")?.to_path_buf()
    };
    let (mut last, mut count) = (None::<u64>, 0);
    let rotated = || std::fs::read_dir(&folder).map_or(0, Iterator::count);
    let read = async {
        // Three files: the log was rotated at least twice.
        while rotated() < 3 || count < 300 {
            let line = lines.next_line().await?.context("the follower ended")?;
            let number: u64 = line.strip_prefix("line ").context("a line")?.parse()?;
            if let Some(last) = last {
                ensure!(number == last + 1, "after line {last} came line {number}");
            }
            (last, count) = (Some(number), count + 1);
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(TIMEOUT, read).await.context("the follower receives no lines")??;
    node.end()
}

async fn container_exit_ends_log_followers(agent: Agent) -> Result<()> {
    let node = ClusterNode::start(agent).await?;
    let job = pod("job", [sh("main", "echo begin; sleep 3; echo end")]);
    node.apply(&with(job, "/spec/restartPolicy", json!("Never"))).await?;
    node.wait_pod("job", "has begun", |pod| pod.all_running() || pod.phase == "Succeeded").await?;
    let text = tokio::time::timeout(Duration::from_secs(60), logs(&node, &["-f", "job"]))
        .await
        .context("no end")??;
    ensure!(text == "begin\nend\n", "{text:?}");
    node.end()
}
