//! Turns the snapshots of one source into the smallest set of changes.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use model::{
    Operation, Pod, PodFullName, PodSource, PodUid, PodUpdate, Snapshot, SnapshotKind, Timestamp, labels,
};

/// The desired pods of one source, as last merged.
#[derive(Clone, Debug, Default)]
pub struct SourcePods {
    pods: BTreeMap<PodUid, Arc<Pod>>,
    has_snapshot: bool,
}

impl SourcePods {
    pub fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.values()
    }
}

#[derive(Debug, Default)]
pub struct MergeResult {
    /// Changes in delivery order. None is empty, except an `Add` that marks the source as seen.
    pub updates: Vec<PodUpdate>,
    /// Pods that were dropped because an earlier pod of the same snapshot has the same name or UID.
    pub duplicates: Vec<Arc<Pod>>,
}

/// Merges a snapshot into the previous pods of its source.
pub fn merge(source_pods: &mut SourcePods, snapshot: Snapshot, now: Timestamp) -> MergeResult {
    let source = snapshot.source;
    let first = !source_pods.has_snapshot && snapshot.kind == SnapshotKind::Set;
    let (pods, duplicates) = without_duplicates(snapshot.pods);
    let mut changes = Changes::default();

    match snapshot.kind {
        SnapshotKind::Restore => {
            for pod in pods {
                if !source_pods.pods.contains_key(&pod.uid) {
                    let pod =
                        annotated(&pod, source, pod.annotation(labels::CONFIG_SEEN).map(str::to_owned), now);
                    source_pods.pods.insert(pod.uid.clone(), Arc::clone(&pod));
                    changes.restored.push(pod);
                }
            }
        }
        SnapshotKind::Set => {
            source_pods.has_snapshot = true;
            let mut previous = std::mem::take(&mut source_pods.pods);
            for pod in pods {
                let merged = match previous.remove(&pod.uid) {
                    None => changes.add(&pod, source, now),
                    Some(existing) => changes.compare(existing, &pod, source, now),
                };
                source_pods.pods.insert(merged.uid.clone(), merged);
            }
            changes.removed = previous.into_values().collect();
        }
    }
    MergeResult { updates: changes.in_delivery_order(source, first), duplicates }
}

#[derive(Default)]
struct Changes {
    removed: Vec<Arc<Pod>>,
    added: Vec<Arc<Pod>>,
    updated: Vec<Arc<Pod>>,
    deleted: Vec<Arc<Pod>>,
    restored: Vec<Arc<Pod>>,
    reconciled: Vec<Arc<Pod>>,
}

impl Changes {
    fn add(&mut self, pod: &Arc<Pod>, source: PodSource, now: Timestamp) -> Arc<Pod> {
        let pod = annotated(pod, source, None, now);
        self.added.push(Arc::clone(&pod));
        pod
    }

    fn compare(&mut self, existing: Arc<Pod>, pod: &Arc<Pod>, source: PodSource, now: Timestamp) -> Arc<Pod> {
        if Arc::ptr_eq(&existing, pod) {
            return existing;
        }
        let seen = existing.annotation(labels::CONFIG_SEEN).map(str::to_owned);
        if differs(&existing, pod) {
            let pod = annotated(pod, source, seen, now);
            let list = if pod.is_deleted() { &mut self.deleted } else { &mut self.updated };
            list.push(Arc::clone(&pod));
            pod
        } else if existing.status == pod.status && existing.standing == pod.standing {
            existing
        } else {
            let pod = annotated(pod, source, seen, now);
            self.reconciled.push(Arc::clone(&pod));
            pod
        }
    }

    fn in_delivery_order(self, source: PodSource, first: bool) -> Vec<PodUpdate> {
        let nothing_new = self.added.is_empty() && self.updated.is_empty() && self.deleted.is_empty();
        let mut updates = Vec::new();
        let mut push = |operation, pods: Vec<Arc<Pod>>| {
            if !pods.is_empty() {
                updates.push(PodUpdate { source, operation, pods });
            }
        };
        push(Operation::Remove, self.removed);
        push(Operation::Add, self.added);
        push(Operation::Update, self.updated);
        push(Operation::Delete, self.deleted);
        push(Operation::Restore, self.restored);
        if first && nothing_new {
            updates.push(PodUpdate { source, operation: Operation::Add, pods: Vec::new() });
        }
        if !self.reconciled.is_empty() {
            updates.push(PodUpdate { source, operation: Operation::Reconcile, pods: self.reconciled });
        }
        updates
    }
}

/// Adds the local annotations: the source, and when the pod was first seen. A pod that already has them is shared instead
/// of copied.
fn annotated(pod: &Arc<Pod>, source: PodSource, seen: Option<String>, now: Timestamp) -> Arc<Pod> {
    let existing_seen = pod.annotation(labels::CONFIG_SEEN);
    let is_annotated = pod.source == source
        && pod.annotation(labels::CONFIG_SOURCE) == Some(source.as_str())
        && existing_seen
            .is_some_and(|existing_seen| seen.as_deref().is_none_or(|seen| seen == existing_seen));
    if is_annotated {
        return Arc::clone(pod);
    }
    let mut pod = Pod::clone(pod);
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(labels::CONFIG_SOURCE.to_owned(), source.as_str().to_owned());
    annotations.insert(labels::CONFIG_SEEN.to_owned(), seen.unwrap_or_else(|| now.to_rfc3339()));
    pod.source = source;
    Arc::new(pod)
}

/// Whether anything but the status and local annotations changed.
fn differs(existing: &Pod, pod: &Pod) -> bool {
    existing.spec != pod.spec
        || non_empty(&existing.metadata.labels) != non_empty(&pod.metadata.labels)
        || existing.metadata.deletion_timestamp != pod.metadata.deletion_timestamp
        || existing.metadata.deletion_grace_period_seconds != pod.metadata.deletion_grace_period_seconds
        || !other_annotations(existing).eq(other_annotations(pod))
}

fn non_empty(map: &Option<BTreeMap<String, String>>) -> Option<&BTreeMap<String, String>> {
    map.as_ref().filter(|map| !map.is_empty())
}

fn other_annotations(pod: &Pod) -> impl Iterator<Item = (&String, &String)> {
    pod.metadata
        .annotations
        .iter()
        .flatten()
        .filter(|(key, _)| !labels::LOCAL_ANNOTATIONS.contains(&key.as_str()))
}

fn without_duplicates(pods: Vec<Arc<Pod>>) -> (Vec<Arc<Pod>>, Vec<Arc<Pod>>) {
    let mut names: HashSet<&PodFullName> = HashSet::with_capacity(pods.len());
    let mut uids: HashSet<&PodUid> = HashSet::with_capacity(pods.len());
    let all_differ = pods.iter().all(|pod| names.insert(&pod.full_name) && uids.insert(&pod.uid));
    if all_differ {
        return (pods, Vec::new());
    }
    let mut names: HashSet<PodFullName> = HashSet::new();
    let mut uids: HashSet<PodUid> = HashSet::new();
    pods.into_iter().partition(|pod| {
        let new_name = names.insert(pod.full_name.clone());
        let new_uid = uids.insert(pod.uid.clone());
        new_name && new_uid
    })
}

#[cfg(test)]
mod tests;
