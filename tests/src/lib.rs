//! Scenarios on the real thing: the same steps on podward and on the upstream kubelet.
//!
//! In come the agents' binaries and a containerd; out come plain `cargo test` results. A scenario is
//! an `async fn(Agent) -> Result<()>` that starts a [`Node`] of its own and drives it the way a user
//! does: files in a folder, signals, HTTP; [`scenarios!`] makes one test per agent of it. What holds for
//! both agents is asserted of both; `podward_only!` marks what we do on purpose beyond upstream.
//!
//! `PODWARD_AGENTS=podward,upstream` selects the agents; a selected agent whose binary is missing fails.
//! Assertions are about order, counts and lower bounds of time, never about tight upper bounds.

mod manifest;
mod manifest_server;
mod node;
mod status;

pub use manifest::{container, pod, sleeper, with};
pub use manifest_server::ManifestServer;
pub use node::Node;
pub use status::{PodView, view};

pub use testkit::agent_process::{Agent, AgentOptions, NODE};

/// Runs one scenario for one agent, on a runtime of its own.
///
/// The upstream kubelet gets a second try: its run tells whether the scenario is fair, and the races it loses now and
/// then are not ours to mend. Podward has one try.
///
/// # Panics
/// When the scenario fails; the agent's log has been printed by then.
#[expect(clippy::panic, reason = "the way a test fails")]
pub fn run<F: Future<Output = anyhow::Result<()>>>(agent: Agent, scenario: impl Fn(Agent) -> F) {
    if !agent.selected() {
        println!("not selected by PODWARD_AGENTS: {}", agent.name());
        return;
    }
    let attempt = || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        runtime.map_err(anyhow::Error::from).and_then(|runtime| runtime.block_on(scenario(agent)))
    };
    let mut result = attempt();
    if let (Agent::Upstream, Err(error)) = (agent, &result) {
        println!("--- upstream failed, second try: {error:#}");
        result = attempt();
    }
    if let Err(error) = result {
        panic!("{}: {error:#}", agent.name());
    }
}

/// One `#[test]` per agent for each scenario.
#[macro_export]
macro_rules! scenarios {
    ($($(#[$meta:meta])* $name:ident),* $(,)?) => {
        mod podward {
            $(#[test] $(#[$meta])* fn $name() { $crate::run($crate::Agent::Podward, super::$name); })*
        }
        mod upstream {
            $(#[test] $(#[$meta])* fn $name() { $crate::run($crate::Agent::Upstream, super::$name); })*
        }
    };
}

/// One `#[test]` for each scenario of what only podward does.
#[macro_export]
macro_rules! podward_only {
    ($($name:ident),* $(,)?) => {
        mod podward_only {
            $(#[test] fn $name() { $crate::run($crate::Agent::Podward, super::$name); })*
        }
    };
}
