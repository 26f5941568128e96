//! What the runtime's answers mean for the node.

use std::time::Duration;

use model::{RuntimeCondition, RuntimeConditions, Timestamp};

use crate::go_duration::to_milliseconds_text;

/// How long a runtime may be silent before the node is not ready: long enough to be restarted.
pub const LONGEST_SILENCE: Duration = Duration::from_secs(30);

/// How long the runtime's pods may go without being listed before the node is not ready.
pub const LONGEST_WITHOUT_LIST: Duration = Duration::from_secs(180);

/// What is wrong with the lists of the runtime's pods, in upstream's words; `None` stands for a list that never came.
#[must_use]
pub fn list_problem(since_list: Option<Duration>) -> Option<String> {
    let cause = match since_list {
        None => "pleg has yet to be successful".to_owned(),
        Some(age) if age > LONGEST_WITHOUT_LIST => format!(
            "pleg was last seen active {} ago; threshold is {}",
            // Whole seconds: the text need not change more often.
            to_milliseconds_text(Duration::from_secs(age.as_secs())),
            to_milliseconds_text(LONGEST_WITHOUT_LIST),
        ),
        Some(_) => return None,
    };
    Some(format!("PLEG is not healthy: {cause}"))
}

/// What is wrong with the network, in upstream's words.
#[must_use]
pub fn network_problem(answer: &RuntimeConditions) -> Option<String> {
    problem("NetworkReady", answer.network.as_ref())
        .map(|words| format!("container runtime network not ready: {words}"))
}

/// What is wrong with the runtime, in upstream's words.
#[must_use]
pub fn runtime_problem(answer: &RuntimeConditions) -> Option<String> {
    problem("RuntimeReady", answer.runtime.as_ref())
        .map(|words| format!("container runtime not ready: {words}"))
}

/// What is remembered of the runtime's answers.
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
    /// Takes in what the runtime said last; `None` when it does not answer now.
    pub fn saw(&mut self, answer: Option<&RuntimeConditions>, now: Timestamp) {
        let Some(answer) = answer else { return };
        self.network_problem = network_problem(answer);
        self.runtime_problem = runtime_problem(answer);
        if self.runtime_problem.is_none() {
            self.last_ready = Some(now);
        }
    }

    /// Why the node is not ready, in upstream's words, given how long ago the runtime's pods were listed.
    #[must_use]
    pub fn problems(&self, now: Timestamp, since_list: Option<Duration>) -> Vec<String> {
        let silence = match self.last_ready {
            None => Some("container runtime status check may not have completed yet"),
            Some(last) if now.since(last) >= LONGEST_SILENCE => Some("container runtime is down"),
            Some(_) => None,
        };
        let told = [&self.runtime_problem, &self.network_problem].into_iter().flatten().cloned();
        silence.map(str::to_owned).into_iter().chain(list_problem(since_list)).chain(told).collect()
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
    fn answers_become_upstreams_words() {
        let at = Timestamp::from_secs;
        let mut state = RuntimeReadiness::default();
        state.saw(None, at(1));
        let unasked = "container runtime status check may not have completed yet";
        assert_eq!(state.problems(at(1), LISTED), [unasked, "network state unknown"]);
        state.saw(Some(&answer(false, true)), at(2));
        let down = "container runtime not ready: RuntimeReady=false reason:R message:m";
        assert_eq!(state.problems(at(2), LISTED), [unasked, down]);
        state.saw(Some(&answer(true, false)), at(3));
        let network = "container runtime network not ready: NetworkReady=false reason:R message:m";
        assert_eq!(state.problems(at(3), LISTED), [network]);
        state.saw(Some(&answer(true, true)), at(4));
        assert!(state.problems(at(4), LISTED).is_empty());
    }

    #[test]
    fn a_runtime_that_is_restarted_leaves_the_node_ready() {
        let at = Timestamp::from_secs;
        let mut state = RuntimeReadiness::default();
        state.saw(Some(&answer(true, true)), at(100));
        state.saw(None, at(129));
        assert!(state.problems(at(129), LISTED).is_empty());
        assert_eq!(state.problems(at(130), LISTED), ["container runtime is down"]);
        state.saw(Some(&answer(true, true)), at(131));
        assert!(state.problems(at(131), LISTED).is_empty());
    }

    #[test]
    fn a_runtime_whose_pods_cannot_be_listed_makes_the_node_not_ready() {
        let mut state = RuntimeReadiness::default();
        state.saw(Some(&answer(true, false)), Timestamp::from_secs(1));
        let problems = |since| state.problems(Timestamp::from_secs(1), since);
        let network = "container runtime network not ready: NetworkReady=false reason:R message:m";
        let never = "PLEG is not healthy: pleg has yet to be successful";
        assert_eq!(problems(None), [never, network]);
        assert_eq!(problems(Some(Duration::from_secs(180))), [network]);
        let late = "PLEG is not healthy: pleg was last seen active 3m1s ago; threshold is 3m0s";
        assert_eq!(problems(Some(Duration::from_millis(181_500))), [late, network]);
    }

    #[test]
    fn a_missing_condition_is_a_problem() {
        let mut state = RuntimeReadiness::default();
        state.saw(Some(&RuntimeConditions::default()), Timestamp::from_secs(1));
        assert!(state.problems(Timestamp::from_secs(1), LISTED)[1].ends_with("not ready: <nil>"));
    }
}
