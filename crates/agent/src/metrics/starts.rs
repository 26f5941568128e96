//! How long starts of pods take, with and without what the agent cannot help.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;
use model::{Pod, PodUid, Timestamp};

use super::PodMetrics;

/// When the images of pods that start were pulled.
#[derive(Debug, Default)]
pub struct PodStarts {
    pulls: Mutex<HashMap<PodUid, (Timestamp, Timestamp)>>,
    network_seen: AtomicBool,
}

impl PodStarts {
    /// An image of a pod was pulled.
    pub fn pulled(&self, uid: &PodUid, began: Timestamp, ended: Timestamp) {
        let mut pulls = self.pulls.lock().unwrap_or_else(PoisonError::into_inner);
        let known = pulls.entry(uid.clone()).or_insert((began, ended));
        *known = (known.0.min(began), known.1.max(ended));
    }

    /// A pod runs for the first time.
    pub fn running(&self, metrics: &PodMetrics, pod: &Pod, status: &PodStatus, now: Timestamp) {
        metrics.start_duration.observe(now.since(pod.first_seen()).as_secs_f64());
        let pulled = self.forget(&pod.uid);
        // The node made static pods up itself; their creation says nothing.
        if pod.is_static() {
            return;
        }
        let total = now.since(pod.created_at());
        let pulls = pulled.map(|(began, ended)| ended.since(began)).unwrap_or_default();
        let own = total.saturating_sub(pulls).saturating_sub(init_time(status)).as_secs_f64();
        metrics.start_total_duration.observe(total.as_secs_f64());
        metrics.start_sli_duration.observe(own);
        if !pod.is_host_network() && !self.network_seen.swap(true, Ordering::Relaxed) {
            metrics.first_network_start_sli.set(own);
        }
    }

    /// A pod is over.
    pub fn forget(&self, uid: &PodUid) -> Option<(Timestamp, Timestamp)> {
        self.pulls.lock().unwrap_or_else(PoisonError::into_inner).remove(uid)
    }
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

    #[test]
    fn pulls_and_init_containers_are_not_the_agents_time() {
        let object: core::Pod = serde_json::from_value(json!({
            "metadata": {"uid": "u", "name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"containers": [{"name": "c"}]},
            "status": {"initContainerStatuses": [{
                "name": "i", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "state": {"terminated": {"exitCode": 0, "startedAt": "2026-01-01T00:00:10Z", "finishedAt": "2026-01-01T00:00:12Z"}},
            }]},
        }))
        .unwrap();
        let pod = Pod::from_object(object, PodSource::Api).unwrap();
        let created = pod.created_at();
        let at = |seconds| created.after(Duration::from_secs(seconds));
        let (starts, metrics) = (PodStarts::default(), PodMetrics::default());
        starts.pulled(&pod.uid, at(3), at(5));
        starts.pulled(&pod.uid, at(1), at(4));
        starts.running(&metrics, &pod, &pod.status, at(20));
        let mut page = Page::new(Format::Text);
        metrics.write(&mut page);
        let text = page.into_text();
        for line in [
            "kubelet_pod_start_total_duration_seconds_sum 20\n",
            "kubelet_pod_start_sli_duration_seconds_sum 14\n",
            "kubelet_first_network_pod_start_sli_duration_seconds 14\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert_eq!(starts.forget(&pod.uid), None);
    }
}
