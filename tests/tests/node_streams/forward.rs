//! kubectl port-forward.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, ClusterNode, pod, scenarios};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Child;

use crate::support::{StreamProtocol, sh, start};

scenarios!(port_forward_forwards_ports, port_forward_works_over_spdy);

const SOON: Duration = Duration::from_secs(60);

async fn port_forward_forwards_ports(agent: Agent) -> Result<()> {
    forwarding(agent, StreamProtocol::WebSocket).await
}

async fn port_forward_works_over_spdy(agent: Agent) -> Result<()> {
    forwarding(agent, StreamProtocol::Spdy).await
}

/// One port echoes, the other answers a line after a delay.
const SERVERS: &str = "nc -ll -p 7000 -e cat & \
    nc -ll -p 7001 -e sh -c 'read line; sleep 0.3; echo got $line' & \
    trap 'exit 0' TERM; while true; do sleep 1; done";

async fn forwarding(agent: Agent, protocol: StreamProtocol) -> Result<()> {
    let node = ClusterNode::start(agent).await?;
    node.apply(&pod("web", [sh("main", SERVERS)])).await?;
    node.wait_running("web").await?;
    let mut kubectl = start(&node, protocol, &["port-forward", "pod/web", ":7000", ":7001"])?;
    let ports = local_ports(&mut kubectl, 2).await?;
    let (echo, slow) = (ports[0], ports[1]);
    node.wait("the pod listens", async || talk(echo, b"hello").await.map(drop)).await?;
    let many = (0..40).map(|number| {
        let text = format!("connection {number} ").repeat(2000);
        async move {
            let answer =
                tokio::time::timeout(SOON, talk(echo, text.as_bytes())).await.context("it hangs")??;
            ensure!(answer == text.as_bytes(), "connection {number} received {} bytes", answer.len());
            anyhow::Ok(())
        }
    });
    let mut all = tokio::task::JoinSet::new();
    for one in many {
        all.spawn(one);
    }
    while let Some(done) = all.join_next().await {
        done??;
    }
    // The response arrives after the client has closed its side. (A server that waits for this close depends on the
    // runtime: containerd does not forward it.)
    let answer = tokio::time::timeout(SOON, half_closed(slow, b"hello\n")).await.context("it hangs")??;
    ensure!(answer == "got hello\n", "{answer:?}");
    node.end()
}

async fn talk(port: u16, text: &[u8]) -> Result<Vec<u8>> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let (mut reader, mut writer) = stream.into_split();
    let send = async {
        writer.write_all(text).await?;
        anyhow::Ok(writer)
    };
    let receive = async {
        let mut answer = vec![0; text.len()];
        reader.read_exact(&mut answer).await?;
        anyhow::Ok(answer)
    };
    let (_writer, answer) = tokio::try_join!(send, receive)?;
    Ok(answer)
}

async fn half_closed(port: u16, bytes: &[u8]) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(bytes).await?;
    stream.shutdown().await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// The IPv4 ports that kubectl reports to listen on.
async fn local_ports(kubectl: &mut Child, count: usize) -> Result<Vec<u16>> {
    let mut lines = BufReader::new(kubectl.stdout.take().context("its output")?).lines();
    let read = async {
        let mut ports = Vec::new();
        while ports.len() < count {
            let line = lines.next_line().await?.context("kubectl ended")?;
            let rest = line.strip_prefix("Forwarding from 127.0.0.1:");
            if let Some(port) = rest.and_then(|rest| rest.split(' ').next()) {
                ports.push(port.parse()?);
            }
        }
        anyhow::Ok(ports)
    };
    let ports = tokio::time::timeout(SOON, read).await.context("kubectl does not listen")??;
    // It continues to print a line for each connection.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Ok(ports)
}
