//! Bootstrap and rotation of a node's client certificate.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, AgentOptions, ClusterNode, Joining, scenarios, sleeper};
use serde_json::json;

scenarios!(bootstraps_with_a_token, rotates_client_certificate);

async fn bootstraps_with_a_token(agent: Agent) -> Result<()> {
    let mut node = ClusterNode::start_with(agent, Joining::WithToken, &AgentOptions::default()).await?;
    let kubeconfig = node.containerd.instance().path("joined.kubeconfig");
    let mode = std::fs::metadata(&kubeconfig).context("no kubeconfig was written")?.mode();
    ensure!(mode & 0o777 == 0o600, "mode {mode:o}");
    node.apply(&sleeper("web")).await?;
    node.wait_running("web").await?;
    let requested = signing_requests(&node).await?;
    ensure!(requested == 1, "{requested} certificates were requested");
    node.restart_agent_unseen().await?;
    ensure!(signing_requests(&node).await? == requested, "another certificate was requested");
    node.end()
}

/// Number of certificates signed for this node.
async fn signing_requests(node: &ClusterNode) -> Result<usize> {
    let list = node.get(&["csr"]).await?;
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let own = items.iter().filter(|one| {
        let request = one["spec"]["request"].as_str().unwrap_or_default();
        let user = one["spec"]["username"].as_str().unwrap_or_default();
        one["spec"]["signerName"] == "kubernetes.io/kube-apiserver-client-kubelet"
            && one["status"]["certificate"].is_string()
            && (user == format!("system:node:{}", node.name) || mentions(request, &node.name))
    });
    Ok(own.count())
}

/// Whether a signing request, base64 of PEM of base64 of DER, is for the node: names are plain text in DER.
fn mentions(request: &str, name: &str) -> bool {
    let decode = |text: &str| {
        let bits = text.bytes().filter_map(|byte| match byte {
            b'A'..=b'Z' => Some(byte - b'A'),
            b'a'..=b'z' => Some(byte - b'a' + 26),
            b'0'..=b'9' => Some(byte - b'0' + 52),
            b'+' => Some(62),
            b'/' => Some(63),
            _ => None,
        });
        let bits: Vec<u8> = bits.collect();
        let bytes = bits.chunks(4).flat_map(|four| {
            let word = four
                .iter()
                .enumerate()
                .fold(0u32, |word, (at, bits)| word | u32::from(*bits) << (18 - 6 * at));
            word.to_be_bytes().into_iter().skip(1).take(four.len().saturating_sub(1))
        });
        String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned()
    };
    let pem = decode(request);
    let body: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    decode(&body).contains(name)
}

async fn rotates_client_certificate(agent: Agent) -> Result<()> {
    // Certificates are backdated by five minutes: at 70 to 90 % of their lifetime, half a minute or less is left.
    let short = ShortLived::begin(scenarios::control_plane().await?)?;
    let options = AgentOptions { overlay: json!({"rotateCertificates": true}), ..AgentOptions::default() };
    let mut node = ClusterNode::start_with(agent, Joining::WithToken, &options).await?;
    node.apply(&sleeper("web")).await?;
    let before = node.wait_running("web").await?;
    node.wait("a second certificate is signed", async || {
        let signed = signing_requests(&node).await?;
        ensure!(signed >= 2, "{signed} so far");
        Ok(())
    })
    .await?;
    // Longer than the lifetime of the first certificate.
    tokio::time::sleep(short.lasts).await;
    node.apply(&sleeper("later")).await?;
    node.wait_running("later").await?;
    ensure!(node.pod("web").await?.containers == before.containers, "a rotation touched a pod");
    node.restart_agent_unseen().await?;
    node.end()
}

/// While this exists, certificates are signed for a minute.
struct ShortLived {
    plane: &'static testkit::control_plane::ControlPlane,
    lasts: Duration,
}

impl ShortLived {
    fn begin(plane: &'static testkit::control_plane::ControlPlane) -> Result<Self> {
        let lasts = Duration::from_secs(60);
        plane.sign_for(lasts)?;
        Ok(Self { plane, lasts })
    }
}

impl Drop for ShortLived {
    fn drop(&mut self) {
        let _ = self.plane.sign_for(Duration::from_secs(24 * 3600));
    }
}
