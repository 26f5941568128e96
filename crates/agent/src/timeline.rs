//! How pods came to run: a start timeline per pod, always on, in memory.
//!
//! Stages note when a step begins and ends; readers get a copy. A pod has one row per step and container, with the
//! first and the last time it was done, so that a pod that restarts for ever takes no more room than one that runs.
//! What a pod left is freed with the pod, and there is a bound for all pods.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use decide::worker::Remains;
use model::{Pod, PodTimeline, PodUid, ProbeVerdict, StartStep, StepRecord, StepSpan, Timestamp};
use ports::clock::Clock;

/// Pods that are remembered at most; the one accepted first goes when there are more.
const PODS: usize = 2000;
/// Rows of one pod at most.
const ROWS: usize = 200;

/// The timelines of all pods.
pub struct Timelines {
    clock: Arc<dyn Clock>,
    pods: Mutex<HashMap<PodUid, Box<PodTimeline>>>,
}

impl Timelines {
    /// No timelines yet.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, pods: Mutex::default() }
    }

    /// A worker took a pod, of which so much was there already.
    pub fn accepted(&self, pod: &Pod, remains: Remains) {
        let accepted_at = self.clock.now();
        let seen_at = Some(pod.first_seen()).filter(|time| !time.is_zero()).unwrap_or(accepted_at);
        let timeline = PodTimeline {
            uid: pod.uid.clone(),
            full_name: pod.full_name.clone(),
            seen_at: seen_at.min(accepted_at),
            accepted_at,
            adopted: matches!(remains, Remains::Alive),
            ready_at: None,
            steps: Vec::new(),
        };
        let mut pods = self.pods();
        if pods.len() >= PODS && !pods.contains_key(&pod.uid) {
            let oldest = pods.values().min_by_key(|pod| pod.accepted_at).map(|pod| pod.uid.clone());
            oldest.and_then(|uid| pods.remove(&uid));
        }
        pods.insert(pod.uid.clone(), Box::new(timeline));
    }

    /// A step begins now. It ends with [`StepGuard::succeeded`], or as failed when the guard is dropped.
    #[must_use]
    pub fn begin<'a>(
        &'a self,
        uid: &'a PodUid,
        step: StartStep,
        container: Option<&'a str>,
    ) -> StepGuard<'a> {
        let now = self.clock.now();
        let span = StepSpan { started_at: now, finished_at: None, succeeded: false };
        if let Some(timeline) = self.pods().get_mut(uid) {
            if let Some(row) = row(timeline, step, container) {
                row.last = Some(span);
                row.count = row.count.saturating_add(1);
            } else if timeline.steps.len() < ROWS {
                let container = container.map(Box::from);
                timeline.steps.push(StepRecord { step, container, first: span, last: None, count: 1 });
            }
        }
        StepGuard { timelines: self, uid, step, container, succeeded: false }
    }

    /// A probe answered for a container that started then; only the first answer counts.
    pub fn probed(&self, uid: &PodUid, container: &str, started_at: Timestamp, verdict: ProbeVerdict) {
        let now = self.clock.now();
        let mut pods = self.pods();
        let Some(timeline) = pods.get_mut(uid) else { return };
        // What an earlier agent started was probed by that one.
        if timeline.steps.len() >= ROWS || started_at < timeline.seen_at {
            return;
        }
        if row(timeline, StartStep::FirstProbe, Some(container)).is_none() {
            let succeeded = verdict == ProbeVerdict::Success;
            let first = StepSpan { started_at, finished_at: Some(now), succeeded };
            let container = Some(container.into());
            let step = StartStep::FirstProbe;
            timeline.steps.push(StepRecord { step, container, first, last: None, count: 1 });
        }
    }

    /// A pod is ready; only the first time counts.
    pub fn ready(&self, uid: &PodUid) {
        let now = self.clock.now();
        if let Some(timeline) = self.pods().get_mut(uid) {
            timeline.ready_at.get_or_insert(now);
        }
    }

    /// A pod is gone.
    pub fn forget(&self, uid: &PodUid) {
        self.pods().remove(uid);
    }

    /// One pod's timeline.
    #[must_use]
    pub fn get(&self, uid: &PodUid) -> Option<PodTimeline> {
        self.pods().get(uid).map(|timeline| (**timeline).clone())
    }

    /// All timelines, in the order in which the pods were accepted.
    #[must_use]
    pub fn all(&self) -> Vec<PodTimeline> {
        let mut all: Vec<PodTimeline> = self.pods().values().map(|timeline| (**timeline).clone()).collect();
        all.sort_by(|a, b| a.accepted_at.cmp(&b.accepted_at).then_with(|| a.full_name.cmp(&b.full_name)));
        all
    }

    fn end(&self, guard: &StepGuard<'_>) {
        let now = self.clock.now();
        let mut pods = self.pods();
        let Some(timeline) = pods.get_mut(guard.uid) else { return };
        if let Some(row) = row(timeline, guard.step, guard.container) {
            let span = row.last.as_mut().unwrap_or(&mut row.first);
            span.finished_at = Some(now);
            span.succeeded = guard.succeeded;
        }
    }

    fn pods(&self) -> MutexGuard<'_, HashMap<PodUid, Box<PodTimeline>>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn row<'a>(
    timeline: &'a mut PodTimeline,
    step: StartStep,
    container: Option<&str>,
) -> Option<&'a mut StepRecord> {
    timeline.steps.iter_mut().find(|row| row.step == step && row.container.as_deref() == container)
}

