//! Start durations of pods, with and without image pulls and init containers.

use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{PodSpec, PodStatus};
use model::{Pod, PodUid, Timestamp};

use super::pods::PodMetrics;

/// Start and end times.
type Spans = Vec<(Timestamp, Timestamp)>;

/// Maximum number of tracked pulls per pod, because a pod that cannot start may pull forever.
const MAX_PULLS: usize = 64;

/// Image pulls of starting pods.
#[derive(Debug, Default)]
pub struct PodStarts {
    /// `None` for a pod that has run: later pulls are not part of its start.
    pulls: Mutex<HashMap<PodUid, Option<Spans>>>,
    /// Pods whose start is not measured.
    left_out: Mutex<HashSet<PodUid>>,
    network_seen: AtomicBool,
}

impl PodStarts {
    pub fn pulled(&self, uid: &PodUid, began: Timestamp, ended: Timestamp) {
        if self.is_left_out(uid) {
            return;
        }
        let mut pulls = self.pulls.lock();
        let own = pulls.entry(uid.clone()).or_insert_with(|| Some(Vec::new()));
        if let Some(own) = own.as_mut().filter(|own| own.len() < MAX_PULLS) {
            own.push((began, ended));
        }
    }

    /// A pod was added. Excludes pods that started before this agent, and pods that waited for the scheduler.
    pub fn seen(&self, uid: &PodUid, status: &PodStatus) {
        if status.start_time.is_some() || is_unscheduled(status) {
            self.left_out.lock().insert(uid.clone());
        }
    }

    pub fn running(&self, metrics: &PodMetrics, pod: &Pod, status: &PodStatus, now: Timestamp) {
        metrics.start_duration.observe(now.since(pod.first_seen()).as_secs_f64());
        let pulls = self.pulls.lock().insert(pod.uid.clone(), None);
        let left_out = self.is_left_out(&pod.uid);
        // Static pods have no meaningful creation time.
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
        self.left_out.lock().contains(uid)
    }

    pub fn forget(&self, uid: &PodUid) {
        self.pulls.lock().remove(uid);
        self.left_out.lock().remove(uid);
    }
}

/// The time that is covered by at least one span.
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

/// Whether a pod has a persistent volume.
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

    /// The metrics of a pod that runs after 20 seconds.
    fn metrics_of(starts: &PodStarts, pod: &Pod) -> String {
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
    fn start_sli_excludes_pulls_and_init_containers() {
        let pod = pod(&json!({"name": "v", "emptyDir": {}}));
        let at = |seconds| pod.created_at().after(Duration::from_secs(seconds));
        let starts = PodStarts::default();
        starts.seen(&pod.uid, &pod.status);
        // The second lies within the first; between the first and the third the init container runs.
        for (began, ended) in [(1, 5), (3, 4), (13, 15)] {
            starts.pulled(&pod.uid, at(began), at(ended));
        }
        let text = metrics_of(&starts, &pod);
        for line in [
            "kubelet_pod_start_total_duration_seconds_sum 20\n",
            "kubelet_pod_start_sli_duration_seconds_sum 12\n",
            "kubelet_first_network_pod_start_sli_duration_seconds 12\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        starts.pulled(&pod.uid, at(30), at(40));
        assert_eq!(starts.pulls.lock()[&pod.uid], None, "what comes later is not kept");
        starts.forget(&pod.uid);
        assert!(starts.pulls.lock().is_empty());
    }

    #[test]
    fn tracks_a_limited_number_of_pulls() {
        let starts = PodStarts::default();
        let uid = PodUid::from("u");
        for second in 0..1000 {
            starts.pulled(&uid, Timestamp::from_secs(second), Timestamp::from_secs(second + 1));
        }
        assert_eq!(starts.pulls.lock()[&uid].as_ref().unwrap().len(), MAX_PULLS);
    }

    #[test]
    fn pods_with_persistent_volumes_count_only_in_total() {
        let text = metrics_of(&PodStarts::default(), &pod(&json!({"name": "v", "hostPath": {"path": "/"}})));
        counts(&text, 1, 0);
    }

    #[test]
    fn excludes_unscheduled_and_earlier_pods() {
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
            counts(&metrics_of(&starts, &pod), 0, 0);
            starts.forget(&pod.uid);
            counts(&metrics_of(&starts, &pod), 1, 1);
        }
    }
}
