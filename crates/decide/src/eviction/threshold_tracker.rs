//! Tracks how long thresholds have been met.

use std::collections::BTreeMap;
use std::time::Duration;

use model::Timestamp;

use super::observations::SignalObservations;
use super::signals::PressureKind;
use super::thresholds::Threshold;
use crate::node::node_status::Pressure;

/// State of the thresholds over time.
#[derive(Clone, Debug, Default)]
pub struct ThresholdTracker {
    met_since: Vec<(Threshold, Timestamp)>,
    /// When a threshold of this kind was met last.
    last_met: BTreeMap<PressureKind, Timestamp>,
    /// Thresholds that were acted on and are not resolved yet.
    unresolved: Vec<Threshold>,
    last: SignalObservations,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PressureUpdate {
    /// Conditions that are true, or stay true for the transition period.
    pub pressure: Pressure,
    /// Thresholds to act on now.
    pub act_on: Vec<Threshold>,
}

/// Whether a threshold stays met until its minimum reclaim is available as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinimumReclaim {
    Ignored,
    Enforced,
}

/// The thresholds that are met, whatever their grace period. Signals without an observation meet none.
pub fn met_thresholds(
    thresholds: &[Threshold],
    observations: &SignalObservations,
    reclaim: MinimumReclaim,
) -> Vec<Threshold> {
    let is_met = |threshold: &&Threshold| {
        observations.get(&threshold.signal).is_some_and(|observation| {
            let more = match reclaim {
                MinimumReclaim::Ignored => 0,
                MinimumReclaim::Enforced => {
                    threshold.min_reclaim.map_or(0, |reclaim| reclaim.of(observation.capacity))
                }
            };
            threshold.value.of(observation.capacity).saturating_add(more) > observation.available
        })
    };
    thresholds.iter().filter(is_met).cloned().collect()
}

impl ThresholdTracker {
    /// Updates the state with new observations.
    pub fn update(
        &mut self,
        thresholds: &[Threshold],
        observations: SignalObservations,
        transition: Duration,
        now: Timestamp,
    ) -> PressureUpdate {
        let mut current = met_thresholds(thresholds, &observations, MinimumReclaim::Ignored);
        for old in met_thresholds(&self.unresolved, &observations, MinimumReclaim::Enforced) {
            if !current.iter().any(|threshold| threshold.is_same(&old)) {
                current.push(old);
            }
        }
        let since = |threshold: &Threshold| {
            let entry = self.met_since.iter().find(|(met, _)| met == threshold);
            entry.map_or(now, |(_, since)| *since)
        };
        self.met_since = current.iter().map(|threshold| (threshold.clone(), since(threshold))).collect();
        self.last_met.extend(current.iter().map(|threshold| (threshold.signal.pressure_kind(), now)));
        let has_pressure = |kind| self.last_met.get(&kind).is_some_and(|at| now.since(*at) < transition);
        let pressure = Pressure {
            memory: has_pressure(PressureKind::Memory),
            disk: has_pressure(PressureKind::Disk),
            pid: has_pressure(PressureKind::Pid),
        };
        let due = self.met_since.iter().filter(|(threshold, since)| now.since(*since) >= threshold.grace);
        self.unresolved = due.map(|(threshold, _)| threshold.clone()).collect();
        // Do not act twice on the same observation.
        let is_new = |threshold: &&Threshold| {
            observations.get(&threshold.signal).is_some_and(|observation| {
                let last = self.last.get(&threshold.signal);
                last.is_none_or(|last| observation.at.is_zero() || observation.at > last.at)
            })
        };
        let act_on = self.unresolved.iter().filter(is_new).cloned().collect();
        self.last = observations;
        PressureUpdate { pressure, act_on }
    }

    pub fn last_observations(&self) -> &SignalObservations {
        &self.last
    }
}
