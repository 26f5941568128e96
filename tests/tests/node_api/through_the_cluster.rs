//! Requests to the node through the API server: machine logs, and a serving certificate signed by the cluster.

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, AgentOptions, ClusterNode, Joining, scenarios};
use serde_json::{Value, json};

scenarios!(machine_logs_are_served, serving_certificate_is_signed_by_the_cluster);

async fn raw(node: &ClusterNode, path: &str) -> Result<String> {
    node.kubectl(&["get", "--raw", &format!("/api/v1/nodes/{}/proxy{path}", node.name)]).await
}

/// A folder that is removed after the scenario.
struct LogFolder(std::path::PathBuf);

impl Drop for LogFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn machine_logs_are_served(agent: Agent) -> Result<()> {
    let overlay = json!({"enableSystemLogHandler": true, "enableSystemLogQuery": true});
    let options = AgentOptions { overlay, ..AgentOptions::default() };
    let node = ClusterNode::start_with(agent, Joining::WithCertificate, &options).await?;
    // A name that is not a file is taken for a service, and a leading slash leads out of the log folder.
    let (folder, name) = (node.name.as_str(), format!("{}.log", node.name));
    let logs = LogFolder(std::path::Path::new("/var/log").join(folder));
    std::fs::create_dir(&logs.0)?;
    std::fs::write(logs.0.join(&name), "first\nsecond word\nthird\n")?;
    let listed = raw(&node, &format!("/logs/{folder}/")).await?;
    ensure!(listed.contains(&format!("<a href=\"{name}\">{name}</a>")), "{listed}");
    ensure!(raw(&node, &format!("/logs/{folder}/{name}")).await? == "first\nsecond word\nthird\n");
    ensure!(raw(&node, "/logs/../passwd").await.is_err(), "a way out of the folder");
    // The same with a query: a complete file.
    let query = async |query: &str| raw(&node, &format!("/logs/?query={query}")).await;
    ensure!(query(&format!("{folder}/{name}")).await?.contains("second word"));
    ensure!(query(&format!("{folder}/{name}&tailLines=1")).await.is_err(), "a part of a file");
    ensure!(query(&format!("{folder}/no-such-file")).await.is_err(), "a file that is not there");
    node.end()
}

async fn serving_certificate_is_signed_by_the_cluster(agent: Agent) -> Result<()> {
    let options = AgentOptions { overlay: json!({"serverTLSBootstrap": true}), ..AgentOptions::default() };
    let node = ClusterNode::start_with(agent, Joining::WithCertificate, &options).await?;
    ensure!(raw(&node, "/healthz").await.is_err(), "answered without a certificate");
    // No controller approves these; a client that requests a certificate for the node's name must be the node.
    let request = node
        .wait("a request for a certificate", async || {
            let all = node.get(&["certificatesigningrequests"]).await?;
            let mut all = all["items"].as_array().cloned().unwrap_or_default().into_iter();
            let own = |request: &Value| {
                request["spec"]["signerName"] == "kubernetes.io/kubelet-serving"
                    && request["spec"]["username"] == format!("system:node:{}", node.name).as_str()
            };
            let found = all.find(own).context("none of this node")?;
            Ok(found["metadata"]["name"].as_str().context("a name")?.to_owned())
        })
        .await?;
    node.kubectl(&["certificate", "approve", &request]).await?;
    node.wait("the node responds", async || {
        let answer = raw(&node, "/healthz").await?;
        ensure!(answer == "ok", "{answer}");
        Ok(())
    })
    .await?;
    let metrics = raw(&node, "/metrics").await?;
    let value = |name: &str| -> Result<f64> {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(line.with_context(|| format!("no {name}"))?.parse()?)
    };
    ensure!(value("kubelet_certificate_manager_server_ttl_seconds")? > 60.0);
    ensure!(value("kubelet_server_expiration_renew_errors")? == 0.0);
    // The node is new, so its startup duration was measured.
    ensure!(value("kubelet_node_startup_duration_seconds")? > 0.0);
    ensure!(value("kubelet_node_startup_registration_duration_seconds")? > 0.0);
    ensure!(metrics.contains("rest_client_requests_total{code=\"201\",host="), "{metrics}");
    ensure!(metrics.contains("rest_client_request_duration_seconds_bucket{host="), "{metrics}");
    node.end()
}
