//! Many pods on a runtime that fails or hangs, and many pods one after another.

use std::time::Duration;

use serde_json::json;
use testkit::fake_runtime::{Fault, Injection};
use testkit::poll::eventually;
use tonic::Code;

use crate::node::{TIMEOUT, VirtualNode, pod};

const PODS: usize = 50;

fn uid(index: usize) -> String {
    format!("uid-{index}")
}

fn file(index: usize) -> String {
    format!("{index}.json")
}

fn write_all(node: &VirtualNode, pods: std::ops::Range<usize>) {
    for index in pods {
        node.write(&file(index), &pod(&format!("p{index}"), &uid(index), &["main"]));
    }
}

/// Short backoffs, so that a test with many failures takes seconds.
fn node_with_short_backoff() -> VirtualNode {
    let mut node = VirtualNode::new();
    node.crash_backoff =
        timing::BackoffPolicy::doubling(Duration::from_millis(10), Duration::from_millis(100));
    node
}

async fn until_folders_are_gone(node: &VirtualNode) {
    let folder = node.path("root/pods");
    let question = || async {
        let left = std::fs::read_dir(&folder).map_or(0, Iterator::count);
        anyhow::ensure!(left == 0, "{left} pod folders are left");
        Ok(())
    };
    eventually("the pod folders are gone", TIMEOUT * 3, question).await.unwrap();
}

#[tokio::test]
async fn pods_converge_and_are_deleted_although_every_fifth_call_fails() {
    let mut node = node_with_short_backoff();
    let refused = Fault::Fail(Code::Unknown, "injected".to_owned());
    let failing = node.runtime.inject(Injection::on_any(refused).percent(20));
    write_all(&node, 0..PODS);
    node.start_agent();
    for index in 0..PODS {
        node.until_running(&uid(index)).await;
    }
    assert!(failing.hits() > PODS, "only {} calls failed", failing.hits());
    for index in 0..PODS {
        node.remove(&file(index));
    }
    for index in 0..PODS {
        node.until_gone(&uid(index)).await;
    }
    until_folders_are_gone(&node).await;
    node.assert_no_violations();
}

#[tokio::test]
async fn calls_of_one_pod_that_hang_do_not_affect_others() {
    let mut node = VirtualNode::new();
    let stuck = uid(0);
    let hanging = node.runtime.inject(Injection::on_any(Fault::Hang).on(&stuck));
    write_all(&node, 0..1);
    node.start_agent();
    tokio::time::timeout(TIMEOUT, hanging.wait_hits(1)).await.unwrap();
    // The others start, restart after a change, and end, while the first pod makes no progress.
    write_all(&node, 1..PODS);
    for index in 1..PODS {
        node.until_running(&uid(index)).await;
    }
    for index in 1..PODS {
        let mut edited = pod(&format!("p{index}"), &uid(index), &["main"]);
        edited["spec"]["containers"][0]["image"] = json!("example.com/other:2");
        node.write(&file(index), &edited);
    }
    for index in 1..PODS {
        node.until_status(&uid(index), |status| {
            let restarted = status.container_statuses.iter().flatten().all(|one| one.restart_count == 1);
            restarted && status.phase.as_deref() == Some("Running")
        })
        .await;
    }
    for index in 1..PODS {
        node.remove(&file(index));
    }
    for index in 1..PODS {
        node.until_gone(&uid(index)).await;
    }
    assert!(node.containers(&stuck).is_empty(), "the pod that hangs has made progress");
    hanging.release();
    node.until_running(&stuck).await;
    node.assert_no_violations();
}
