use model::PodSource;
use serde_json::json;

use super::*;
use crate::test_checkpoints::Files;

fn pod(uid: &str, cpu: Option<&str>) -> Arc<Pod> {
    let resources = cpu.map(|cpu| json!({"requests": {"cpu": cpu}}));
    let object = json!({
        "metadata": {"name": uid, "uid": uid}, "spec": {"containers": [{"name": "c", "resources": resources}]},
    });
    Arc::new(Pod::from_object(serde_json::from_value(object).unwrap(), PodSource::Api).unwrap())
}

fn fresh(files: &Arc<Files>) -> Allocations {
    Allocations::restore(files.clone(), None, None).unwrap()
}

#[tokio::test]
async fn grants_outlive_the_agent() {
    let files = Arc::new(Files::default());
    let allocations = fresh(&files);
    allocations.grant(&pod("a", Some("1")));
    allocations.saved(&"a".into()).await.unwrap();
    let (_, content) = files.read(ALLOCATED).unwrap();
    let again = Allocations::restore(files, Some(&content), None).unwrap();
    let asked = pod("a", Some("2"));
    assert!(again.differs(&asked));
    assert_eq!(again.granted(&asked).spec, pod("a", Some("1")).spec);
    again.grant(&asked);
    assert!(!again.differs(&asked));
}

#[tokio::test]
async fn many_changes_are_one_write_and_no_change_is_none() {
    let files = Arc::new(Files::default());
    let allocations = fresh(&files);
    allocations.saved(&"pod-1".into()).await.unwrap();
    assert_eq!(files.read(ALLOCATED), None);
    for index in 0..50 {
        allocations.grant(&pod(&format!("pod-{index}"), Some("1")));
    }
    let uids: Vec<PodUid> = (0..50).map(|index| format!("pod-{index}").as_str().into()).collect();
    futures::future::try_join_all(uids.iter().map(|uid| allocations.saved(uid))).await.unwrap();
    let (writes, content) = files.read(ALLOCATED).unwrap();
    assert_eq!((writes, checkpoint::decode(&content).unwrap().len()), (1, 50));
    allocations.grant(&pod("pod-1", Some("1")));
    allocations.saved(&"pod-1".into()).await.unwrap();
    assert_eq!(files.read(ALLOCATED).unwrap().0, 1);
}

#[tokio::test]
async fn pods_that_ask_for_nothing_cost_no_write() {
    let files = Arc::new(Files::default());
    let allocations = fresh(&files);
    let plain = pod("plain", None);
    allocations.grant(&plain);
    allocations.note_container(&plain.uid, "c", ResourceRequirements::default());
    allocations.saved(&plain.uid).await.unwrap();
    allocations.noted(&plain.uid).await.unwrap();
    assert!(files.read(ALLOCATED).is_none() && files.read(ACTUATED).is_none());
    // Once it asks for something, that differs from the nothing it was granted.
    assert!(allocations.differs(&pod("plain", Some("1"))));
}

#[tokio::test]
async fn a_grant_that_cannot_be_written_holds_up_its_own_pod_alone() {
    let files = Arc::new(Files::default());
    let allocations = fresh(&files);
    let old = pod("old", Some("1"));
    allocations.grant(&old);
    allocations.note_container(
        &old.uid,
        "c",
        resources_of(&old).containers.get("c").unwrap().as_ref().clone(),
    );
    allocations.saved(&old.uid).await.unwrap();
    allocations.noted(&old.uid).await.unwrap();
    files.fail(1);
    let new = pod("new", Some("1"));
    allocations.grant(&new);
    assert!(allocations.saved(&new.uid).await.is_err());
    allocations.saved(&old.uid).await.unwrap();
    allocations.noted(&old.uid).await.unwrap();
    allocations.saved(&new.uid).await.unwrap();
}

#[test]
fn a_damaged_record_is_an_error_that_names_the_file() {
    let files = Arc::new(Files::default());
    let error = Allocations::restore(files, None, Some(b"{}")).err().unwrap().to_string();
    assert!(
        error.starts_with("could not restore state from checkpoint: ") && error.contains(ACTUATED),
        "{error}"
    );
}

#[test]
fn listeners_hear_of_changes_only() {
    let allocations = fresh(&Arc::new(Files::default()));
    let (sender, mut receiver) = mpsc::unbounded_channel();
    allocations.tell(sender);
    let pod = pod("a", Some("1"));
    allocations.grant(&pod);
    assert_eq!(receiver.try_recv().unwrap(), pod.uid);
    allocations.change(&pod.uid, |_| ());
    assert!(receiver.try_recv().is_err());
    let now = model::Timestamp::from_nanos(1);
    allocations.change(&pod.uid, |own| decide::allocation::set_in_progress(own, 1, now));
    assert_eq!(receiver.try_recv().unwrap(), pod.uid);
    allocations.forget(&pod.uid);
    assert_eq!(allocations.get(&pod.uid), None);
}
