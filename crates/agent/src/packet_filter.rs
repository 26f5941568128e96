//! Keeps the node's chains in the packet filter.
//!
//! They are made at the start. Each minute one empty chain is looked for; when a firewall was reloaded it is gone, and
//! everything is made again.

use std::sync::Arc;
use std::time::Duration;

use decide::packet_filter::utility_chains;
use model::{FilterPlan, IpFamily};
use ports::packet_filter::{PacketFilter, PacketFilterError};
use tokio_util::sync::CancellationToken;

/// Time between two looks.
const PERIOD: Duration = Duration::from_secs(60);

/// Runs until cancelled.
pub async fn run(filter: Arc<dyn PacketFilter>, cancel: CancellationToken) {
    let mut families = [IpFamily::V4, IpFamily::V6].map(Family::new);
    loop {
        for family in &mut families {
            family.keep(filter.as_ref()).await;
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
    }
}

/// The filter of one family.
struct Family {
    family: IpFamily,
    plan: FilterPlan,
    made: bool,
    /// The problem that was told last; the same one is not told again.
    told: Option<PacketFilterError>,
}

impl Family {
    fn new(family: IpFamily) -> Self {
        Self { family, plan: utility_chains(family), made: false, told: None }
    }

    async fn keep(&mut self, filter: &dyn PacketFilter) {
        match self.bring_in_line(filter).await {
            Ok(()) => self.told = None,
            Err(problem) if self.told.as_ref() == Some(&problem) => {}
            Err(problem) => {
                self.tell(&problem);
                self.told = Some(problem);
            }
        }
    }

    async fn bring_in_line(&mut self, filter: &dyn PacketFilter) -> Result<(), PacketFilterError> {
        if self.made && filter.has(self.family, self.plan.canaries[0]).await? {
            return Ok(());
        }
        if std::mem::take(&mut self.made) {
            tracing::info!(family = ?self.family, "the packet filter was emptied; its chains are made again");
        }
        filter.ensure(self.family, &self.plan).await?;
        self.made = true;
        Ok(())
    }

    fn tell(&self, problem: &PacketFilterError) {
        let family = self.family;
        match problem {
            // Nothing to protect where the kernel has no such family; a machine without the program was set up so.
            PacketFilterError::Missing(_) => {
                tracing::info!(?family, %problem, "no chains are kept in the packet filter");
            }
            PacketFilterError::Failed { .. } => {
                tracing::warn!(?family, %problem, "the chains of makeIPTablesUtilChains cannot be kept; trying again each minute");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use async_trait::async_trait;
    use model::FilterChain;

    use super::*;

    /// A filter that counts how often it was filled, and can be emptied or broken.
    #[derive(Default)]
    struct FakeFilter {
        filled: Mutex<BTreeMap<IpFamily, usize>>,
        present: Mutex<Vec<IpFamily>>,
        broken: Mutex<bool>,
    }

    impl FakeFilter {
        fn filled(&self) -> Vec<(IpFamily, usize)> {
            self.filled.lock().unwrap().clone().into_iter().collect()
        }
    }

    #[async_trait]
    impl PacketFilter for FakeFilter {
        async fn ensure(&self, family: IpFamily, _: &FilterPlan) -> Result<(), PacketFilterError> {
            if *self.broken.lock().unwrap() {
                let (command, reason) = ("iptables".to_owned(), "busy".to_owned());
                return Err(PacketFilterError::Failed { command, reason });
            }
            *self.filled.lock().unwrap().entry(family).or_default() += 1;
            self.present.lock().unwrap().push(family);
            Ok(())
        }

        async fn has(&self, family: IpFamily, _: FilterChain) -> Result<bool, PacketFilterError> {
            Ok(self.present.lock().unwrap().contains(&family))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn chains_are_made_once_and_again_after_a_flush() {
        let (filter, cancel) = (Arc::new(FakeFilter::default()), CancellationToken::new());
        let stage = tokio::spawn(run(filter.clone(), cancel.clone()));
        tokio::time::sleep(PERIOD * 5).await;
        assert_eq!(filter.filled(), [(IpFamily::V4, 1), (IpFamily::V6, 1)]);
        filter.present.lock().unwrap().retain(|family| *family == IpFamily::V6);
        tokio::time::sleep(PERIOD * 2).await;
        assert_eq!(filter.filled(), [(IpFamily::V4, 2), (IpFamily::V6, 1)]);
        cancel.cancel();
        stage.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_failed_is_tried_again() {
        let (filter, cancel) = (Arc::new(FakeFilter::default()), CancellationToken::new());
        *filter.broken.lock().unwrap() = true;
        let stage = tokio::spawn(run(filter.clone(), cancel.clone()));
        tokio::time::sleep(PERIOD * 3).await;
        assert_eq!(filter.filled(), []);
        *filter.broken.lock().unwrap() = false;
        tokio::time::sleep(PERIOD * 2).await;
        assert_eq!(filter.filled(), [(IpFamily::V4, 1), (IpFamily::V6, 1)]);
        cancel.cancel();
        stage.await.unwrap();
    }
}
