//! Maintains the kubelet's chains in the packet filter (`makeIPTablesUtilChains`).
//!
//! They are created at the start. Every minute an empty canary chain is checked: if it is missing, the firewall was
//! reloaded, and all chains are created again.

use std::sync::Arc;
use std::time::Duration;

use decide::node::packet_filter::utility_chains;
use model::{FilterPlan, IpFamily};
use ports::host::packet_filter::{PacketFilter, PacketFilterError};
use tokio_util::sync::CancellationToken;

const CHECK_PERIOD: Duration = Duration::from_secs(60);

/// Runs until cancelled.
pub async fn run(filter: Arc<dyn PacketFilter>, cancel: CancellationToken) {
    let mut families = [IpFamily::V4, IpFamily::V6].map(Family::new);
    loop {
        for family in &mut families {
            family.reconcile(filter.as_ref()).await;
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(CHECK_PERIOD) => {}
        }
    }
}

/// Chains of one IP family.
struct Family {
    family: IpFamily,
    plan: FilterPlan,
    created: bool,
    /// Prevents logging the same error again.
    last_error: Option<PacketFilterError>,
}

impl Family {
    fn new(family: IpFamily) -> Self {
        Self { family, plan: utility_chains(family), created: false, last_error: None }
    }

    async fn reconcile(&mut self, filter: &dyn PacketFilter) {
        match self.ensure_chains(filter).await {
            Ok(()) => self.last_error = None,
            Err(error) if self.last_error.as_ref() == Some(&error) => {}
            Err(error) => {
                self.log_error(&error);
                self.last_error = Some(error);
            }
        }
    }

    async fn ensure_chains(&mut self, filter: &dyn PacketFilter) -> Result<(), PacketFilterError> {
        if self.created && filter.has(self.family, self.plan.canaries[0]).await? {
            return Ok(());
        }
        if std::mem::take(&mut self.created) {
            tracing::info!(family = ?self.family, "packet filter chains were removed, creating them again");
        }
        filter.ensure(self.family, &self.plan).await?;
        self.created = true;
        Ok(())
    }

    fn log_error(&self, error: &PacketFilterError) {
        let family = self.family;
        match error {
            // The kernel does not support the family, or the program was deliberately not installed.
            PacketFilterError::Missing(_) => {
                tracing::info!(?family, %error, "packet filter is not available, creating no chains");
            }
            PacketFilterError::Failed { .. } => {
                tracing::warn!(?family, %error, "failed to create packet filter chains, retrying every minute");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use std::collections::BTreeMap;

    use async_trait::async_trait;
    use model::FilterChain;

    use super::*;

    /// Counts how often the chains were created; chains can be removed, and the filter can fail.
    #[derive(Default)]
    struct FakeFilter {
        creations: Mutex<BTreeMap<IpFamily, usize>>,
        present: Mutex<Vec<IpFamily>>,
        fails: Mutex<bool>,
    }

    impl FakeFilter {
        fn creations(&self) -> Vec<(IpFamily, usize)> {
            self.creations.lock().clone().into_iter().collect()
        }
    }

    #[async_trait]
    impl PacketFilter for FakeFilter {
        async fn ensure(&self, family: IpFamily, _: &FilterPlan) -> Result<(), PacketFilterError> {
            if *self.fails.lock() {
                let (command, reason) = ("iptables".to_owned(), "busy".to_owned());
                return Err(PacketFilterError::Failed { command, reason });
            }
            *self.creations.lock().entry(family).or_default() += 1;
            self.present.lock().push(family);
            Ok(())
        }

        async fn has(&self, family: IpFamily, _: FilterChain) -> Result<bool, PacketFilterError> {
            Ok(self.present.lock().contains(&family))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn creates_chains_once_and_again_after_flush() {
        let (filter, cancel) = (Arc::new(FakeFilter::default()), CancellationToken::new());
        let stage = tokio::spawn(run(filter.clone(), cancel.clone()));
        tokio::time::sleep(CHECK_PERIOD * 5).await;
        assert_eq!(filter.creations(), [(IpFamily::V4, 1), (IpFamily::V6, 1)]);
        filter.present.lock().retain(|family| *family == IpFamily::V6);
        tokio::time::sleep(CHECK_PERIOD * 2).await;
        assert_eq!(filter.creations(), [(IpFamily::V4, 2), (IpFamily::V6, 1)]);
        cancel.cancel();
        stage.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn retries_after_failure() {
        let (filter, cancel) = (Arc::new(FakeFilter::default()), CancellationToken::new());
        *filter.fails.lock() = true;
        let stage = tokio::spawn(run(filter.clone(), cancel.clone()));
        tokio::time::sleep(CHECK_PERIOD * 3).await;
        assert_eq!(filter.creations(), []);
        *filter.fails.lock() = false;
        tokio::time::sleep(CHECK_PERIOD * 2).await;
        assert_eq!(filter.creations(), [(IpFamily::V4, 1), (IpFamily::V6, 1)]);
        cancel.cancel();
        stage.await.unwrap();
    }
}
