//! Deletes ResourceSlices of drivers that cannot be used, so that the scheduler allocates none of their devices.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ports::api::resource_claims::ApiResourceClaims;
use timing::{Backoff, BackoffPolicy, random};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::dra_drivers::UsableDrivers;
use crate::node::node_view::{self, NodeView};

/// How long a driver may be unusable, for example during an update.
const WIPE_DELAY: Duration = Duration::from_secs(30);
const BACKOFF: BackoffPolicy =
    BackoffPolicy::doubling(Duration::from_secs(1), Duration::from_secs(300)).with_jitter(0.2);

/// Slices to delete: those of a driver, or all of the node.
type Subject = Option<String>;

struct Pending {
    due: Instant,
    backoff: Backoff,
}

impl Pending {
    fn after(delay: Duration) -> Self {
        Self { due: Instant::now() + delay, backoff: Backoff::new(BACKOFF) }
    }
}

/// Runs until cancelled. The slices of all drivers are deleted at the start: a driver that still exists publishes them again.
pub async fn run(
    api: Arc<dyn ApiResourceClaims>,
    mut view: watch::Receiver<NodeView>,
    mut usable: watch::Receiver<UsableDrivers>,
    cancel: CancellationToken,
) {
    let work = async {
        node_view::wait_until_known(&mut view).await;
        let mut pending = BTreeMap::from([(None, Pending::after(Duration::ZERO))]);
        let mut wiped = BTreeSet::new();
        loop {
            follow(&usable.borrow_and_update(), &mut pending, &mut wiped);
            let next = pending.values().map(|pending| pending.due).min();
            let due = async {
                match next {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = usable.changed() => if changed.is_err() { return },
                () = due => wipe_due(&*api, &mut pending, &mut wiped).await,
            }
        }
    };
    cancel.run_until_cancelled(work).await;
    cancel.cancelled().await;
}

/// Starts the delay of drivers that became unusable, and ends that of the others.
fn follow(usable: &UsableDrivers, pending: &mut BTreeMap<Subject, Pending>, wiped: &mut BTreeSet<String>) {
    for (driver, is_usable) in usable {
        if *is_usable {
            wiped.remove(driver);
            pending.remove(&Some(driver.clone()));
        } else if !wiped.contains(driver) {
            pending.entry(Some(driver.clone())).or_insert_with(|| Pending::after(WIPE_DELAY));
        }
    }
}

async fn wipe_due(
    api: &dyn ApiResourceClaims,
    pending: &mut BTreeMap<Subject, Pending>,
    wiped: &mut BTreeSet<String>,
) {
    let now = Instant::now();
    let due = pending.iter().filter(|(_, pending)| pending.due <= now);
    let due: Vec<Subject> = due.map(|(subject, _)| subject.clone()).collect();
    for subject in due {
        match api.delete_slices(subject.as_deref()).await {
            Ok(()) => {
                tracing::info!(
                    driver = subject.as_deref().unwrap_or("<all>"),
                    "deleted ResourceSlices of the node"
                );
                pending.remove(&subject);
                wiped.extend(subject);
            }
            Err(error) => {
                tracing::warn!(driver = subject.as_deref().unwrap_or("<all>"), %error, "failed to delete ResourceSlices of the node, retrying");
                if let Some(pending) = pending.get_mut(&subject) {
                    pending.due = Instant::now() + pending.backoff.next(random());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
