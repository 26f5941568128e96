//! Checks that a restart of the agent has no visible effect.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use testkit::agent_process::Agent;
use testkit::control_plane::AuditedRequest;
use testkit::cri_view::ContainerView;
use testkit::poll::throughout;

use super::ClusterNode;

/// How long after a restart nothing may change; the upstream kubelet syncs all pods within that time.
const OBSERVATION_TIME: Duration = Duration::from_secs(6);
/// How long no status may be written before the state is recorded.
const QUIET_TIME: Duration = Duration::from_secs(3);

/// Recorded containers and accepted status writes.
#[derive(Debug)]
pub struct Quiet {
    containers: Vec<ContainerView>,
    writes: usize,
}

impl Quiet {
    /// Waits until the agent has written nothing for a while, and records the state.
    pub async fn settle(node: &ClusterNode) -> Result<Self> {
        let mut writes = node.status_writes()?.len();
        let mut since = std::time::Instant::now();
        let start = since;
        while since.elapsed() < QUIET_TIME {
            ensure!(start.elapsed() < Duration::from_secs(60), "statuses are written continuously");
            tokio::time::sleep(Duration::from_millis(250)).await;
            let now = node.status_writes()?.len();
            if now != writes {
                (writes, since) = (now, std::time::Instant::now());
            }
        }
        Ok(Self { containers: node.cri().containers().await?, writes })
    }

    /// Checks for some seconds that the state does not change.
    pub async fn hold(&self, node: &ClusterNode) -> Result<()> {
        throughout("nothing changes", OBSERVATION_TIME, async || {
            let containers = node.cri().containers().await?;
            ensure!(
                containers == self.containers,
                "containers were {:?}, are {containers:?}",
                self.containers
            );
            let writes = node.status_writes()?;
            let new = writes.get(self.writes..).context("status writes are missing")?;
            let reported =
                new.iter().find(|write| node.agent.kind() == Agent::Podward || is_transition(write));
            ensure!(reported.is_none(), "a status was written: {reported:?}");
            Ok(())
        })
        .await
    }
}

/// After a restart the upstream kubelet loses the address of a finished pod and, on cgroup v1, reports "no limit" as a
/// number. These writes, which podward must not make, do not change the pod's state.
fn is_transition(write: &AuditedRequest) -> bool {
    const STATE: [&str; 6] =
        ["phase", "conditions", "containerStatuses", "initContainerStatuses", "reason", "message"];
    let fields = write.body["status"].as_object();
    fields.is_none_or(|fields| fields.keys().any(|field| STATE.iter().any(|state| field.contains(state))))
}

impl ClusterNode {
    /// Kills the agent and starts it again; fails if a container or a status changes.
    pub async fn restart_agent_unseen(&mut self) -> Result<()> {
        let before = Quiet::settle(self).await?;
        self.restart_agent().await?;
        before.hold(self).await
    }
}
