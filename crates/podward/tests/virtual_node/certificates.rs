//! Pod certificates.

use serde_json::{Value, json};
use testkit::poll::eventually;

use crate::cluster::Cluster;
use crate::node::{TIMEOUT, VirtualNode, pod};

/// A pod of the API server with a certificate.
fn certified() -> Value {
    let mut pod = pod("certified", "certified", &["main"]);
    pod["metadata"]["namespace"] = json!("default");
    let spec = &mut pod["spec"];
    spec["nodeName"] = json!("node");
    spec["serviceAccountName"] = json!("app");
    spec["enableServiceLinks"] = json!(false);
    let source =
        json!({"signerName": "example.com/s", "keyType": "RSA4096", "credentialBundlePath": "bundle"});
    spec["volumes"] = json!([{"name": "v", "projected": {"sources": [{"podCertificate": source}]}}]);
    spec["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    pod
}

#[tokio::test]
#[ignore = "needs root"]
async fn deleted_pod_does_not_wait_for_its_certificate() {
    let is_root = rustix::process::geteuid().is_root();
    assert!(is_root, "the files of the certificate lie in memory that is mounted: run this test as root");
    let (mut node, cluster) = (VirtualNode::new(), Cluster::default());
    node.cluster = Some(cluster.clone());
    node.start_agent();
    cluster.pods.put(certified());
    node.until_running("certified").await;
    // Each agent requests a new certificate; this one is still waiting when the pod is deleted.
    node.kill_agent().await;
    let before = cluster.certificate_requests();
    cluster.hang_certificate_requests();
    node.start_agent();
    let asked = || async {
        anyhow::ensure!(cluster.certificate_requests() > before, "nobody has asked");
        Ok(())
    };
    eventually("the certificate is asked for", TIMEOUT, asked).await.unwrap();
    cluster.pods.delete_gracefully("certified", 1);
    node.until_gone("certified").await;
    node.assert_no_violations();
}
