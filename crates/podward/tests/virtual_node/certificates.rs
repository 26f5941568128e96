//! Certificates that pods ask for.

use serde_json::{Value, json};
use testkit::poll::eventually;

use crate::cluster::Cluster;
use crate::node::{PATIENCE, VirtualNode, pod};

/// A pod that somebody put on this node, with a certificate of its own.
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
async fn a_pod_that_must_stop_does_not_wait_for_its_certificate() {
    let is_root = rustix::process::geteuid().is_root();
    assert!(is_root, "the files of the certificate lie in memory that is mounted: run this test as root");
    let (mut node, cluster) = (VirtualNode::new(), Cluster::default());
    node.cluster = Some(cluster.clone());
    node.start_agent();
    cluster.pods.put(certified());
    node.until_running("certified").await;
    // Each agent asks anew; this one is still at it when the pod is deleted.
    node.kill_agent().await;
    let before = cluster.certificates_asked();
    cluster.keep_certificates_waiting();
    node.start_agent();
    let asked = || async {
        anyhow::ensure!(cluster.certificates_asked() > before, "nobody has asked");
        Ok(())
    };
    eventually("the certificate is asked for", PATIENCE, asked).await.unwrap();
    cluster.pods.delete_gracefully("certified", 1);
    node.until_gone("certified").await;
    node.assert_no_violations();
}
