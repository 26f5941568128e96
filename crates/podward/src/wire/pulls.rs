//! Creates the ledger of image pulls.

use std::sync::Arc;

use agent::images::pull_ledger::{PullLedger, PullLedgerDeps};

use super::context::Context;

/// The ledger that decides which pods may use cached images; `None` when the check is switched off.
pub(super) fn pull_ledger(context: &Context) -> Option<Arc<PullLedger>> {
    let adapters = &context.adapters;
    let policy = context.plan.verification.clone()?;
    Some(Arc::new(PullLedger::new(PullLedgerDeps {
        records: adapters.pull_records.clone(),
        runtime: adapters.runtime.clone(),
        clock: adapters.clock.clone(),
        metrics: adapters.metrics.clone(),
        policy,
    })))
}
