//! Protected memory (gate `MemoryQoS`).

use decide::cgroups::memory_qos::QosProtection;

use super::series::{Family, Gauge};

metrics_group! {
    MemoryQosMetrics {
        min: Family<Gauge, 0> = Family::new([]),
            "kubelet_memory_qos_node_memory_min_bytes", "Requested memory of Guaranteed pods, which is never reclaimed";
        low: Family<Gauge, 0> = Family::new([]),
            "kubelet_memory_qos_node_memory_low_bytes", "Requested memory of Burstable pods, which is reclaimed last";
    }
}

impl MemoryQosMetrics {
    pub(crate) fn show(&self, protection: &QosProtection) {
        #[expect(clippy::cast_precision_loss, reason = "gauges are floating-point numbers")]
        let set = |gauge: &Family<Gauge, 0>, bytes: i64| gauge.get([]).set(bytes as f64);
        set(&self.min, protection.guaranteed_bytes);
        set(&self.low, protection.burstable_bytes);
    }
}
