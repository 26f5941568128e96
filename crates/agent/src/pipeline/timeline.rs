//! Start timeline of each pod, always recorded, in memory.
//!
//! Stages record when a step begins and ends; readers get a copy. A pod has one row per step and container with the first
//! and the last run of the step, so that a pod that restarts forever needs no more memory than others. The timeline is
//! removed with the pod, and the number of pods is bounded.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

use decide::pipeline::worker::PodPresence;
use model::{Pod, PodTimeline, PodUid, ProbeResult, StartStep, StepRecord, StepSpan, Timestamp};
use ports::clock::Clock;

/// The pod that was accepted first is dropped when there are more.
const MAX_PODS: usize = 2000;
/// Rows of one pod.
const MAX_STEPS: usize = 200;

pub struct Timelines {
    clock: Arc<dyn Clock>,
    pods: Mutex<HashMap<PodUid, Box<PodTimeline>>>,
}

impl Timelines {
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, pods: Mutex::default() }
    }

    /// Starts the timeline of a pod that has a worker now.
    pub fn record_accepted(&self, pod: &Pod, presence: PodPresence) {
        let accepted_at = self.clock.now();
        let seen_at = Some(pod.first_seen()).filter(|time| !time.is_zero()).unwrap_or(accepted_at);
        let timeline = PodTimeline {
            uid: pod.uid.clone(),
            full_name: pod.full_name.clone(),
            seen_at: seen_at.min(accepted_at),
            accepted_at,
            adopted: matches!(presence, PodPresence::Running),
            ready_at: None,
            steps: Vec::new(),
        };
        let mut pods = self.pods.lock();
        if pods.len() >= MAX_PODS && !pods.contains_key(&pod.uid) {
            let oldest = pods.values().min_by_key(|pod| pod.accepted_at).map(|pod| pod.uid.clone());
            oldest.and_then(|uid| pods.remove(&uid));
        }
        pods.insert(pod.uid.clone(), Box::new(timeline));
    }

    /// Begins a step now. [`StepGuard::succeeded`] ends it; a dropped guard ends it as failed.
    #[must_use]
    pub fn begin_step<'a>(
        &'a self,
        uid: &'a PodUid,
        step: StartStep,
        container: Option<&'a str>,
    ) -> StepGuard<'a> {
        let now = self.clock.now();
        let span = StepSpan { started_at: now, finished_at: None, succeeded: false };
        if let Some(timeline) = self.pods.lock().get_mut(uid) {
            if let Some(row) = row(timeline, step, container) {
                row.last = Some(span);
                row.count = row.count.saturating_add(1);
            } else if timeline.steps.len() < MAX_STEPS {
                let container = container.map(Box::from);
                timeline.steps.push(StepRecord { step, container, first: span, last: None, count: 1 });
            }
        }
        StepGuard { timelines: self, uid, step, container, succeeded: false }
    }

    /// Records the first probe result of a container that started at `started_at`. Later results are ignored.
    pub fn record_first_probe(
        &self,
        uid: &PodUid,
        container: &str,
        started_at: Timestamp,
        result: ProbeResult,
    ) {
        let now = self.clock.now();
        let mut pods = self.pods.lock();
        let Some(timeline) = pods.get_mut(uid) else { return };
        // A container that was started by an earlier run of the agent was probed by it.
        if timeline.steps.len() >= MAX_STEPS || started_at < timeline.seen_at {
            return;
        }
        if row(timeline, StartStep::FirstProbe, Some(container)).is_none() {
            let succeeded = result == ProbeResult::Success;
            let first = StepSpan { started_at, finished_at: Some(now), succeeded };
            let container = Some(container.into());
            let step = StartStep::FirstProbe;
            timeline.steps.push(StepRecord { step, container, first, last: None, count: 1 });
        }
    }

    /// Records when a pod became ready for the first time.
    pub fn record_ready(&self, uid: &PodUid) {
        let now = self.clock.now();
        if let Some(timeline) = self.pods.lock().get_mut(uid) {
            timeline.ready_at.get_or_insert(now);
        }
    }

    pub fn remove(&self, uid: &PodUid) {
        self.pods.lock().remove(uid);
    }

    #[must_use]
    pub fn get(&self, uid: &PodUid) -> Option<PodTimeline> {
        self.pods.lock().get(uid).map(|timeline| (**timeline).clone())
    }

    /// All timelines, ordered by the time of acceptance.
    #[must_use]
    pub fn all(&self) -> Vec<PodTimeline> {
        let mut all: Vec<PodTimeline> =
            self.pods.lock().values().map(|timeline| (**timeline).clone()).collect();
        all.sort_by(|a, b| a.accepted_at.cmp(&b.accepted_at).then_with(|| a.full_name.cmp(&b.full_name)));
        all
    }

    fn end_step(&self, guard: &StepGuard<'_>) {
        let now = self.clock.now();
        let mut pods = self.pods.lock();
        let Some(timeline) = pods.get_mut(guard.uid) else { return };
        if let Some(row) = row(timeline, guard.step, guard.container) {
            let span = row.last.as_mut().unwrap_or(&mut row.first);
            span.finished_at = Some(now);
            span.succeeded = guard.succeeded;
        }
    }
}

