//! When a node is reported that did not change.

use std::time::Duration;

use model::Timestamp;

/// Counts from one report to the next. After a change the next one comes up to half a period earlier or later, so
/// that nodes which changed together do not report together for ever.
#[derive(Clone, Debug)]
pub struct ReportSchedule {
    frequency: Duration,
    last: Option<Timestamp>,
    wait: Duration,
}

impl ReportSchedule {
    /// `frequency` is `nodeStatusReportFrequency`.
    #[must_use]
    pub fn new(frequency: Duration) -> Self {
        Self { frequency, last: None, wait: frequency }
    }

    /// Whether a report is due though nothing changed. It is after the clock was set back: how long ago the last one was
    /// nobody knows.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.last.is_none_or(|last| now < last || now.since(last) >= self.wait)
    }

    /// A report of a change was taken; `share` is somewhere in 0..1.
    pub fn reported_change(&mut self, now: Timestamp, share: f64) {
        self.wait = self.frequency.mul_f64(0.5 + share.clamp(0.0, 1.0));
        self.last = Some(now);
    }

    /// A report without a change was taken.
    pub fn reported(&mut self, now: Timestamp, share: f64) {
        match self.last {
            None => self.reported_change(now, share),
            Some(_) => (self.wait, self.last) = (self.frequency, Some(now)),
        }
    }
}

/// A number in 0..1 that differs from node to node and from time to time.
#[must_use]
pub fn share(name: &str, now: Timestamp) -> f64 {
    // FNV-1a: no secret, only spread.
    let bytes = name.bytes().chain(now.as_nanos().to_le_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let thousand = u32::try_from((hash >> 20) % 1000).unwrap_or(0);
    f64::from(thousand) / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unchanged_node_is_reported_now_and_then() {
        let at = Timestamp::from_secs;
        let mut schedule = ReportSchedule::new(Duration::from_secs(300));
        assert!(schedule.is_due(at(1000)));
        schedule.reported(at(1000), 0.0);
        // The first report is spread like a change.
        assert!(!schedule.is_due(at(1149)) && schedule.is_due(at(1150)));
        schedule.reported(at(1150), 0.0);
        assert!(!schedule.is_due(at(1449)) && schedule.is_due(at(1450)));
        schedule.reported_change(at(1450), 1.0);
        assert!(!schedule.is_due(at(1899)) && schedule.is_due(at(1900)));
        assert!(schedule.is_due(at(1449)), "the clock was set back");
    }

    #[test]
    fn shares_spread() {
        let shares: Vec<f64> =
            (0..100).map(|n| share(&format!("node-{n}"), Timestamp::from_secs(5))).collect();
        assert!(shares.iter().all(|share| (0.0..1.0).contains(share)));
        assert!(shares.iter().filter(|share| **share < 0.5).count() > 20);
        assert!(shares.iter().filter(|share| **share > 0.5).count() > 20);
    }
}
