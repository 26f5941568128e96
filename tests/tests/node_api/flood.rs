//! Many connections, and slow ones, cost a bounded amount of memory and do not lock others out.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use scenarios::{Agent, Node, NodeClient, podward_only};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

podward_only!(a_flood_leaves_memory_flat);

/// Connections of the flood.
const CONNECTIONS: usize = 1500;
/// What the flood may cost, in KiB.
const MAY_COST: u64 = 24 * 1024;

async fn a_flood_leaves_memory_flat(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let port = node.agent.ports().api;
    let client = NodeClient::anonymous(port)?;
    for _ in 0..20 {
        ensure!(client.get("/pods").await?.status == 200, "no answer before the flood");
    }
    let before = node.agent.resident_kib()?;
    // None of them ever ends its handshake.
    let mut flood = Vec::new();
    for _ in 0..CONNECTIONS {
        if let Ok(Ok(stream)) =
            tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(("127.0.0.1", port))).await
        {
            flood.push(stream);
        }
    }
    for stream in &mut flood {
        let _ = stream.write_all(&[22, 3, 1]).await;
    }
    let during = node.agent.resident_kib()?;
    ensure!(during < before + MAY_COST, "{before} KiB before, {during} KiB with {} strangers", flood.len());
    // Who means well is let in all the same.
    let start = Instant::now();
    ensure!(client.get("/pods").await?.status == 200, "locked out");
    ensure!(start.elapsed() < Duration::from_secs(5), "let in after {:?} only", start.elapsed());
    drop(flood);
    ensure!(client.get("/pods").await?.status == 200, "locked out for good");
    let after = node.agent.resident_kib()?;
    ensure!(after < before + MAY_COST, "{before} KiB before, {after} KiB after");
    Ok(())
}
