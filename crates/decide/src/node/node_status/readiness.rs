//! Node readiness problems derived from the status of the container runtime.

use std::time::Duration;

use model::{RuntimeCondition, RuntimeConditions, Timestamp};
use values::duration::GoDuration;

/// The node becomes not ready when the runtime was not ready for this long; leaves time for a runtime restart.
pub const MAX_RUNTIME_SILENCE: Duration = Duration::from_secs(30);

/// The node becomes not ready when the last successful relist is older than this.
pub const MAX_RELIST_AGE: Duration = Duration::from_secs(180);

/// The relist problem with upstream's message; `since_list` is `None` before the first relist.
pub fn relist_problem(since_list: Option<Duration>) -> Option<String> {
    let cause = match since_list {
        None => "pleg has yet to be successful".to_owned(),
        Some(age) if age > MAX_RELIST_AGE => format!(
            "pleg was last seen active {} ago; threshold is {}",
            // Whole seconds, so that the message changes at most once per second.
            GoDuration::from(Duration::from_secs(age.as_secs())).truncated_to_millis(),
            GoDuration::from(MAX_RELIST_AGE).truncated_to_millis(),
        ),
        Some(_) => return None,
    };
    Some(format!("PLEG is not healthy: {cause}"))
}

/// The network problem with upstream's message.
pub fn network_problem(answer: &RuntimeConditions) -> Option<String> {
    problem("NetworkReady", answer.network.as_ref())
        .map(|text| format!("container runtime network not ready: {text}"))
}

/// The runtime problem with upstream's message.
pub fn runtime_problem(answer: &RuntimeConditions) -> Option<String> {
    problem("RuntimeReady", answer.runtime.as_ref())
        .map(|text| format!("container runtime not ready: {text}"))
}

/// Runtime state since the last answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeReadiness {
    last_ready: Option<Timestamp>,
    runtime_problem: Option<String>,
    network_problem: Option<String>,
}

impl Default for RuntimeReadiness {
    fn default() -> Self {
        Self {
            last_ready: None,
            runtime_problem: None,
            network_problem: Some("network state unknown".to_owned()),
        }
    }
}

impl RuntimeReadiness {
    /// Records the newest answer; `None` when the runtime does not answer.
    pub fn record(&mut self, answer: Option<&RuntimeConditions>, now: Timestamp) {
        let Some(answer) = answer else { return };
        self.network_problem = network_problem(answer);
        self.runtime_problem = runtime_problem(answer);
        if self.runtime_problem.is_none() {
            self.last_ready = Some(now);
        }
    }

    /// Why the node is not ready, with upstream's messages; `since_list` is the age of the last relist.
    pub fn problems(&self, now: Timestamp, since_list: Option<Duration>) -> Vec<String> {
        let silence = match self.last_ready {
            None => Some("container runtime status check may not have completed yet"),
            Some(last) if now.since(last) >= MAX_RUNTIME_SILENCE => Some("container runtime is down"),
            Some(_) => None,
        };
        let reported = [&self.runtime_problem, &self.network_problem].into_iter().flatten().cloned();
        silence.map(str::to_owned).into_iter().chain(relist_problem(since_list)).chain(reported).collect()
    }
}

fn problem(name: &str, condition: Option<&RuntimeCondition>) -> Option<String> {
    match condition {
        None => Some("<nil>".to_owned()),
        Some(condition) if condition.status => None,
        Some(RuntimeCondition { reason, message, .. }) => {
            Some(format!("{name}=false reason:{reason} message:{message}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: Option<Duration> = Some(Duration::ZERO);

    fn answer(runtime: bool, network: bool) -> RuntimeConditions {
        let condition = |status| RuntimeCondition { status, reason: "R".into(), message: "m".into() };
        RuntimeConditions {
            runtime: Some(condition(runtime)),
            network: Some(condition(network)),
            ..RuntimeConditions::default()
        }
    }

    #[test]
    fn formats_problems_like_upstream() {
        let at = Timestamp::from_secs;
        let mut state = RuntimeReadiness::default();
        state.record(None, at(1));
        let not_checked = "container runtime status check may not have completed yet";
        assert_eq!(state.problems(at(1), LISTED), [not_checked, "network state unknown"]);
        state.record(Some(&answer(false, true)), at(2));
        let down = "container runtime not ready: RuntimeReady=false reason:R message:m";
        assert_eq!(state.problems(at(2), LISTED), [not_checked, down]);
        state.record(Some(&answer(true, false)), at(3));
        let network = "container runtime network not ready: NetworkReady=false reason:R message:m";
        assert_eq!(state.problems(at(3), LISTED), [network]);
        state.record(Some(&answer(true, true)), at(4));
        assert!(state.problems(at(4), LISTED).is_empty());
    }

    #[test]
    fn runtime_restart_keeps_node_ready() {
        let at = Timestamp::from_secs;
        let mut state = RuntimeReadiness::default();
        state.record(Some(&answer(true, true)), at(100));
        state.record(None, at(129));
        assert!(state.problems(at(129), LISTED).is_empty());
        assert_eq!(state.problems(at(130), LISTED), ["container runtime is down"]);
        state.record(Some(&answer(true, true)), at(131));
        assert!(state.problems(at(131), LISTED).is_empty());
    }

    #[test]
    fn stale_relist_makes_node_not_ready() {
        let mut state = RuntimeReadiness::default();
        state.record(Some(&answer(true, false)), Timestamp::from_secs(1));
        let problems = |since| state.problems(Timestamp::from_secs(1), since);
        let network = "container runtime network not ready: NetworkReady=false reason:R message:m";
        let never = "PLEG is not healthy: pleg has yet to be successful";
        assert_eq!(problems(None), [never, network]);
        assert_eq!(problems(Some(Duration::from_secs(180))), [network]);
        let late = "PLEG is not healthy: pleg was last seen active 3m1s ago; threshold is 3m0s";
        assert_eq!(problems(Some(Duration::from_millis(181_500))), [late, network]);
    }

    #[test]
    fn missing_runtime_condition_is_a_problem() {
        let mut state = RuntimeReadiness::default();
        state.record(Some(&RuntimeConditions::default()), Timestamp::from_secs(1));
        assert!(state.problems(Timestamp::from_secs(1), LISTED)[1].ends_with("not ready: <nil>"));
    }
}
