//! Times of the last graceful shutdown.

use model::Timestamp;

use super::series::Gauge;
use super::{Collect, Page};

metrics_group! {
    ShutdownMetrics {
        start: Gauge = Gauge::default(),
            "kubelet_graceful_shutdown_start_time_seconds",
            "Last graceful shutdown start time since unix epoch in seconds";
        end: Gauge = Gauge::default(),
            "kubelet_graceful_shutdown_end_time_seconds",
            "Last graceful shutdown end time since unix epoch in seconds";
    }
}

impl ShutdownMetrics {
    pub fn set(&self, started: Option<Timestamp>, ended: Option<Timestamp>) {
        for (gauge, time) in [(&self.start, started), (&self.end, ended)] {
            let seconds = time.map_or(0, |time| time.as_nanos().div_euclid(1_000_000_000));
            #[expect(clippy::cast_precision_loss, reason = "seconds of this age are exact in a gauge")]
            gauge.set(seconds as f64);
        }
    }
}

impl Collect for ShutdownMetrics {
    fn collect(&self, page: &mut Page) {
        self.write(page);
    }
}
