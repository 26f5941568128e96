//! Which scenarios run on podward's own runtime.

use testkit::agent_process::Agent;
use testkit::node_runtime::RuntimeKind;

/// Scenarios that are about containerd, or need a runtime in a separate process: part of the name, and the reason.
const NOT_INSIDE: &[(&str, &str)] = &[
    ("runtime_restart_keeps_pods_running", "the runtime restarts with its agent"),
    ("terminated_agent_leaves_pods_running", "the runtime does not answer while its agent is stopped"),
    ("reconnects_after_event_stream_ends", "the event stream does not leave the process"),
];
/// On podward's own runtime, inside the agent or not.
const NOT_ON_OWN_RUNTIME: &[(&str, &str)] =
    &[("recursive_read_only_requires_runtime_support", "it supports recursive read-only mounts")];

/// Why a scenario does not apply to a runtime.
pub(crate) fn exclusion(runtime: RuntimeKind, agent: Agent, name: &str) -> Option<&'static str> {
    let of = |list: &[(&'static str, &'static str)]| {
        list.iter().find(|(scenario, _)| name.ends_with(scenario)).map(|(_, reason)| *reason)
    };
    match (runtime, agent) {
        (RuntimeKind::Containerd, _) => None,
        (RuntimeKind::Inside, Agent::Upstream) => Some("it is inside podward"),
        (RuntimeKind::Inside, Agent::Podward) => of(NOT_INSIDE).or_else(|| of(NOT_ON_OWN_RUNTIME)),
        (RuntimeKind::Socket, _) => of(NOT_ON_OWN_RUNTIME),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusions_apply_to_the_runtime_and_name_existing_scenarios() {
        let name = "interruptions::podward::runtime_restart_keeps_pods_running";
        assert!(exclusion(RuntimeKind::Inside, Agent::Podward, name).is_some());
        assert_eq!(exclusion(RuntimeKind::Socket, Agent::Podward, name), None);
        assert_eq!(exclusion(RuntimeKind::Containerd, Agent::Upstream, name), None);
        assert!(exclusion(RuntimeKind::Inside, Agent::Upstream, "any").is_some());
        let sources = sources(&testkit::images::workspace().join("tests/tests"));
        for (scenario, _) in NOT_INSIDE.iter().chain(NOT_ON_OWN_RUNTIME) {
            assert!(sources.contains(&format!("fn {scenario}(")), "{scenario} does not exist");
        }
    }

    fn sources(folder: &std::path::Path) -> String {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries
            .map(|path| if path.is_dir() { sources(&path) } else { std::fs::read_to_string(path).unwrap() })
            .collect()
    }
}
