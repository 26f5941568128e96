//! What is written down of image pulls.

use std::sync::Arc;

use agent::pull_ledger::{Parts, PullLedger};

use super::World;
use crate::plan::Plan;

/// The ledger that says who may use images that are there; `None` when that is switched off.
pub(super) fn pull_ledger(world: &World, plan: &Plan) -> Option<Arc<PullLedger>> {
    let parts = |policy| Parts {
        records: world.pull_records.clone(),
        runtime: world.runtime.clone(),
        clock: world.clock.clone(),
        metrics: world.metrics.clone(),
        policy,
    };
    plan.verification.clone().map(|policy| Arc::new(PullLedger::new(parts(policy))))
}
