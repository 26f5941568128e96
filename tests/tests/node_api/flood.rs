//! Many connections, and slow ones, use a bounded amount of memory and do not lock out other clients.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use scenarios::{Agent, Node, NodeClient, podward_only};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

podward_only!(connection_flood_uses_bounded_memory);

const CONNECTIONS: usize = 1500;
/// In KiB.
const MAX_MEMORY_KIB: u64 = 24 * 1024;

async fn connection_flood_uses_bounded_memory(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let port = node.agent.ports().api;
    let client = NodeClient::anonymous(port)?;
    for _ in 0..20 {
        ensure!(client.get("/pods").await?.status == 200, "no answer before the flood");
    }
    let before = node.agent.resident_kib()?;
    // None of them ever completes its handshake.
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
    ensure!(
        during < before + MAX_MEMORY_KIB,
        "{before} KiB before, {during} KiB with {} strangers",
        flood.len()
    );
    // A well-behaved client is still served.
    let start = Instant::now();
    ensure!(client.get("/pods").await?.status == 200, "locked out");
    ensure!(start.elapsed() < Duration::from_secs(5), "served only after {:?}", start.elapsed());
    drop(flood);
    ensure!(client.get("/pods").await?.status == 200, "locked out for good");
    let after = node.agent.resident_kib()?;
    ensure!(after < before + MAX_MEMORY_KIB, "{before} KiB before, {after} KiB after");
    Ok(())
}
