//! Disk use of the files of pods: logs, termination messages, volumes.
//!
//! Logs and messages are a few files and are measured on each request. Volumes can be large trees: they are measured in the
//! background ([`VolumeUsage`]), and a request gets the last figures.

use std::collections::{BTreeMap, BTreeSet};

use decide::statistics::locations::pod_files;
use decide::statistics::readings::RunningPod;
use decide::statistics::summary::PodFilesReading;
use model::PodUid;
use model::usage::DiskUse;

use super::StatisticsDeps;
use super::volume_usage::VolumeUsage;

/// The disk use of these pods.
pub(super) async fn of_pods(
    deps: &StatisticsDeps,
    volumes: &VolumeUsage,
    pods: &[RunningPod],
) -> BTreeMap<PodUid, PodFilesReading> {
    let uids: Vec<PodUid> = pods.iter().map(|pod| pod.uid.clone()).collect();
    volumes.retain(|uid| deps.observer.last(uid).is_some());
    let (mut files, mut measured) = tokio::join!(logs(deps, pods), volumes.figures(uids));
    for (uid, files) in &mut files {
        let volumes = measured.remove(uid).unwrap_or_default();
        (files.volumes, files.is_complete) = (volumes.readings, volumes.is_complete);
    }
    files
}

/// Measures container logs and the other files of a pod.
async fn logs(deps: &StatisticsDeps, pods: &[RunningPod]) -> BTreeMap<PodUid, PodFilesReading> {
    let mut paths = Vec::new();
    let ended: Vec<BTreeSet<String>> = pods.iter().map(|pod| ended_containers(deps, pod)).collect();
    for (pod, ended) in pods.iter().zip(&ended) {
        let places = pod_files(&pod.uid, &pod.full_name, &deps.node);
        for name in pod.containers.iter().map(|container| &container.name).chain(ended) {
            paths.extend([places.logs.join(name), places.messages.join(name)]);
        }
        paths.extend([places.logs, places.hosts]);
    }
    let mut found = deps.disks.files_in(paths).await.into_iter();
    let mut files = BTreeMap::new();
    for (pod, ended) in pods.iter().zip(ended) {
        let mut next = || found.next().flatten();
        let (mut logs, mut messages) = (BTreeMap::new(), DiskUse::default());
        for container in &pod.containers {
            if let Some(used) = next() {
                logs.insert(container.name.clone(), used);
            }
            // Every container has a file for its message; like upstream, empty ones are not counted.
            messages = messages + next().filter(|used| used.bytes > 0).unwrap_or_default();
        }
        let mut others = messages;
        for _ in ended {
            others = others + next().unwrap_or_default();
            others = others + next().filter(|used| used.bytes > 0).unwrap_or_default();
        }
        let others = others + next().unwrap_or_default() + next().unwrap_or_default();
        files.insert(pod.uid.clone(), PodFilesReading { logs, others, ..PodFilesReading::default() });
    }
    files
}

/// Names of the containers that do not run, such as init containers. They have no statistics, but their files stay.
fn ended_containers(deps: &StatisticsDeps, pod: &RunningPod) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    if let Some(spec) = deps.desired.get(&pod.uid) {
        names.extend(spec.containers().map(|container| container.container.name.clone()));
    }
    if let Some(observed) = deps.observer.last(&pod.uid) {
        names.extend(observed.containers.iter().map(|status| status.name.clone()));
    }
    for running in &pod.containers {
        names.remove(&running.name);
    }
    names
}
