//! Durations until the node was ready, for a node that this agent registered.

use parking_lot::Mutex;

use model::Timestamp;

use super::series::Gauge;

metrics_group! {
    StartGauges {
        before_agent: Gauge = Gauge::default(),
            "kubelet_node_startup_pre_kubelet_duration_seconds", "Time from the boot of the machine to the start of the agent";
        before_registration: Gauge = Gauge::default(),
            "kubelet_node_startup_pre_registration_duration_seconds",
            "Start of the agent to its first attempt to register the node";
        registration: Gauge = Gauge::default(),
            "kubelet_node_startup_registration_duration_seconds", "Time from the first attempt to register the node to its success";
        after_registration: Gauge = Gauge::default(),
            "kubelet_node_startup_post_registration_duration_seconds", "Time from the registration of the node until it is ready";
        whole: Gauge = Gauge::default(),
            "kubelet_node_startup_duration_seconds", "Time from the boot of the machine until the node is ready";
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Times {
    booted: Option<Timestamp>,
    started: Option<Timestamp>,
    attempted: Option<Timestamp>,
    registered: Option<Timestamp>,
    ready: Option<Timestamp>,
}

/// Each step counts only once, and only after the step before it.
#[derive(Debug, Default)]
pub struct NodeStart {
    gauges: StartGauges,
    times: Mutex<Times>,
}

impl NodeStart {
    pub fn agent_started(&self, at: Timestamp, booted: Option<Timestamp>) {
        self.change(|times, _| (times.started, times.booted) = (Some(at), booted));
    }

    pub fn attempted(&self, at: Timestamp) {
        self.change(|times, _| times.attempted = times.attempted.or(Some(at)));
    }

    /// The API server created the node. An existing node does not count.
    pub fn registered(&self, at: Timestamp) {
        self.change(|times, gauges| {
            let (Some(attempted), None) = (times.attempted, times.registered) else { return };
            times.registered = Some(at);
            set(&gauges.before_agent, times.booted, times.started);
            set(&gauges.before_registration, times.started, times.attempted);
            gauges.registration.set(at.since(attempted).as_secs_f64());
        });
    }

    /// The API server has the Ready condition.
    pub fn ready(&self, at: Timestamp) {
        self.change(|times, gauges| {
            let (Some(registered), None) = (times.registered, times.ready) else { return };
            times.ready = Some(at);
            gauges.after_registration.set(at.since(registered).as_secs_f64());
            set(&gauges.whole, times.booted, times.ready);
        });
    }

    pub(super) fn write(&self, page: &mut super::Page) {
        self.gauges.write(page);
    }

    fn change(&self, work: impl FnOnce(&mut Times, &StartGauges)) {
        work(&mut self.times.lock(), &self.gauges);
    }
}

fn set(gauge: &Gauge, from: Option<Timestamp>, to: Option<Timestamp>) {
    if let (Some(from), Some(to)) = (from, to) {
        gauge.set(to.since(from).as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Format, Page};

    const fn at(seconds: i64) -> Timestamp {
        Timestamp::from_secs(seconds)
    }

    fn values(start: &NodeStart) -> [f64; 5] {
        let StartGauges { before_agent, before_registration, registration, after_registration, whole } =
            &start.gauges;
        [before_agent, before_registration, registration, after_registration, whole].map(Gauge::value)
    }

    #[test]
    fn each_step_counts_once() {
        let start = NodeStart::default();
        start.agent_started(at(30), Some(at(10)));
        for time in [31, 32] {
            start.attempted(at(time));
        }
        start.registered(at(35));
        start.registered(at(90));
        start.ready(at(41));
        start.ready(at(99));
        assert_eq!(values(&start), [20.0, 1.0, 4.0, 6.0, 31.0]);
        let mut page = Page::new(Format::Text);
        start.write(&mut page);
        assert!(page.into_text().contains("\nkubelet_node_startup_duration_seconds 31\n"));
    }

    #[test]
    fn a_node_that_was_there_before_has_no_start() {
        let start = NodeStart::default();
        start.agent_started(at(30), None);
        start.attempted(at(31));
        start.ready(at(41));
        assert_eq!(values(&start), [0.0; 5]);
    }
}
