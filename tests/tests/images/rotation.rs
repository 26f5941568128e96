//! Rotation of container logs.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, AgentOptions, Node, pod, scenarios};
use serde_json::{Value, json};
use testkit::images::BUSYBOX;
use testkit::poll::eventually;

scenarios!(rotation_keeps_followed_log_and_compresses_old_ones, agent_killed_during_rotation_loses_no_line);

const TIMEOUT: Duration = Duration::from_secs(60);

fn options(max_files: u32) -> AgentOptions {
    let overlay = json!({
        "containerLogMaxSize": "4Ki", "containerLogMaxFiles": max_files, "containerLogMonitorInterval": "3s",
    });
    AgentOptions { overlay, ..AgentOptions::default() }
}

/// Prints some hundred numbered lines per second.
fn counter() -> Value {
    let script = "i=0; trap 'exit 0' TERM; while true; do echo line $i; i=$((i+1)); usleep 5000; done";
    pod("count", [json!({"name": "main", "image": BUSYBOX, "command": ["sh", "-c", script]})])
}

async fn log_of(node: &Node) -> Result<PathBuf> {
    Ok(PathBuf::from(node.only_running("count").await?.log_path))
}

/// The rotated files of a log, oldest first.
fn rotated(log: &Path) -> Result<Vec<PathBuf>> {
    let folder = log.parent().context("a folder")?;
    let mark = format!("{}.", log.file_name().context("a name")?.to_string_lossy());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&mark)) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn is_packed(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "gz")
}

fn text_of(path: &Path) -> Result<String> {
    if !is_packed(path) {
        return fs::read_to_string(path).with_context(|| format!("read {}", path.display()));
    }
    let output = Command::new("gzip").arg("-dc").arg(path).output().context("start gzip")?;
    ensure!(output.status.success(), "gzip -dc {}: {}", path.display(), output.status);
    String::from_utf8(output.stdout).context("read a compressed log")
}

/// The numbers in all files; those in the remains of an interrupted compression count once.
fn counted(log: &Path) -> Result<Vec<u64>> {
    let all = rotated(log)?;
    let packed = |path: &PathBuf| all.contains(&PathBuf::from(format!("{}.gz", path.display())));
    let unfinished = |path: &Path| path.extension().is_some_and(|end| end == "tmp");
    let mut files: Vec<PathBuf> =
        all.iter().filter(|path| !unfinished(path) && !packed(path)).cloned().collect();
    files.extend(log.exists().then(|| log.to_path_buf()));
    let mut numbers = Vec::new();
    for file in files {
        for line in text_of(&file)?.lines() {
            // The last line may be incomplete.
            numbers.extend(line.rsplit_once(" line ").and_then(|(_, number)| number.parse::<u64>().ok()));
        }
    }
    Ok(numbers)
}

async fn rotation_keeps_followed_log_and_compresses_old_ones(agent: Agent) -> Result<()> {
    let node = Node::start_with(agent, &options(3)).await?;
    node.write("count.json", &counter())?;
    node.wait_running("count").await?;
    let log = log_of(&node).await?;
    let mut follower = File::open(&log).context("follow the log")?;
    eventually("the log is rotated", TIMEOUT, async || {
        ensure!(!rotated(&log)?.is_empty(), "not yet");
        Ok(())
    })
    .await?;
    let plain = rotated(&log)?.pop().context("one rotated log")?;
    if !is_packed(&plain) && rotated(&log)?.len() == 1 {
        let (followed, moved) = (follower.metadata()?.ino(), fs::metadata(&plain)?.ino());
        ensure!(followed == moved, "the file that is followed was replaced");
    }
    eventually("an older one is compressed, and the last is not", TIMEOUT, async || {
        let files = rotated(&log)?;
        ensure!(files.iter().any(|path| is_packed(path)), "{files:?}");
        ensure!(files.iter().any(|path| !is_packed(path)), "{files:?}");
        ensure!(files.len() <= 2, "more than three files with the log: {files:?}");
        Ok(())
    })
    .await?;
    let mut text = String::new();
    follower.read_to_string(&mut text).context("read the followed log")?;
    ensure!(text.starts_with("20") && text.contains("line 0\n"), "the follower lost its file");
    let link = fs::read_dir("/var/log/containers")
        .context("list links")?
        .flatten()
        .find(|entry| fs::read_link(entry.path()).is_ok_and(|target| target == log));
    ensure!(link.is_some(), "the link to the log is removed");
    Ok(())
}

async fn agent_killed_during_rotation_loses_no_line(agent: Agent) -> Result<()> {
    let mut node = Node::start_with(agent, &options(100)).await?;
    node.write("count.json", &counter())?;
    node.wait_running("count").await?;
    let log = log_of(&node).await?;
    for round in 0..4 {
        // At some point of the rotation after the start, or of the next one.
        tokio::time::sleep(Duration::from_millis(700 * round + 150)).await;
        node.restart_agent().await?;
    }
    eventually("it rotates again", TIMEOUT, async || {
        let files = rotated(&log)?;
        ensure!(files.len() >= 2 && files.iter().any(|path| is_packed(path)), "{files:?}");
        ensure!(log.exists(), "no log to write to");
        Ok(())
    })
    .await?;
    // No rotation happens while the files are read.
    node.agent.kill9()?;
    let numbers = counted(&log)?;
    let expected: Vec<u64> = (0..numbers.len() as u64).collect();
    ensure!(numbers.len() > 500 && numbers == expected, "{} lines, first gap at {:?}", numbers.len(), {
        numbers.iter().zip(&expected).find(|(found, expected)| found != expected)
    });
    Ok(())
}
