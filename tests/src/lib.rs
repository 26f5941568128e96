//! Scenarios with real components: the same steps on podward and on the upstream kubelet.
//!
//! A scenario is an `async fn(Agent) -> Result<()>` that starts its own [`Node`] and controls it like a user: files in
//! a folder, signals, HTTP. [`scenarios!`] generates one test per agent from it. Common behaviour is asserted for both
//! agents; `podward_only!` marks behaviour that goes beyond upstream on purpose.
//!
//! A [`ClusterNode`] is a node of a real control plane instead, which all scenarios of a test binary share.
//!
//! `PODWARD_AGENTS=podward,upstream` selects the agents; a selected agent whose binary is missing fails. Assertions are
//! about order, counts and lower bounds of time, never about tight upper bounds.
//!
//! `PODWARD_RUNTIME=inside` runs the scenarios on the runtime inside podward instead of containerd, and `socket` on `podward
//! runtime`, also with the upstream kubelet. Scenarios about containerd itself are excluded by name, with a reason.
//!
//! Upstream, whose run shows whether a scenario is fair, has three attempts; podward has one. `PODWARD_RETRIES=1`,
//! which `.ci/run` sets, gives podward a second one: a first failure is then printed as `FLAKY name: error` (`RETRY
//! name: error` for upstream), appended to the file in `PODWARD_FLAKY`, and listed at the end of the run. A `FLAKY`
//! line is a bug to be investigated, not noise.

mod allowed;
mod attempt;
mod cluster_node;
mod manifest;
mod manifest_server;
mod node;
mod node_client;
mod runtimes;
mod screen;
mod status;

pub use allowed::Allowed;
pub use attempt::run;
pub use cluster_node::{ClusterNode, Joining, Quiet, condition};
pub use manifest::{container, pod, sleeper, with};
pub use manifest_server::ManifestServer;
pub use node::Node;
pub use node_client::{NodeAnswer, NodeClient};
pub use screen::Screen;
pub use status::{PodView, view};

pub use testkit::agent_process::{Agent, AgentOptions, NODE};

/// The control plane that all scenarios of this test process share.
pub async fn control_plane() -> anyhow::Result<&'static testkit::control_plane::ControlPlane> {
    testkit::control_plane::ControlPlane::shared().await
}

/// One `#[test]` per agent for each scenario.
#[macro_export]
macro_rules! scenarios {
    ($($(#[$meta:meta])* $name:ident),* $(,)?) => {
        mod podward {
            $(#[test] $(#[$meta])* fn $name() { $crate::run($crate::Agent::Podward, concat!(module_path!(), "::", stringify!($name)), super::$name); })*
        }
        mod upstream {
            $(#[test] $(#[$meta])* fn $name() { $crate::run($crate::Agent::Upstream, concat!(module_path!(), "::", stringify!($name)), super::$name); })*
        }
    };
}

/// One `#[test]` for each scenario that only podward supports.
#[macro_export]
macro_rules! podward_only {
    ($($name:ident),* $(,)?) => {
        mod podward_only {
            $(#[test] fn $name() { $crate::run($crate::Agent::Podward, concat!(module_path!(), "::", stringify!($name)), super::$name); })*
        }
    };
}
