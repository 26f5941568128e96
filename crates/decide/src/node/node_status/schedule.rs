//! Decides when an unchanged node status is reported.

use std::time::Duration;

use model::Timestamp;
use timing::jitter;

/// Schedules periodic reports. After a change the next report is jittered by half a period, so that nodes that changed
/// at the same time do not keep reporting at the same time.
#[derive(Clone, Debug)]
pub struct ReportSchedule {
    period: Duration,
    last: Option<Timestamp>,
    interval: Duration,
}

impl ReportSchedule {
    /// `period` is `nodeStatusReportFrequency`.
    pub fn new(period: Duration) -> Self {
        Self { period, last: None, interval: period }
    }

    /// Whether a report is due although nothing changed. Always true after the clock was set back, because the age of the
    /// last report is unknown.
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.last.is_none_or(|last| now < last || now.since(last) >= self.interval)
    }

    /// Records a successful report with a change; `random` is between 0 and 1.
    pub fn reported_change(&mut self, now: Timestamp, random: f64) {
        // From half a period to one and a half.
        self.interval = jitter(self.period / 2, 2.0, random);
        self.last = Some(now);
    }

    /// Records a successful report without a change.
    pub fn reported(&mut self, now: Timestamp, random: f64) {
        match self.last {
            None => self.reported_change(now, random),
            Some(_) => (self.interval, self.last) = (self.period, Some(now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_unchanged_node_periodically() {
        let at = Timestamp::from_secs;
        let mut schedule = ReportSchedule::new(Duration::from_secs(300));
        assert!(schedule.is_due(at(1000)));
        schedule.reported(at(1000), 0.0);
        // The first report is jittered like a change.
        assert!(!schedule.is_due(at(1149)) && schedule.is_due(at(1150)));
        schedule.reported(at(1150), 0.0);
        assert!(!schedule.is_due(at(1449)) && schedule.is_due(at(1450)));
        schedule.reported_change(at(1450), 1.0);
        assert!(!schedule.is_due(at(1899)) && schedule.is_due(at(1900)));
        assert!(schedule.is_due(at(1449)), "the clock was set back");
    }
}
