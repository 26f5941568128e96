use k8s_openapi::api::core::v1::{self as core, Container, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use model::Standing;
use proptest::prelude::*;

use super::*;

fn pod(uid: &str, name: &str, image: &str) -> Arc<Pod> {
    let object = core::Pod {
        metadata: ObjectMeta {
            uid: Some(uid.into()),
            name: Some(name.into()),
            namespace: Some("default".into()),
            ..Default::default()
        },
        spec: Some(PodSpec {
            containers: vec![Container { name: "c".into(), image: Some(image.into()), ..Default::default() }],
            ..Default::default()
        }),
        status: None,
    };
    Pod::from_object(object, PodSource::File).unwrap().shared()
}

fn edited(pod: &Arc<Pod>, edit: impl FnOnce(&mut Pod)) -> Arc<Pod> {
    let mut pod = Pod::clone(pod);
    edit(&mut pod);
    Arc::new(pod)
}

fn set(pods: Vec<Arc<Pod>>) -> Snapshot {
    Snapshot { source: PodSource::File, kind: SnapshotKind::Set, pods }
}

fn restore(pods: Vec<Arc<Pod>>) -> Snapshot {
    Snapshot { source: PodSource::File, kind: SnapshotKind::Restore, pods }
}

const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);

/// Merges the snapshots in order and compares the operations of the last merge.
fn check(snapshots: Vec<Snapshot>, expected: &[(Operation, &[&str])]) {
    let mut source_pods = SourcePods::default();
    let mut last = MergeResult::default();
    for snapshot in snapshots {
        last = merge(&mut source_pods, snapshot, NOW);
    }
    let got: Vec<_> = last
        .updates
        .iter()
        .map(|update| (update.operation, update.pods.iter().map(|pod| pod.uid.as_str()).collect::<Vec<_>>()))
        .collect();
    let expected: Vec<_> = expected.iter().map(|(operation, uids)| (*operation, uids.to_vec())).collect();
    assert_eq!(got, expected);
}

#[test]
fn adds_new_pods() {
    check(vec![set(vec![pod("1", "a", "x")])], &[(Operation::Add, &["1"])]);
}

#[test]
fn empty_first_set_marks_source_as_seen() {
    check(vec![set(vec![])], &[(Operation::Add, &[])]);
}

#[test]
fn repeated_empty_set_has_no_updates() {
    check(vec![set(vec![]), set(vec![])], &[]);
}

#[test]
fn equal_set_has_no_updates() {
    check(vec![set(vec![pod("1", "a", "x")]), set(vec![pod("1", "a", "x")])], &[]);
}

#[test]
fn changed_spec_is_an_update() {
    check(vec![set(vec![pod("1", "a", "x")]), set(vec![pod("1", "a", "y")])], &[(Operation::Update, &["1"])]);
}

#[test]
fn removes_missing_pods_before_adding_new_ones() {
    check(
        vec![set(vec![pod("1", "a", "x")]), set(vec![pod("2", "a", "x")])],
        &[(Operation::Remove, &["1"]), (Operation::Add, &["2"])],
    );
}

#[test]
fn deletion_timestamp_is_a_delete() {
    let deleted = edited(&pod("1", "a", "x"), |pod| {
        pod.metadata.deletion_timestamp = Some(NOW.to_api_time());
    });
    check(vec![set(vec![pod("1", "a", "x")]), set(vec![deleted])], &[(Operation::Delete, &["1"])]);
}

#[test]
fn status_change_alone_is_a_reconcile() {
    let other = edited(&pod("1", "a", "x"), |pod| pod.status.phase = Some("Running".into()));
    check(vec![set(vec![pod("1", "a", "x")]), set(vec![other])], &[(Operation::Reconcile, &["1"])]);
}

#[test]
fn local_annotations_are_not_a_change() {
    let other = edited(&pod("1", "a", "x"), |pod| {
        pod.metadata
            .annotations
            .get_or_insert_default()
            .insert(labels::CONFIG_SEEN.into(), "2001-01-01T00:00:00Z".into());
    });
    check(vec![set(vec![pod("1", "a", "x")]), set(vec![other])], &[]);
}

#[test]
fn other_annotations_are_a_change() {
    let other = edited(&pod("1", "a", "x"), |pod| {
        pod.metadata.annotations.get_or_insert_default().insert("a".into(), "b".into());
    });
    check(vec![set(vec![pod("1", "a", "x")]), set(vec![other])], &[(Operation::Update, &["1"])]);
}

