//! The proof that a restart of the agent is not seen by anybody.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use testkit::agent_process::Agent;
use testkit::control_plane::AuditedRequest;
use testkit::cri_view::ContainerView;
use testkit::poll::throughout;

use super::ClusterNode;

/// How long after a restart nothing may happen; the upstream kubelet looks at all pods within it.
const WATCHED: Duration = Duration::from_secs(6);
/// How long without a write of a status before the state is taken down.
const SETTLED: Duration = Duration::from_secs(3);

/// Containers and accepted writes of statuses, as they were.
#[derive(Debug)]
pub struct Quiet {
    containers: Vec<ContainerView>,
    writes: usize,
}

impl Quiet {
    /// Waits until the agent has written nothing for a while, and takes down the state.
    pub async fn settle(node: &ClusterNode) -> Result<Self> {
        let mut writes = node.status_writes()?.len();
        let mut since = std::time::Instant::now();
        let start = since;
        while since.elapsed() < SETTLED {
            ensure!(start.elapsed() < Duration::from_secs(60), "statuses are written all the time");
            tokio::time::sleep(Duration::from_millis(250)).await;
            let now = node.status_writes()?.len();
            if now != writes {
                (writes, since) = (now, std::time::Instant::now());
            }
        }
        Ok(Self { containers: node.cri().containers().await?, writes })
    }

    /// Holds the node to that state for some seconds.
    pub async fn hold(&self, node: &ClusterNode) -> Result<()> {
        throughout("nothing changes", WATCHED, async || {
            let containers = node.cri().containers().await?;
            ensure!(
                containers == self.containers,
                "containers were {:?}, are {containers:?}",
                self.containers
            );
            let writes = node.status_writes()?;
            let new = writes.get(self.writes..).context("status writes vanished")?;
            let told = new.iter().find(|write| node.agent.kind() == Agent::Podward || is_transition(write));
            ensure!(told.is_none(), "a status was written: {told:?}");
            Ok(())
        })
        .await
    }
}

/// After a restart the upstream kubelet forgets the address of a pod that has ended and, on cgroup v1, reports "no limit"
/// as a number. These are writes, for which podward has no excuse, but no changes of the pod's state.
fn is_transition(write: &AuditedRequest) -> bool {
    const STATE: [&str; 6] =
        ["phase", "conditions", "containerStatuses", "initContainerStatuses", "reason", "message"];
    let fields = write.body["status"].as_object();
    fields.is_none_or(|fields| fields.keys().any(|field| STATE.iter().any(|state| field.contains(state))))
}

impl ClusterNode {
    /// Kills the agent and starts it again: no container and no status may change by it.
    pub async fn restart_agent_unseen(&mut self) -> Result<()> {
        let before = Quiet::settle(self).await?;
        self.restart_agent().await?;
        before.hold(self).await
    }
}