/// A step under way.
pub struct StepGuard<'a> {
    timelines: &'a Timelines,
    uid: &'a PodUid,
    step: StartStep,
    container: Option<&'a str>,
    succeeded: bool,
}

impl StepGuard<'_> {
    /// The step is over and did what it should.
    pub fn succeeded(mut self) {
        self.succeeded = true;
    }

    /// The step is over; a result says how it went.
    pub fn ended<T, E>(mut self, result: &Result<T, E>) {
        self.succeeded = result.is_ok();
    }
}

impl Drop for StepGuard<'_> {
    fn drop(&mut self) {
        self.timelines.end(self);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use model::PodSource;

    use super::*;

    #[derive(Default)]
    struct TestClock(AtomicI64);

    impl Clock for TestClock {
        fn now(&self) -> Timestamp {
            Timestamp::from_secs(self.0.fetch_add(1, Ordering::Relaxed))
        }
    }

    fn pod(name: &str) -> Pod {
        let object = serde_json::json!({"metadata": {"name": name, "uid": name},
            "spec": {"containers": [{"name": "a"}]}});
        Pod::from_object(serde_json::from_value(object).unwrap(), PodSource::File).unwrap()
    }

    fn timelines() -> Timelines {
        Timelines::new(Arc::new(TestClock::default()))
    }

    #[test]
    fn steps_have_a_beginning_and_an_end() {
        let timelines = timelines();
        let pod = pod("p");
        timelines.accepted(&pod, Remains::Nothing);
        let open = timelines.begin(&pod.uid, StartStep::Image, Some("a"));
        assert_eq!(timelines.get(&pod.uid).unwrap().steps[0].first.finished_at, None);
        open.succeeded();
        let found = timelines.get(&pod.uid).unwrap();
        assert_eq!(found.accepted_at, Timestamp::from_secs(0));
        let image = &found.steps[0];
        assert_eq!(image.first.started_at, Timestamp::from_secs(1));
        assert_eq!(image.first.finished_at, Some(Timestamp::from_secs(2)));
        assert!(image.first.succeeded);
    }

    #[test]
    fn a_step_that_is_left_early_failed() {
        let timelines = timelines();
        let pod = pod("p");
        timelines.accepted(&pod, Remains::Nothing);
        drop(timelines.begin(&pod.uid, StartStep::Sandbox, None));
        assert!(!timelines.get(&pod.uid).unwrap().steps[0].first.succeeded);
    }

    #[test]
    fn a_pod_that_restarts_for_ever_keeps_its_first_and_its_last_time() {
        let timelines = timelines();
        let pod = pod("p");
        timelines.accepted(&pod, Remains::Nothing);
        for _ in 0..1000 {
            timelines.begin(&pod.uid, StartStep::Start, Some("a")).succeeded();
        }
        let found = timelines.get(&pod.uid).unwrap();
        assert_eq!(found.steps.len(), 1);
        assert_eq!(found.steps[0].count, 1000);
        assert_eq!(found.steps[0].first.started_at, Timestamp::from_secs(1));
        assert_eq!(found.steps[0].last.unwrap().started_at, Timestamp::from_secs(1999));
    }

    #[test]
    fn only_the_first_answer_of_a_probe_and_the_first_ready_count() {
        let timelines = timelines();
        let pod = pod("p");
        timelines.accepted(&pod, Remains::Nothing);
        for _ in 0..3 {
            timelines.probed(&pod.uid, "a", Timestamp::from_secs(0), ProbeVerdict::Success);
            timelines.ready(&pod.uid);
        }
        let found = timelines.get(&pod.uid).unwrap();
        assert_eq!(found.steps.len(), 1);
        assert_eq!(found.steps[0].first.finished_at, Some(Timestamp::from_secs(1)));
        assert_eq!(found.ready_at, Some(Timestamp::from_secs(2)));
    }

    #[test]
    fn pods_are_forgotten_and_bounded() {
        let timelines = timelines();
        for number in 0..PODS + 5 {
            timelines.accepted(&pod(&number.to_string()), Remains::Nothing);
        }
        let all = timelines.all();
        assert_eq!(all.len(), PODS);
        assert_eq!(all[0].full_name.name, "5");
        timelines.forget(&"7".into());
        assert_eq!(timelines.all().len(), PODS - 1);
        // What was never accepted is not remembered.
        timelines.begin(&"other".into(), StartStep::Image, None).succeeded();
        assert_eq!(timelines.all().len(), PODS - 1);
    }
}
