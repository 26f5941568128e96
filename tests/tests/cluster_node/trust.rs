//! Trust bundles of the cluster as files.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, AgentOptions, ClusterNode, Joining, container, pod, scenarios, with};
use serde_json::{Value, json};
use testkit::control_plane::unknown_authority;

scenarios!(trust_bundles_are_files);

fn bundle(name: &str, signer: Option<&str>, zone: &str, certificates: &[&str]) -> Value {
    let mut spec = json!({"trustBundle": certificates.concat()});
    if let Some(signer) = signer {
        spec["signerName"] = json!(signer);
    }
    json!({
        "apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle",
        "metadata": {"name": name, "labels": {"zone": zone}}, "spec": spec,
    })
}

/// What lies between the marks of a file's certificates.
fn anchors(text: &str) -> BTreeSet<String> {
    let parts =
        text.split("-----END CERTIFICATE-----").filter_map(|part| part.split_once("CERTIFICATE-----"));
    parts.map(|(_, body)| body.split_whitespace().collect()).collect()
}

async fn trust_bundles_are_files(agent: Agent) -> Result<()> {
    let gates = json!({"featureGates": {"ClusterTrustBundle": true, "ClusterTrustBundleProjection": true}});
    let options = AgentOptions { overlay: gates, ..AgentOptions::default() };
    let mut node = ClusterNode::start_with(agent, Joining::WithCertificate, &options).await?;
    let (one, two, three) = (unknown_authority()?, unknown_authority()?, unknown_authority()?);
    let (plain, signer) = (format!("plain-{}", node.name), format!("{}.test/signer", node.name));
    let of_signer = |zone: &str| format!("{}:{zone}", signer.replace('/', ":"));
    node.apply(&bundle(&plain, None, "a", &[&one, &two])).await?;
    node.apply(&bundle(&of_signer("a"), Some(&signer), "a", &[&two, &three])).await?;
    node.apply(&bundle(&of_signer("b"), Some(&signer), "b", &[&three])).await?;
    let sources = json!([
        {"clusterTrustBundle": {"name": plain, "path": "plain"}},
        {"clusterTrustBundle": {"signerName": signer, "labelSelector": {}, "path": "all"}},
        {"clusterTrustBundle": {
            "signerName": signer, "labelSelector": {"matchLabels": {"zone": "b"}}, "path": "b",
        }},
        {"clusterTrustBundle": {"name": format!("gone-{}", node.name), "optional": true, "path": "none"}},
    ]);
    let volumes = json!([{"name": "trust", "projected": {"sources": sources}}]);
    let mut main = container("main", "sleep forever");
    main["volumeMounts"] = json!([{"name": "trust", "mountPath": "/trust"}]);
    node.apply(&with(pod("web", [main]), "/spec/volumes", volumes)).await?;
    let web = node.wait_running("web").await?;
    let folder = node.volume(&web.uid, "projected", "trust");
    let expected =
        [("plain", vec![&one, &two]), ("all", vec![&two, &three]), ("b", vec![&three]), ("none", vec![])];
    for (name, certificates) in expected {
        let text = std::fs::read_to_string(folder.join(name)).with_context(|| format!("read {name}"))?;
        let certificates = certificates.into_iter().flat_map(|one| anchors(one)).collect();
        ensure!(anchors(&text) == certificates, "{name}: {text}");
        ensure!(text.matches("BEGIN").count() == anchors(&text).len(), "{name} has one twice: {text}");
    }
    node.restart_agent_unseen().await?;
    for name in [&plain, &of_signer("a"), &of_signer("b")] {
        node.kubectl(&["delete", "clustertrustbundle", name]).await?;
    }
    node.end()
}
