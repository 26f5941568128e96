//! Cluster trust bundles and pod certificates as projected files.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use base64::prelude::{BASE64_STANDARD, Engine};
use scenarios::{Agent, AgentOptions, ClusterNode, Joining, container, pod, scenarios, with};
use serde_json::{Value, json};
use testkit::control_plane::{PodSigner, unknown_authority};

scenarios!(trust_bundles_are_projected_as_files, projects_and_renews_pod_certificate);

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

/// The base64 content of a file's PEM certificates.
fn anchors(text: &str) -> BTreeSet<String> {
    let parts =
        text.split("-----END CERTIFICATE-----").filter_map(|part| part.split_once("CERTIFICATE-----"));
    parts.map(|(_, body)| body.split_whitespace().collect()).collect()
}

async fn trust_bundles_are_projected_as_files(agent: Agent) -> Result<()> {
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

async fn projects_and_renews_pod_certificate(agent: Agent) -> Result<()> {
    let gates = json!({"featureGates": {"PodCertificateRequest": true}});
    let options = AgentOptions { overlay: gates, ..AgentOptions::default() };
    let mut node = ClusterNode::start_with(agent, Joining::WithCertificate, &options).await?;
    let signer = format!("{}.test/pods", node.name);
    let own = json!({"signerName": signer, "keyType": "ECDSAP256", "credentialBundlePath": "own.pem"});
    let volumes = json!([{"name": "own", "projected": {"sources": [{"podCertificate": own}]}}]);
    let mut main = container("main", "sleep forever");
    main["volumeMounts"] = json!([{"name": "own", "mountPath": "/own"}]);
    node.apply(&with(pod("web", [main]), "/spec/volumes", volumes)).await?;
    let request = node
        .wait("the certificate is requested", async || {
            let all = node.get(&["podcertificaterequests"]).await?;
            all["items"].get(0).cloned().context("no certificate request")
        })
        .await?;
    let requested = &request["spec"];
    ensure!(requested["signerName"] == signer.as_str() && requested["podName"] == "web", "{requested}");
    ensure!(requested["nodeName"] == node.name.as_str(), "{requested}");
    ensure!(node.running("web").await?.is_empty(), "it runs without its certificate");
    let name = request["metadata"]["name"].as_str().context("a name")?;
    let certificate = issue(&node, name, requested).await?;

    let web = node.wait_running("web").await?;
    let bundle = std::fs::read_to_string(node.volume(&web.uid, "projected", "own").join("own.pem"))?;
    ensure!(anchors(&bundle) == anchors(&certificate), "{bundle}");
    ensure!(bundle.contains("PRIVATE KEY-----"), "no key");
    // The restarted agent requests a new certificate and keeps the old one until it is issued.
    node.restart_agent_unseen().await?;
    let after = std::fs::read_to_string(node.volume(&web.uid, "projected", "own").join("own.pem"))?;
    ensure!(after == bundle, "{after}");
    node.end()
}

/// Acts as the signer; returns the certificate.
async fn issue(node: &ClusterNode, name: &str, requested: &Value) -> Result<String> {
    let proof =
        BASE64_STANDARD.decode(requested["stubPKCS10Request"].as_str().context("a proof of the key")?)?;
    let signed = PodSigner::create()?.sign(&proof)?;
    let time = |seconds: i64| jiff::Timestamp::from_second(seconds).map(|time| time.to_string());
    let issued = json!({
        "type": "Issued", "status": "True", "reason": "Test", "message": "signed by the test",
        "lastTransitionTime": time(signed.not_before)?,
    });
    let status = json!({"status": {
        "conditions": [issued],
        "certificateChain": signed.certificate,
        "notBefore": time(signed.not_before)?,
        "beginRefreshAt": time(signed.not_after - 3600)?,
        "notAfter": time(signed.not_after)?,
    }});
    let patch = ["--subresource=status", "--type=merge", "-p", &status.to_string()].map(str::to_owned);
    let mut all = vec!["patch", "podcertificaterequest", name];
    all.extend(patch.iter().map(String::as_str));
    node.kubectl(&all).await?;
    Ok(signed.certificate)
}
