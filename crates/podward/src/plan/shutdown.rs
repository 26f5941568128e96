//! Settings of graceful node shutdown.

use config::{Gate, LoadedConfig};
use decide::node::node_shutdown::{ShutdownPeriod, ShutdownPeriods};

#[derive(Clone, Debug, Default)]
pub struct ShutdownPlan {
    /// Grace periods by priority; `None` when graceful shutdown is off.
    pub periods: Option<ShutdownPeriods>,
    /// Whether the start and end of the last shutdown are exported as metrics.
    pub exports_times: bool,
}

#[must_use]
pub fn shutdown(loaded: &LoadedConfig) -> ShutdownPlan {
    let pods = &loaded.config.pods;
    if !loaded.gates.enabled(Gate::GracefulNodeShutdown) {
        return ShutdownPlan::default();
    }
    let exports_times = loaded.gates.enabled(Gate::GracefulNodeShutdownBasedOnPodPriority);
    let by_priority = pods.shutdown_grace_period_by_pod_priority.iter().filter(|_| exports_times);
    let by_priority: Vec<ShutdownPeriod> = by_priority
        .map(|one| ShutdownPeriod {
            priority: one.priority,
            seconds: u64::try_from(one.shutdown_grace_period_seconds).unwrap_or(0),
        })
        .collect();
    let (whole, critical) = (pods.shutdown_grace_period, pods.shutdown_grace_period_critical_pods);
    ShutdownPlan {
        periods: ShutdownPeriods::of(&by_priority, whole.to_std(), critical.to_std()),
        exports_times,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use config::{CgroupVersion, Environment, Invocation, load};

    use super::*;

    fn planned(config: &str) -> ShutdownPlan {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.yaml");
        let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
        std::fs::write(&path, format!("{head}{config}\n")).unwrap();
        let environment =
            Environment { working_directory: folder.path().to_owned(), cgroup: CgroupVersion::Unknown };
        let arguments = [format!("--config={}", path.display())];
        match load(&arguments.map(Into::into), &environment) {
            Ok(Invocation::Run(loaded)) => {
                let idle = config::fields_without_effect(&loaded.config, &loaded.set_fields);
                assert!(idle.is_empty(), "{idle:?} without effect");
                shutdown(&loaded)
            }
            Ok(_) => panic!("not an order to run"),
            Err(error) => panic!("{error:?}"),
        }
    }

    #[test]
    fn periods_follow_the_configuration_and_its_gates() {
        let all = |plan: ShutdownPlan| -> Vec<(i32, u64)> {
            let periods = plan.periods.as_ref().map(|all| all.iter().collect::<Vec<_>>());
            periods.into_iter().flatten().map(|one| (one.priority, one.seconds)).collect()
        };
        let plan = planned("");
        assert!(plan.periods.is_none() && plan.exports_times);
        let plain = "shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s";
        assert_eq!(all(planned(plain)), [(0, 20), (2_000_000_000, 10)]);
        let by_priority = "shutdownGracePeriodByPodPriority: [{priority: 100, shutdownGracePeriodSeconds: 10}, {shutdownGracePeriodSeconds: 60}]";
        let plan = planned(by_priority);
        assert_eq!(plan.periods.as_ref().unwrap().total(), Duration::from_secs(70));
        assert_eq!(all(plan), [(0, 60), (100, 10)]);
        let gate = "featureGates: {GracefulNodeShutdownBasedOnPodPriority: false}";
        let plan = planned(&format!("{plain}\n{gate}"));
        assert!(!plan.exports_times);
        assert_eq!(all(plan), [(0, 20), (2_000_000_000, 10)]);
        let gates = "featureGates: {GracefulNodeShutdown: false, GracefulNodeShutdownBasedOnPodPriority: false, WindowsGracefulNodeShutdown: false}";
        let plan = planned(gates);
        assert!(plan.periods.is_none() && !plan.exports_times);
    }
}
