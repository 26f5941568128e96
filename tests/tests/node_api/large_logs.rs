//! A slow reader that follows a very large log costs the agent almost no memory.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, AgentOptions, Node, NodeClient, podward_only, sleeper};
use serde_json::json;
use tokio::io::AsyncReadExt;

podward_only!(following_a_large_log_uses_bounded_memory);

/// In bytes.
const LOG_BYTES: u64 = 500 * 1024 * 1024;
/// Bytes per read, with a pause after each of the first reads.
const READ_BYTES: usize = 256 * 1024;
const SLOW_PORTIONS: usize = 20;
/// In KiB.
const MAX_MEMORY_KIB: u64 = 16 * 1024;

async fn following_a_large_log_uses_bounded_memory(agent: Agent) -> Result<()> {
    // Prevents rotation of the log while it is read.
    let options = AgentOptions { overlay: json!({"containerLogMaxSize": "2Gi"}), ..AgentOptions::default() };
    let node = Node::start_with(agent, &options).await?;
    node.write("web.json", &sleeper("web"))?;
    node.wait_running("web").await?;
    let all = node.cri().containers().await?;
    let log = all.first().context("a container")?.log_path.clone();
    let client = NodeClient::anonymous(node.agent.ports().api)?.answering().await?;
    let lines = fill(Path::new(&log))?;
    for _ in 0..20 {
        ensure!(client.get("/pods").await?.status == 200, "no answer before the log");
    }
    let before = node.agent.resident_kib()?;
    let mut highest = before;
    let mut stream =
        client.open("GET", "/containerLogs/default/web-node-a/main?follow=true", &[], "").await?;
    let mut portion = vec![0; READ_BYTES];
    let (mut newlines, mut portions) = (0, 0);
    // Every line of the log, and at most as many in the response header.
    while newlines < lines {
        let read = tokio::time::timeout(Duration::from_secs(60), stream.read(&mut portion));
        let read = read.await.context("the log stopped")??;
        ensure!(read > 0, "the log ended after {newlines} of {lines} lines");
        newlines += portion.iter().take(read).filter(|byte| **byte == b'\n').count();
        highest = highest.max(node.agent.resident_kib()?);
        portions += 1;
        if portions < SLOW_PORTIONS {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    println!("{before} KiB before, at most {highest} KiB with {lines} lines");
    ensure!(highest < before + MAX_MEMORY_KIB, "{before} KiB before, {highest} KiB while the log was read");
    Ok(())
}

/// Fills the log in the runtime's format; returns the number of lines.
fn fill(log: &Path) -> Result<usize> {
    let file = std::fs::OpenOptions::new().append(true).open(log);
    let mut file = std::io::BufWriter::new(file.with_context(|| format!("open {}", log.display()))?);
    let text = "x".repeat(200);
    let (mut bytes, mut lines) = (0, 0);
    while bytes < LOG_BYTES {
        let line = format!("2026-11-16T08:00:00.000000000Z stdout F {lines} {text}\n");
        file.write_all(line.as_bytes())?;
        bytes += u64::try_from(line.len())?;
        lines += 1;
    }
    file.flush()?;
    Ok(lines)
}
