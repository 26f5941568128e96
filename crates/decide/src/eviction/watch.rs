//! Thresholds over time.

use std::collections::BTreeMap;
use std::time::Duration;

use model::Timestamp;

use super::observations::Observations;
use super::signals::Shortage;
use super::thresholds::Threshold;
use crate::node_status::Pressure;

/// What was seen so far.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// Thresholds that are met, and since when.
    met_since: Vec<(Threshold, Timestamp)>,
    /// When something was short last.
    short_at: BTreeMap<Shortage, Timestamp>,
    /// Thresholds that were acted on and are not resolved.
    unresolved: Vec<Threshold>,
    last: Observations,
}

/// What one look at the node comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What runs short, or did so lately.
    pub pressure: Pressure,
    /// What must be acted on.
    pub act_on: Vec<Threshold>,
}

/// Whether a threshold counts as met until more than it asks for is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinimumReclaim {
    /// It does not.
    Ignored,
    /// It does.
    Enforced,
}

/// The thresholds that are met, whatever their grace. What was not observed meets none.
#[must_use]
pub fn met(thresholds: &[Threshold], seen: &Observations, reclaim: MinimumReclaim) -> Vec<Threshold> {
    let is_met = |threshold: &&Threshold| {
        seen.get(&threshold.signal).is_some_and(|seen| {
            let more = match reclaim {
                MinimumReclaim::Ignored => 0,
                MinimumReclaim::Enforced => {
                    threshold.min_reclaim.map_or(0, |reclaim| reclaim.of(seen.capacity))
                }
            };
            threshold.value.of(seen.capacity).saturating_add(more) > seen.available
        })
    };
    thresholds.iter().filter(is_met).cloned().collect()
}

impl Watch {
    /// Takes in one look at the node.
    pub fn step(
        &mut self,
        thresholds: &[Threshold],
        seen: Observations,
        transition: Duration,
        now: Timestamp,
    ) -> Step {
        let mut current = met(thresholds, &seen, MinimumReclaim::Ignored);
        for old in met(&self.unresolved, &seen, MinimumReclaim::Enforced) {
            if !current.iter().any(|known| known.is_same(&old)) {
                current.push(old);
            }
        }
        let since = |threshold: &Threshold| {
            let known = self.met_since.iter().find(|(known, _)| known == threshold);
            known.map_or(now, |(_, since)| *since)
        };
        self.met_since = current.iter().map(|own| (own.clone(), since(own))).collect();
        self.short_at.extend(current.iter().map(|own| (own.signal.shortage(), now)));
        let is_short = |shortage| self.short_at.get(&shortage).is_some_and(|at| now.since(*at) < transition);
        let pressure = Pressure {
            memory: is_short(Shortage::Memory),
            disk: is_short(Shortage::Disk),
            pid: is_short(Shortage::Pid),
        };
        let over = self.met_since.iter().filter(|(own, since)| now.since(*since) >= own.grace);
        self.unresolved = over.map(|(own, _)| own.clone()).collect();
        // What was acted on already is not acted on again before it was measured anew.
        let is_new = |own: &&Threshold| {
            seen.get(&own.signal).is_some_and(|seen| {
                let last = self.last.get(&own.signal);
                last.is_none_or(|last| seen.at.is_zero() || seen.at > last.at)
            })
        };
        let act_on = self.unresolved.iter().filter(is_new).cloned().collect();
        self.last = seen;
        Step { pressure, act_on }
    }

    /// What was seen at the last look.
    #[must_use]
    pub fn last(&self) -> &Observations {
        &self.last
    }
}
