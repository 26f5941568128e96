use std::collections::BTreeMap;
use std::io;

use async_trait::async_trait;
use model::{MemoryQos, MemoryReservation};
use parking_lot::Mutex;

use super::*;
use crate::metrics::{Format, Metrics};

/// Cgroups that use 500 bytes each, and refuse lower memory limits.
#[derive(Default)]
struct FakeCgroups(Mutex<BTreeMap<String, CgroupLimits>>);

#[async_trait]
impl PodCgroups for FakeCgroups {
    async fn ensure(&self, path: &str, limits: &CgroupLimits) -> Result<(), FileError> {
        if limits.memory.is_some_and(|bytes| bytes < 500) {
            let source = io::Error::from(io::ErrorKind::ResourceBusy);
            return Err(FileError { operation: "set cgroup limit", path: path.into(), source });
        }
        let mut all = self.0.lock();
        let found = all.entry(path.to_owned()).or_default();
        found.cpu_shares = limits.cpu_shares.or(found.cpu_shares);
        found.memory = limits.memory.or(found.memory);
        found.memory_min = limits.memory_min.or(found.memory_min);
        found.memory_low = limits.memory_low.or(found.memory_low);
        Ok(())
    }

    async fn set(&self, path: &str, limits: &CgroupLimits) -> Result<(), FileError> {
        self.ensure(path, limits).await
    }

    async fn exists(&self, _: &str) -> Result<bool, FileError> {
        Ok(true)
    }

    async fn limits(&self, _: &str) -> Result<CgroupLimits, FileError> {
        Ok(CgroupLimits::default())
    }

    async fn memory_usage(&self, _: &str) -> Result<u64, FileError> {
        Ok(500)
    }

    async fn children(&self, _: &str) -> Result<Vec<String>, FileError> {
        Ok(Vec::new())
    }

    async fn kill_processes(&self, _: &str) -> Result<(), FileError> {
        Ok(())
    }

    async fn remove(&self, _: &str) -> Result<(), FileError> {
        Ok(())
    }
}

const REQUESTS: QosRequests =
    QosRequests { burstable_cpu: 1000, burstable_memory: 300, guaranteed_memory: 400 };

/// Memory limit, `memory.min` and `memory.low` of all pods, Burstable and BestEffort, and the page of metrics.
async fn found(settings: &NodeSettings) -> ([(Option<i64>, Option<i64>, Option<i64>); 3], String) {
    let (cgroups, metrics) = (FakeCgroups::default(), Metrics::new());
    let paths = QosCgroups::of(settings);
    let classes = QosClasses { cgroups: &cgroups, settings, paths: &paths, metrics: &metrics.memory_qos };
    classes.follow(REQUESTS).await;
    let all = cgroups.0.lock().clone();
    let of = |path: &str| {
        let limits = all.get(path).cloned().unwrap_or_default();
        (limits.memory, limits.memory_min, limits.memory_low)
    };
    assert_eq!(all.get(&paths.burstable).and_then(|limits| limits.cpu_shares), Some(1024));
    (paths.paths().map(of), metrics.encode(Format::Text))
}

#[tokio::test]
async fn memory_qos_protects_requests_and_shows_them() {
    let mut settings = testkit::fakes::node_settings();
    let (limits, page) = found(&settings).await;
    assert_eq!(limits, [(None, None, None); 3]);
    assert!(!page.contains("\nkubelet_memory_qos_node_memory_min_bytes"), "{page}");
    let tiered = MemoryReservation::Tiered;
    settings.cgroups.memory_qos =
        Some(MemoryQos { throttling_factor: 0.9, reservation: tiered, page_size: 4096 });
    let (limits, page) = found(&settings).await;
    assert_eq!(limits, [(None, Some(700), None), (None, None, Some(300)), (None, None, None)]);
    for line in
        ["kubelet_memory_qos_node_memory_min_bytes 400\n", "kubelet_memory_qos_node_memory_low_bytes 300\n"]
    {
        assert!(page.contains(line), "{page}");
    }
}

#[tokio::test]
async fn reserved_memory_limits_lower_classes_but_not_below_their_usage() {
    let mut settings = testkit::fakes::node_settings();
    settings.cgroups.qos_reserved_memory = Some(100);
    settings.resources.capacity = [("memory".to_owned(), 1100)].into();
    let (limits, _) = found(&settings).await;
    // 1100 - 400 = 700 for Burstable; 400 for BestEffort is below its usage.
    assert_eq!(limits, [(None, None, None), (Some(700), None, None), (Some(500), None, None)]);
}
