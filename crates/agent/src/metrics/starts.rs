//! How long starts of pods take, with and without what the agent cannot help.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{PodSpec, PodStatus};
use model::{Pod, PodUid, Timestamp};

use super::PodMetrics;

/// Times of begin and end.
type Spans = Vec<(Timestamp, Timestamp)>;

/// Pulls that are kept of one pod: one that cannot start may pull for ever.
const MOST_PULLS: usize = 64;

/// When the images of pods that start were pulled.
#[derive(Debug, Default)]
pub struct PodStarts {
    /// `None` for a pod that has run: what it pulls later is no part of its start.
    pulls: Mutex<HashMap<PodUid, Option<Spans>>>,
    /// Pods whose way to running is not measured.
    left_out: Mutex<HashSet<PodUid>>,
    network_seen: AtomicBool,
}

impl PodStarts {
    /// An image of a pod was pulled.
    pub fn pulled(&self, uid: &PodUid, began: Timestamp, ended: Timestamp) {
        if self.is_left_out(uid) {
            return;
        }
        let mut pulls = self.pulls.lock().unwrap_or_else(PoisonError::into_inner);
        let own = pulls.entry(uid.clone()).or_insert_with(|| Some(Vec::new()));
        if let Some(own) = own.as_mut().filter(|own| own.len() < MOST_PULLS) {
            own.push((began, ended));
        }
    }

    /// A pod is there, with what the API server says of it. One that was begun before says nothing of this agent, and
    /// one that waited for a node says nothing of any.
    pub fn seen(&self, uid: &PodUid, status: &PodStatus) {
        if status.start_time.is_some() || is_unscheduled(status) {
            self.left_out.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.clone());
        }
    }

    /// A pod runs for the first time.
    pub fn running(&self, metrics: &PodMetrics, pod: &Pod, status: &PodStatus, now: Timestamp) {
        metrics.start_duration.observe(now.since(pod.first_seen()).as_secs_f64());
        let pulls = self.pulls.lock().unwrap_or_else(PoisonError::into_inner).insert(pod.uid.clone(), None);
        let left_out = self.is_left_out(&pod.uid);
        // The node made static pods up itself; their creation says nothing.
        if pod.is_static() || left_out || is_unscheduled(&pod.status) {
            return;
        }
        let total = now.since(pod.created_at());
        metrics.start_total_duration.observe(total.as_secs_f64());
        if is_stateful(&pod.spec) {
            return;
        }
        let pulls = covered(pulls.flatten().unwrap_or_default());
        let own = total.saturating_sub(pulls).saturating_sub(init_time(status)).as_secs_f64();
        metrics.start_sli_duration.observe(own);
        if !pod.is_host_network() && !self.network_seen.swap(true, Ordering::Relaxed) {
            metrics.first_network_start_sli.set(own);
        }
    }

    fn is_left_out(&self, uid: &PodUid) -> bool {
        self.left_out.lock().unwrap_or_else(PoisonError::into_inner).contains(uid)
    }

    /// A pod is over.
    pub fn forget(&self, uid: &PodUid) {
        self.pulls.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
        self.left_out.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}

/// The time that at least one of these spans covers.
fn covered(mut spans: Spans) -> Duration {
    spans.sort();
    let mut reached = Timestamp::ZERO;
    let mut sum = Duration::ZERO;
    for (began, ended) in spans {
        sum += ended.since(began.max(reached));
        reached = reached.max(ended);
    }
    sum
}

/// Whether a pod has a volume that may outlive it.
fn is_stateful(spec: &PodSpec) -> bool {
    spec.volumes.iter().flatten().any(|volume| {
        volume.secret.is_none()
            && volume.config_map.is_none()
            && volume.downward_api.is_none()
            && volume.empty_dir.is_none()
            && volume.projected.is_none()
    })
}

/// Whether no node was found for a pod at once.
fn is_unscheduled(status: &PodStatus) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|condition| condition.type_ == "PodScheduled" && condition.status == "False")
}

