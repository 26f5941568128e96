//! The cgroups above those of pods: all pods, Burstable ones, BestEffort ones.

use model::{CgroupDriver, CgroupLimits, HugepageLimits, NodeSettings, Pod, PodUid};

use crate::pod_paths::cgroup_path;
use crate::qos::{QosClass, pod_qos_class};
use crate::resources::{MIN_CPU_SHARES, cpu_shares, pod_requests};

const POD_PREFIX: &str = "pod";

/// Paths of the cgroups above those of pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QosCgroups {
    /// Of all pods; Guaranteed ones lie directly below.
    pub all: String,
    /// Of Burstable pods.
    pub burstable: String,
    /// Of BestEffort pods.
    pub best_effort: String,
}

impl QosCgroups {
    /// The paths on a node.
    #[must_use]
    pub fn of(settings: &NodeSettings) -> Self {
        Self {
            all: cgroup_path(settings, &["kubepods"]),
            burstable: cgroup_path(settings, &["kubepods", "burstable"]),
            best_effort: cgroup_path(settings, &["kubepods", "besteffort"]),
        }
    }

    /// All three, parents first.
    #[must_use]
    pub fn each(&self) -> [&str; 3] {
        [&self.all, &self.burstable, &self.best_effort]
    }
}

/// Limits of the class of Burstable pods that request so many thousandths of a CPU together.
#[must_use]
pub fn burstable_limits(requested_milli: i64) -> CgroupLimits {
    class_limits(cpu_shares(requested_milli))
}

/// Limits of the class of BestEffort pods.
#[must_use]
pub fn best_effort_limits() -> CgroupLimits {
    class_limits(MIN_CPU_SHARES)
}

/// Limits of a cgroup whose pod is over but whose volumes are still there: it gets as little CPU as can be.
#[must_use]
pub fn leftover_limits() -> CgroupLimits {
    CgroupLimits { cpu_shares: Some(MIN_CPU_SHARES.unsigned_abs()), ..CgroupLimits::default() }
}

/// What a pod adds to the weight of the Burstable class, in thousandths of a CPU.
#[must_use]
pub fn burstable_share(pod: &Pod) -> i64 {
    match pod_qos_class(pod) {
        QosClass::Burstable => {
            let overhead = crate::quantity::Amount::in_list(pod.spec.overhead.as_ref(), "cpu");
            let requested = pod_requests(pod).get("cpu").copied().unwrap_or_default();
            (requested + overhead).milli()
        }
        QosClass::Guaranteed | QosClass::BestEffort => 0,
    }
}

/// The pod that a cgroup below one of the classes belongs to, by its name; `None` when it is no pod's.
#[must_use]
pub fn pod_of_cgroup(name: &str, driver: CgroupDriver) -> Option<PodUid> {
    let own = match driver {
        CgroupDriver::Cgroupfs => name.to_owned(),
        // Slices repeat the names above theirs.
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
    use crate::pod_paths::tests::settings;
    use crate::test_objects::pod;

    #[test]
    fn classes_lie_below_the_configured_root() {
        let mut settings = settings();
        settings.cgroup_root = "/site/a".into();
        let paths = QosCgroups::of(&settings);
        assert_eq!(
            paths.each(),
            ["/site/a/kubepods", "/site/a/kubepods/burstable", "/site/a/kubepods/besteffort"]
        );
        settings.cgroup_root = "/".into();
        settings.cgroup_driver = CgroupDriver::Systemd;
        assert_eq!(
            QosCgroups::of(&settings).each(),
            [
                "/kubepods.slice",
                "/kubepods.slice/kubepods-burstable.slice",
                "/kubepods.slice/kubepods-besteffort.slice"
            ]
        );
    }

    #[test]
    fn pods_are_known_by_the_names_of_their_cgroups() {
        let uid = "2f1b0e5c-0000-4000-8000-000000000001";
        for (driver, name, wanted) in [
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
            assert_eq!(found.as_ref().map(PodUid::as_str), wanted, "{name}");
        }
    }

    #[test]
    fn the_burstable_class_weighs_what_its_pods_request() {
        let share = |spec: Value| burstable_share(&pod(spec));
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
