//! Limits of the cgroups of the QoS classes.

use decide::cgroups::memory_qos::qos_protection;
use decide::cgroups::qos_cgroups::{QosCgroups, QosRequests, burstable_limits};
use decide::cgroups::qos_memory_limits::{limit_above_usage, qos_memory_limits};
use model::{CgroupLimits, NodeSettings};
use ports::host::pod_cgroups::PodCgroups;
use ports::host::pod_folders::FileError;

use crate::metrics::MemoryQosMetrics;

pub(super) struct QosClasses<'a> {
    pub(super) cgroups: &'a dyn PodCgroups,
    pub(super) settings: &'a NodeSettings,
    pub(super) paths: &'a QosCgroups,
    pub(super) metrics: &'a MemoryQosMetrics,
}

impl QosClasses<'_> {
    /// Sets the limits that follow the requests of the pods.
    pub(super) async fn follow(&self, requests: QosRequests) {
        self.set(&self.paths.burstable, &burstable_limits(requests.burstable_cpu)).await;
        if let Some(limits) = qos_memory_limits(requests, self.settings) {
            self.limit_memory(&self.paths.burstable, limits.burstable).await;
            self.limit_memory(&self.paths.best_effort, limits.best_effort).await;
        }
        if let Some(protection) = qos_protection(requests, self.settings) {
            self.set(&self.paths.all, &protection.all).await;
            self.set(&self.paths.burstable, &protection.burstable).await;
            self.metrics.show(&protection);
        }
    }

    pub(super) async fn set(&self, path: &str, limits: &CgroupLimits) {
        report(path, self.cgroups.ensure(path, limits).await);
    }

    /// The kernel may refuse a limit below the usage. Then the usage becomes the limit, so that the class cannot grow.
    async fn limit_memory(&self, path: &str, limit: i64) {
        let with = |limit: i64| CgroupLimits { memory: Some(limit.max(0)), ..CgroupLimits::default() };
        if self.cgroups.ensure(path, &with(limit)).await.is_ok() {
            return;
        }
        let second = match self.cgroups.memory_usage(path).await {
            Ok(usage) => self.cgroups.ensure(path, &with(limit_above_usage(limit, usage))).await,
            Err(error) => Err(error),
        };
        report(path, second);
    }
}

fn report(path: &str, result: Result<(), FileError>) {
    if let Err(error) = result {
        tracing::warn!(cgroup = path, %error, source = %error.source, "failed to set limits of QoS cgroup, the old ones stay in force");
    }
}

#[cfg(test)]
mod tests;