/// How long init containers ran that have ended.
fn init_time(status: &PodStatus) -> Duration {
    let init = status.init_container_statuses.iter().flatten();
    let ended = init.filter_map(|own| own.state.as_ref()?.terminated.as_ref());
    ended
        .filter_map(|end| Some((end.started_at.as_ref()?, end.finished_at.as_ref()?)))
        .map(|(began, ended)| Timestamp::from_api_time(ended).since(Timestamp::from_api_time(began)))
        .sum()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1 as core;
    use model::PodSource;
    use serde_json::json;

    use super::super::{Format, Page};
    use super::*;

    fn pod(volume: &serde_json::Value) -> Pod {
        let object: core::Pod = serde_json::from_value(json!({
            "metadata": {"uid": "u", "name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"containers": [{"name": "c"}], "volumes": [volume]},
            "status": {"initContainerStatuses": [{
                "name": "i", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "state": {"terminated": {"exitCode": 0, "startedAt": "2026-01-01T00:00:10Z", "finishedAt": "2026-01-01T00:00:12Z"}},
            }]},
        }))
        .unwrap();
        Pod::from_object(object, PodSource::Api).unwrap()
    }

    /// What is told of a pod that runs after 20 seconds.
    fn told(starts: &PodStarts, pod: &Pod) -> String {
        let metrics = PodMetrics::default();
        let now = pod.created_at().after(Duration::from_secs(20));
        starts.running(&metrics, pod, &pod.status, now);
        let mut page = Page::new(Format::Text);
        metrics.write(&mut page);
        page.into_text()
    }

    fn counts(text: &str, total: u32, own: u32) {
        for (family, count) in [("total", total), ("sli", own)] {
            let line = format!("kubelet_pod_start_{family}_duration_seconds_count {count}\n");
            assert!(text.contains(&line), "{line} in {text}");
        }
    }

    #[test]
    fn pulls_and_init_containers_are_not_the_agents_time() {
        let pod = pod(&json!({"name": "v", "emptyDir": {}}));
        let at = |seconds| pod.created_at().after(Duration::from_secs(seconds));
        let starts = PodStarts::default();
        starts.seen(&pod.uid, &pod.status);
        // The second lies within the first; between the first and the third the init container runs.
        for (began, ended) in [(1, 5), (3, 4), (13, 15)] {
            starts.pulled(&pod.uid, at(began), at(ended));
        }
        let text = told(&starts, &pod);
        for line in [
            "kubelet_pod_start_total_duration_seconds_sum 20\n",
            "kubelet_pod_start_sli_duration_seconds_sum 12\n",
            "kubelet_first_network_pod_start_sli_duration_seconds 12\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        starts.pulled(&pod.uid, at(30), at(40));
        assert_eq!(starts.pulls.lock().unwrap()[&pod.uid], None, "what comes later is not kept");
        starts.forget(&pod.uid);
        assert!(starts.pulls.lock().unwrap().is_empty());
    }

    #[test]
    fn a_pod_that_pulls_for_ever_is_not_remembered_for_ever() {
        let starts = PodStarts::default();
        let uid = PodUid::from("u");
        for second in 0..1000 {
            starts.pulled(&uid, Timestamp::from_secs(second), Timestamp::from_secs(second + 1));
        }
        assert_eq!(starts.pulls.lock().unwrap()[&uid].as_ref().unwrap().len(), MOST_PULLS);
    }

    #[test]
    fn pods_with_lasting_volumes_are_told_in_total_alone() {
        let text = told(&PodStarts::default(), &pod(&json!({"name": "v", "hostPath": {"path": "/"}})));
        counts(&text, 1, 0);
    }

    #[test]
    fn pods_that_waited_for_a_node_or_were_begun_before_are_left_out() {
        let mut waited = pod(&json!({"name": "v", "emptyDir": {}}));
        let mut begun = waited.clone();
        begun.status.start_time = Some(begun.created_at().to_api_time());
        let condition = core::PodCondition {
            type_: "PodScheduled".into(),
            status: "False".into(),
            ..core::PodCondition::default()
        };
        waited.status.conditions = Some(vec![condition]);
        for mut pod in [waited, begun] {
            let starts = PodStarts::default();
            starts.seen(&pod.uid, &pod.status);
            pod.status = PodStatus::default();
            counts(&told(&starts, &pod), 0, 0);
            starts.forget(&pod.uid);
            counts(&told(&starts, &pod), 1, 1);
        }
    }
}