#[test]
fn first_seen_time_is_kept_over_updates() {
    let mut source_pods = SourcePods::default();
    merge(&mut source_pods, set(vec![pod("1", "a", "x")]), NOW);
    merge(&mut source_pods, set(vec![pod("1", "a", "y")]), NOW.after(std::time::Duration::from_secs(60)));
    assert_eq!(source_pods.pods().next().unwrap().first_seen(), NOW);
}

#[test]
fn annotated_pod_is_shared_instead_of_copied() {
    let marked = edited(&pod("1", "a", "x"), |pod| {
        let annotations = pod.metadata.annotations.get_or_insert_default();
        annotations.insert(labels::CONFIG_SOURCE.into(), "file".into());
        annotations.insert(labels::CONFIG_SEEN.into(), NOW.to_rfc3339());
    });
    let mut source_pods = SourcePods::default();
    merge(&mut source_pods, set(vec![Arc::clone(&marked)]), NOW.after(std::time::Duration::from_secs(9)));
    assert!(Arc::ptr_eq(source_pods.pods().next().unwrap(), &marked));
}

#[test]
fn drops_second_pod_with_same_name() {
    let mut source_pods = SourcePods::default();
    let merged = merge(&mut source_pods, set(vec![pod("1", "a", "x"), pod("2", "a", "x")]), NOW);
    assert_eq!(merged.duplicates.len(), 1);
    assert_eq!(source_pods.pods().count(), 1);
}

#[test]
fn restored_pods_do_not_mark_source_as_seen() {
    let mut source_pods = SourcePods::default();
    let merged = merge(&mut source_pods, restore(vec![pod("1", "a", "x")]), NOW);
    assert_eq!(merged.updates[0].operation, Operation::Restore);
    assert!(!source_pods.has_snapshot);
}

#[test]
fn set_after_restore_adds_removes_and_keeps() {
    check(
        vec![
            restore(vec![pod("1", "a", "x"), pod("2", "b", "x")]),
            set(vec![pod("2", "b", "x"), pod("3", "c", "x")]),
        ],
        &[(Operation::Remove, &["1"]), (Operation::Add, &["3"])],
    );
}

#[test]
fn unchanged_first_set_after_restore_marks_source_as_seen() {
    check(vec![restore(vec![pod("1", "a", "x")]), set(vec![pod("1", "a", "x")])], &[(Operation::Add, &[])]);
}

#[test]
fn confirmed_cached_pod_is_reconciled() {
    let mut cached = Pod::clone(&pod("1", "a", "x"));
    cached.standing = Standing::Remembered;
    check(
        vec![restore(vec![Arc::new(cached)]), set(vec![pod("1", "a", "x")])],
        &[(Operation::Add, &[]), (Operation::Reconcile, &["1"])],
    );
}

fn any_set() -> impl Strategy<Value = Vec<Arc<Pod>>> {
    proptest::collection::btree_map(0u8..6, 0u8..3, 0..6).prop_map(|pods| {
        pods.into_iter()
            .map(|(id, image)| pod(&format!("u{id}"), &format!("n{id}"), &format!("i{image}")))
            .collect()
    })
}

proptest! {
    /// Applying the operations in order yields the set of the source.
    #[test]
    fn applying_operations_in_order_yields_the_set(sets in proptest::collection::vec(any_set(), 1..6)) {
        let mut source_pods = SourcePods::default();
        let mut applied: BTreeMap<PodUid, Arc<Pod>> = BTreeMap::new();
        for pods in sets {
            let merged = merge(&mut source_pods, set(pods.clone()), NOW);
            for update in merged.updates {
                for pod in update.pods {
                    match update.operation {
                        Operation::Remove => { prop_assert!(applied.remove(&pod.uid).is_some()); }
                        Operation::Add => { prop_assert!(applied.insert(pod.uid.clone(), pod).is_none()); }
                        Operation::Update => { prop_assert!(applied.insert(pod.uid.clone(), pod).is_some()); }
                        other => prop_assert!(false, "unexpected {other:?}"),
                    }
                }
            }
            let desired: Vec<_> = pods.iter().map(|pod| (pod.uid.clone(), pod.spec.clone())).collect();
            let got: Vec<_> = applied.values().map(|pod| (pod.uid.clone(), pod.spec.clone())).collect();
            prop_assert_eq!(got, desired);
        }
    }

    /// Sending the same set again changes nothing.
    #[test]
    fn merging_is_idempotent(pods in any_set()) {
        let mut source_pods = SourcePods::default();
        merge(&mut source_pods, set(pods.clone()), NOW);
        prop_assert!(merge(&mut source_pods, set(pods), NOW).updates.is_empty());
    }
}
