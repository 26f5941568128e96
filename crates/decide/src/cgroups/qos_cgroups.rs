//! Parent cgroups of the pods: all pods, Burstable and BestEffort pods.

use model::{CgroupDriver, CgroupLimits, HugepageLimits, NodeSettings, Pod, PodUid};

use crate::pod_resources::qos::{QosClass, pod_qos_class};
use crate::pod_resources::resources::{MIN_CPU_SHARES, cpu_shares, pod_requests_with_overhead};
use crate::runtime_spec::pod_paths::cgroup_path;

const POD_PREFIX: &str = "pod";

/// Paths of the parent cgroups of pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QosCgroups {
    /// Parent of the other two and of Guaranteed pods.
    pub all: String,
    pub burstable: String,
    pub best_effort: String,
}

impl QosCgroups {
    pub fn of(settings: &NodeSettings) -> Self {
        Self {
            all: cgroup_path(settings, &["kubepods"]),
            burstable: cgroup_path(settings, &["kubepods", "burstable"]),
            best_effort: cgroup_path(settings, &["kubepods", "besteffort"]),
        }
    }

    /// All paths, parents first.
    pub fn paths(&self) -> [&str; 3] {
        [&self.all, &self.burstable, &self.best_effort]
    }
}

/// Limits of the Burstable cgroup; `requested_milli` is the sum of CPU requests in millicores.
pub fn burstable_limits(requested_milli: i64) -> CgroupLimits {
    class_limits(cpu_shares(requested_milli))
}

pub fn best_effort_limits() -> CgroupLimits {
    class_limits(MIN_CPU_SHARES)
}

/// Limits of an orphaned pod cgroup that must stay as long as the pod has volumes: the minimum CPU weight.
pub fn orphan_cgroup_limits() -> CgroupLimits {
    CgroupLimits { cpu_shares: Some(MIN_CPU_SHARES.unsigned_abs()), ..CgroupLimits::default() }
}

/// The share of pods in the cgroups of their QoS classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QosRequests {
    /// CPU requests of Burstable pods in millicores.
    pub burstable_cpu: i64,
    /// Memory requests of Burstable pods in bytes.
    pub burstable_memory: i64,
    /// Memory requests of Guaranteed pods in bytes.
    pub guaranteed_memory: i64,
}

impl QosRequests {
    pub fn of(pod: &Pod) -> Self {
        let requests = pod_requests_with_overhead(pod);
        let request = |name| requests.get(name).copied().unwrap_or_default();
        let (cpu, memory) = (request("cpu").milli(), request("memory").units());
        match pod_qos_class(pod) {
            QosClass::Burstable => {
                Self { burstable_cpu: cpu, burstable_memory: memory, guaranteed_memory: 0 }
            }
            QosClass::Guaranteed => Self { guaranteed_memory: memory, ..Self::default() },
            QosClass::BestEffort => Self::default(),
        }
    }

    /// Replaces the part of one pod.
    pub fn replace(&mut self, old: Self, new: Self) {
        self.burstable_cpu += new.burstable_cpu - old.burstable_cpu;
        self.burstable_memory += new.burstable_memory - old.burstable_memory;
        self.guaranteed_memory += new.guaranteed_memory - old.guaranteed_memory;
    }
}

/// The UID in the name of a pod's cgroup; `None` if it is not a pod's cgroup.
pub fn pod_of_cgroup(name: &str, driver: CgroupDriver) -> Option<PodUid> {
    let own = match driver {
        CgroupDriver::Cgroupfs => name.to_owned(),
        // A slice name starts with the names of its parents.
        CgroupDriver::Systemd => name.strip_suffix(".slice")?.rsplit('-').next()?.replace('_', "-"),
    };
    let uid = own.strip_prefix(POD_PREFIX)?;
    (!uid.is_empty() && !uid.contains(POD_PREFIX)).then(|| PodUid::from(uid))
}

fn class_limits(shares: i64) -> CgroupLimits {
    CgroupLimits {
        cpu_shares: Some(shares.unsigned_abs()),
        hugepages: HugepageLimits::Unlimited,
        ..CgroupLimits::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::runtime_spec::pod_paths::tests::settings;
    use crate::test_objects::pod;

    #[test]
    fn qos_cgroups_are_below_configured_root() {
        let mut settings = settings();
        settings.cgroup_root = "/site/a".into();
        let paths = QosCgroups::of(&settings);
        assert_eq!(
            paths.paths(),
            ["/site/a/kubepods", "/site/a/kubepods/burstable", "/site/a/kubepods/besteffort"]
        );
        settings.cgroup_root = "/".into();
        settings.cgroup_driver = CgroupDriver::Systemd;
        assert_eq!(
            QosCgroups::of(&settings).paths(),
            [
                "/kubepods.slice",
                "/kubepods.slice/kubepods-burstable.slice",
                "/kubepods.slice/kubepods-besteffort.slice"
            ]
        );
    }

    #[test]
    fn parses_pod_uid_from_cgroup_name() {
        let uid = "2f1b0e5c-0000-4000-8000-000000000001";
        for (driver, name, expected) in [
            (CgroupDriver::Cgroupfs, format!("pod{uid}"), Some(uid)),
            (CgroupDriver::Cgroupfs, "burstable".into(), None),
            (CgroupDriver::Cgroupfs, "pod".into(), None),
            (CgroupDriver::Cgroupfs, "podpod1".into(), None),
            (
                CgroupDriver::Systemd,
                format!("kubepods-burstable-pod{}.slice", uid.replace('-', "_")),
                Some(uid),
            ),
            (CgroupDriver::Systemd, "kubepods-pod1.slice".into(), Some("1")),
            (CgroupDriver::Systemd, "kubepods-burstable.slice".into(), None),
            (CgroupDriver::Systemd, "kubepods-pod1.scope".into(), None),
        ] {
            let found = pod_of_cgroup(&name, driver);
            assert_eq!(found.as_ref().map(PodUid::as_str), expected, "{name}");
        }
    }

    #[test]
    fn burstable_weight_is_sum_of_requests() {
        let share = |spec: Value| QosRequests::of(&pod(spec)).burstable_cpu;
        let container = |resources: Value| json!({"name": "c", "resources": resources});
        let burstable = container(json!({"requests": {"cpu": "250m"}}));
        let guaranteed = container(
            json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}),
        );
        assert_eq!(share(json!({"containers": [burstable, burstable]})), 500);
        assert_eq!(share(json!({"containers": [burstable], "overhead": {"cpu": "50m"}})), 300);
        assert_eq!(share(json!({"containers": [guaranteed]})), 0);
        assert_eq!(share(json!({"containers": [{"name": "c"}]})), 0);
        assert_eq!(burstable_limits(1500).cpu_shares, Some(1536));
        assert_eq!(burstable_limits(0).cpu_shares, Some(2));
        assert_eq!(best_effort_limits().cpu_shares, Some(2));
    }
}
