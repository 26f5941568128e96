//! Registered CSI drivers and their CSIDriver objects.

use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use decide::node::csi_node::refresh_period;
use futures::StreamExt;
use k8s_openapi::api::storage::v1::CSIDriver;
use ports::api::FeedStream;
use ports::plugins::csi::CsiNode;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::cluster::watched_set::{WatchFailures, WatchedSet};

/// How long a volume waits for the first list of CSIDriver objects.
const FIRST_LIST_TIMEOUT: Duration = Duration::from_secs(5);

pub struct CsiDrivers {
    registered: RwLock<BTreeMap<String, Arc<dyn CsiNode>>>,
    objects: WatchedSet<CSIDriver>,
    changes: watch::Sender<()>,
    asked: Mutex<BTreeSet<String>>,
}

impl Default for CsiDrivers {
    fn default() -> Self {
        Self {
            registered: RwLock::default(),
            objects: WatchedSet::new(name_of),
            changes: watch::Sender::new(()),
            asked: Mutex::default(),
        }
    }
}

impl CsiDrivers {
    pub fn register(&self, name: &str, driver: Arc<dyn CsiNode>) {
        self.registered.write().insert(name.to_owned(), driver);
        self.changes.send_replace(());
    }

    pub fn deregister(&self, name: &str) {
        self.registered.write().remove(name);
        self.changes.send_replace(());
    }

    /// Notifies about changes of drivers or their objects.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Refresh periods of the attach limit, by registered driver.
    #[must_use]
    pub fn refresh_periods(&self) -> BTreeMap<String, Duration> {
        let objects = self.objects.all();
        let registered = self.registered.read();
        let periods = objects.iter().filter_map(|object| Some((name_of(object), refresh_period(object)?)));
        periods.filter(|(name, _)| registered.contains_key(name)).collect()
    }

    /// Requests a refresh of the attach limit of a driver.
    pub fn request_refresh(&self, name: &str) {
        self.asked.lock().insert(name.to_owned());
        self.changes.send_replace(());
    }

    /// Takes the requested refreshes.
    #[must_use]
    pub fn take_refresh_requests(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.asked.lock())
    }

    ///
    /// # Errors
    /// When the driver is not registered.
    pub fn get(&self, name: &str) -> Result<Arc<dyn CsiNode>, String> {
        let found = self.registered.read().get(name).cloned();
        found.ok_or_else(|| format!("driver name {name} not found in the list of registered CSI drivers"))
    }

    /// The CSIDriver object; `None` if there is none.
    ///
    /// # Errors
    /// When the objects have not been listed yet.
    pub async fn object(&self, name: &str) -> Result<Option<Arc<CSIDriver>>, String> {
        if !self.objects.wait_until_read(FIRST_LIST_TIMEOUT).await {
            return Err("the API server has not listed CSIDriver objects yet".to_owned());
        }
        Ok(self.objects.get(name))
    }
}

fn name_of(object: &CSIDriver) -> String {
    object.metadata.name.clone().unwrap_or_default()
}

/// Watches CSIDriver objects.
pub async fn follow(drivers: Arc<CsiDrivers>, mut feed: FeedStream<CSIDriver>, cancel: CancellationToken) {
    let mut failures = WatchFailures::new("CSIDriver");
    while let Some(Some(item)) = cancel.run_until_cancelled(feed.next()).await {
        failures.log(&item);
        drivers.objects.apply(item);
        drivers.changes.send_replace(());
    }
    cancel.cancelled().await;
}
