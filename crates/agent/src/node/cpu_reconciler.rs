//! Keeps the CPU sets of running containers equal to the allocated ones, and the states of the CPU and memory policies on disk.
//!
//! A container in the shared pool must leave CPUs that become exclusive. Like upstream, it does so within
//! `cpuManagerReconcilePeriod`; a container that is created later starts with the right set.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use model::{ContainerId, ContainerState, LinuxResources, Pod};
use ports::runtime::Runtime;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use values::cpu_set::CpuSet;

use crate::pipeline::exclusive_cpus::ExclusiveCpus;
use crate::pipeline::observation::Observer;
use crate::pipeline::pinned_memory::PinnedMemory;
use crate::pipeline::tables::Reader;

pub struct CpuReconcilerDeps {
    pub cpus: ExclusiveCpus,
    pub memory: PinnedMemory,
    pub runtime: Arc<dyn Runtime>,
    pub desired: Reader<Pod>,
    pub observer: Observer,
    /// `cpuManagerReconcilePeriod`.
    pub period: Duration,
}

/// Runs until cancelled.
pub async fn run(deps: CpuReconcilerDeps, cancel: CancellationToken) {
    if !deps.cpus.is_enabled() && !deps.memory.is_enabled() {
        return cancel.cancelled().await;
    }
    let mut ticks = tokio::time::interval(deps.period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Sets that were sent to containers since the start of the agent.
    let mut sent = HashMap::new();
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            () = deps.cpus.changed() => deps.save().await,
            () = deps.memory.changed() => deps.save().await,
            _ = ticks.tick() => {
                deps.save().await;
                deps.reconcile(&mut sent).await;
            }
        }
    }
}

impl CpuReconcilerDeps {
    async fn save(&self) {
        if let Err(error) = self.cpus.flush().await {
            tracing::warn!(%error, source = %error.source, "failed to save the state of the CPU policy, retrying");
        }
        if let Err(error) = self.memory.flush().await {
            tracing::warn!(%error, source = %error.source, "failed to save the state of the memory policy, retrying");
        }
    }

    async fn reconcile(&self, sent: &mut HashMap<ContainerId, CpuSet>) {
        let running = self.running();
        let ids: HashSet<&ContainerId> = running.iter().map(|(id, _)| id).collect();
        sent.retain(|id, _| ids.contains(id));
        for (id, cpus) in running {
            if cpus.is_empty() || sent.get(&id) == Some(&cpus) {
                continue;
            }
            let resources = LinuxResources { cpuset_cpus: cpus.to_string(), ..LinuxResources::default() };
            match self.runtime.update_resources(&id, &resources).await {
                Ok(()) => {
                    sent.insert(id, cpus);
                }
                // The container has ended meanwhile.
                Err(error) if error.is_not_found() => {}
                Err(error) => {
                    tracing::warn!(container = %id, %cpus, %error, "failed to update the CPUs of a container, retrying");
                }
            }
        }
    }

    /// Running containers of desired pods with the CPUs that they should have.
    fn running(&self) -> Vec<(ContainerId, CpuSet)> {
        let mut found = Vec::new();
        for observed in self.observer.all() {
            let Some(pod) = self.desired.get(&observed.uid) else { continue };
            for entry in pod.containers() {
                let name = &entry.container.name;
                let status =
                    observed.container(name).filter(|status| status.state == ContainerState::Running);
                if let Some(status) = status {
                    found.push((status.id.clone(), self.cpus.effective(&pod.uid, name)));
                }
            }
        }
        found
    }
}
