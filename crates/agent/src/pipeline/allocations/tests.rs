use model::PodSource;
use serde_json::json;
use testkit::builders;

use super::*;
use crate::test_checkpoints::Files;

fn pod(uid: &str, cpu: Option<&str>) -> Arc<Pod> {
    let resources = cpu.map(|cpu| json!({"requests": {"cpu": cpu}}));
    let spec = json!({"containers": [{"name": "c", "resources": resources}]});
    Arc::new(builders::pod(uid, PodSource::Api, spec))
}

fn fresh(files: &Arc<Files>) -> Allocations {
    Allocations::restore(files.clone(), None, None).unwrap()
}

#[tokio::test]
async fn allocations_survive_agent_restart() {
    let files = Arc::new(Files::default());
    let allocations = fresh(&files);
    allocations.allocate(&pod("a", Some("1")));
    allocations.flush_allocated(&"a".into()).await.unwrap();
    let (_, content) = files.read(ALLOCATED).unwrap();
    let restored = Allocations::restore(files, Some(&content), None).unwrap();
    let resized = pod("a", Some("2"));
    assert!(restored.differs_from_spec(&resized));
    assert_eq!(restored.allocated(&resized).spec, pod("a", Some("1")).spec);
    restored.allocate(&resized);
    assert!(!restored.differs_from_spec(&resized));
}

#[tokio::test]
async fn coalesces_writes_and_skips_unchanged_allocations() {
    let files = Arc::new(Files::default());
    let allocations = fresh(&files);
    allocations.flush_allocated(&"pod-1".into()).await.unwrap();
    assert_eq!(files.read(ALLOCATED), None);
    for index in 0..50 {
        allocations.allocate(&pod(&format!("pod-{index}"), Some("1")));
    }
    let uids: Vec<PodUid> = (0..50).map(|index| format!("pod-{index}").as_str().into()).collect();
    futures::future::try_join_all(uids.iter().map(|uid| allocations.flush_allocated(uid))).await.unwrap();
    let (writes, content) = files.read(ALLOCATED).unwrap();
    assert_eq!((writes, checkpoint::decode(&content).unwrap().len()), (1, 50));
    allocations.allocate(&pod("pod-1", Some("1")));
    allocations.flush_allocated(&"pod-1".into()).await.unwrap();
    assert_eq!(files.read(ALLOCATED).unwrap().0, 1);
}

/// The UIDs in a checkpoint.
fn written(files: &Files, name: &str) -> Vec<String> {
    let Some((_, content)) = files.read(name) else { return Vec::new() };
    checkpoint::decode(&content).unwrap().keys().map(ToString::to_string).collect()
}

/// Waits for the background writes of all changes so far.
async fn wait_saved() {
    tokio::time::sleep(SAVE_DELAY * 2).await;
}

#[tokio::test(start_paused = true)]
async fn pods_without_resources_are_written_later() {
    let files = Arc::new(Files::default());
    let allocations = fresh(&files);
    let plain = pod("plain", None);
    allocations.allocate(&plain);
    allocations.set_actuated_container(&plain.uid, "c", ResourceRequirements::default());
    allocations.flush_allocated(&plain.uid).await.unwrap();
    allocations.flush_actuated(&plain.uid).await.unwrap();
    assert!(files.read(ALLOCATED).is_none() && files.read(ACTUATED).is_none());
    // A later request differs from the empty allocation.
    assert!(allocations.differs_from_spec(&pod("plain", Some("1"))));
    let cancel = CancellationToken::new();
    let saver = tokio::spawn(allocations.clone().run(cancel.clone()));
    wait_saved().await;
    assert_eq!(
        (written(&files, ALLOCATED), written(&files, ACTUATED)),
        (vec!["plain".into()], vec!["plain".into()])
    );
    // Nothing is written again without a change.
    allocations.allocate(&plain);
    wait_saved().await;
    assert_eq!((files.read(ALLOCATED).unwrap().0, files.read(ACTUATED).unwrap().0), (1, 1));
    cancel.cancel();
    saver.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn removed_pods_leave_the_checkpoints_without_another_change() {
    let files = Arc::new(Files::default());
    let allocations = fresh(&files);
    for uid in ["a", "b", "c"] {
        let pod = pod(uid, Some("1"));
        allocations.allocate(&pod);
        allocations.set_actuated_pod(&pod.uid, None);
        allocations.set_actuated_container(&pod.uid, "c", ResourceRequirements::default());
    }
    let cancel = CancellationToken::new();
    let saver = tokio::spawn(allocations.clone().run(cancel.clone()));
    wait_saved().await;
    assert_eq!(written(&files, ALLOCATED), ["a", "b", "c"]);
    allocations.remove(&"a".into());
    // A failed write is repeated.
    files.fail_next_writes(1);
    wait_saved().await;
    wait_saved().await;
    assert_eq!(
        (written(&files, ALLOCATED), written(&files, ACTUATED)),
        (vec!["b".into(), "c".into()], vec!["b".into(), "c".into()])
    );
    // The last changes are written when the agent stops.
    allocations.retain(|uid| uid.as_str() == "c");
    cancel.cancel();
    saver.await.unwrap();
    assert_eq!((written(&files, ALLOCATED), written(&files, ACTUATED)), (vec!["c".into()], vec!["c".into()]));
}

#[tokio::test]
async fn failed_write_blocks_only_its_own_pod() {
    let files = Arc::new(Files::default());
    let allocations = fresh(&files);
    let old = pod("old", Some("1"));
    allocations.allocate(&old);
    allocations.set_actuated_container(
        &old.uid,
        "c",
        resources_of(&old).containers.get("c").unwrap().as_ref().clone(),
    );
    allocations.flush_allocated(&old.uid).await.unwrap();
    allocations.flush_actuated(&old.uid).await.unwrap();
    files.fail_next_writes(1);
    let new = pod("new", Some("1"));
    allocations.allocate(&new);
    assert!(allocations.flush_allocated(&new.uid).await.is_err());
    allocations.flush_allocated(&old.uid).await.unwrap();
    allocations.flush_actuated(&old.uid).await.unwrap();
    allocations.flush_allocated(&new.uid).await.unwrap();
}

#[test]
fn corrupt_checkpoint_error_names_the_file() {
    let files = Arc::new(Files::default());
    let error = Allocations::restore(files, None, Some(b"{}")).err().unwrap().to_string();
    assert!(
        error.starts_with("could not restore state from checkpoint: ") && error.contains(ACTUATED),
        "{error}"
    );
}

#[test]
fn listeners_receive_only_changes() {
    let allocations = fresh(&Arc::new(Files::default()));
    let (sender, mut receiver) = timing::key_channel();
    allocations.subscribe(sender);
    let pod = pod("a", Some("1"));
    allocations.allocate(&pod);
    assert_eq!(receiver.try_recv().unwrap(), pod.uid);
    allocations.change(&pod.uid, |_| ());
    assert!(receiver.try_recv().is_none());
    let now = model::Timestamp::from_nanos(1);
    allocations.change(&pod.uid, |allocation| {
        decide::pod_resources::allocation::set_in_progress(allocation, 1, now);
    });
    assert_eq!(receiver.try_recv().unwrap(), pod.uid);
    allocations.remove(&pod.uid);
    assert_eq!(allocations.get(&pod.uid), None);
}
