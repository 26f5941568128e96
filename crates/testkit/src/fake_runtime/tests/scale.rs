use super::super::RuntimeState;
use super::*;

/// Guards against quadratic work, not against a slow machine: a thousand pods take well under a second or two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handles_a_thousand_pods_quickly() {
    let (fake, client) = node_in_memory();
    let mut pods = tokio::task::JoinSet::new();
    for number in 0..1_000 {
        let mut client = client.clone();
        pods.spawn(async move { client.running(&format!("uid-{number}")).await });
    }
    pods.join_all().await;
    assert_eq!(fake.read(RuntimeState::running_count), 1_000);
    let mut client = client;
    for number in 0..1_000 {
        let label_selector = [(POD_UID.to_owned(), format!("uid-{number}"))].into();
        let filter = ContainerFilter { label_selector, ..Default::default() };
        assert_eq!(client.containers(filter).await.len(), 1);
    }
    assert_eq!(client.containers(ContainerFilter::default()).await.len(), 1_000);
    assert_no_violations(&fake);
}