fn row<'a>(
    timeline: &'a mut PodTimeline,
    step: StartStep,
    container: Option<&str>,
) -> Option<&'a mut StepRecord> {
    timeline.steps.iter_mut().find(|row| row.step == step && row.container.as_deref() == container)
}

/// A running step; ends as failed when dropped.
pub struct StepGuard<'a> {
    timelines: &'a Timelines,
    uid: &'a PodUid,
    step: StartStep,
    container: Option<&'a str>,
    succeeded: bool,
}

impl StepGuard<'_> {
    /// Ends the step as succeeded.
    pub fn succeeded(mut self) {
        self.succeeded = true;
    }

    /// Ends the step as succeeded or failed.
    pub fn finished<T, E>(mut self, result: &Result<T, E>) {
        self.succeeded = result.is_ok();
    }
}

impl Drop for StepGuard<'_> {
    fn drop(&mut self) {
        self.timelines.end_step(self);
    }
}

#[cfg(test)]
mod tests {
    use model::PodSource;
    use testkit::builders;
    use testkit::fake_clock::FakeClock;

    use super::*;

    fn pod(name: &str) -> Pod {
        builders::pod(name, PodSource::File, serde_json::json!({"containers": [{"name": "a"}]}))
    }

    fn timelines() -> Timelines {
        Timelines::new(Arc::new(FakeClock::stepping(0)))
    }

    #[test]
    fn records_start_and_end_of_a_step() {
        let timelines = timelines();
        let pod = pod("p");
        timelines.record_accepted(&pod, PodPresence::NotRunning);
        let open = timelines.begin_step(&pod.uid, StartStep::Image, Some("a"));
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
    fn dropped_step_counts_as_failed() {
        let timelines = timelines();
        let pod = pod("p");
        timelines.record_accepted(&pod, PodPresence::NotRunning);
        drop(timelines.begin_step(&pod.uid, StartStep::Sandbox, None));
        assert!(!timelines.get(&pod.uid).unwrap().steps[0].first.succeeded);
    }

    #[test]
    fn repeated_step_keeps_first_and_last_run() {
        let timelines = timelines();
        let pod = pod("p");
        timelines.record_accepted(&pod, PodPresence::NotRunning);
        for _ in 0..1000 {
            timelines.begin_step(&pod.uid, StartStep::Start, Some("a")).succeeded();
        }
        let found = timelines.get(&pod.uid).unwrap();
        assert_eq!(found.steps.len(), 1);
        assert_eq!(found.steps[0].count, 1000);
        assert_eq!(found.steps[0].first.started_at, Timestamp::from_secs(1));
        assert_eq!(found.steps[0].last.unwrap().started_at, Timestamp::from_secs(1999));
    }

    #[test]
    fn only_first_probe_result_and_first_ready_are_recorded() {
        let timelines = timelines();
        let pod = pod("p");
        timelines.record_accepted(&pod, PodPresence::NotRunning);
        for _ in 0..3 {
            timelines.record_first_probe(&pod.uid, "a", Timestamp::from_secs(0), ProbeResult::Success);
            timelines.record_ready(&pod.uid);
        }
        let found = timelines.get(&pod.uid).unwrap();
        assert_eq!(found.steps.len(), 1);
        assert_eq!(found.steps[0].first.finished_at, Some(Timestamp::from_secs(1)));
        assert_eq!(found.ready_at, Some(Timestamp::from_secs(2)));
    }

    #[test]
    fn removes_pods_and_bounds_their_number() {
        let timelines = timelines();
        for number in 0..MAX_PODS + 5 {
            timelines.record_accepted(&pod(&number.to_string()), PodPresence::NotRunning);
        }
        let all = timelines.all();
        assert_eq!(all.len(), MAX_PODS);
        assert_eq!(all[0].full_name.name, "5");
        timelines.remove(&"7".into());
        assert_eq!(timelines.all().len(), MAX_PODS - 1);
        // A step of an unknown pod is ignored.
        timelines.begin_step(&"other".into(), StartStep::Image, None).succeeded();
        assert_eq!(timelines.all().len(), MAX_PODS - 1);
    }
}
