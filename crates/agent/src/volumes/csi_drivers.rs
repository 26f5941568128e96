//! Registered CSI drivers and their CSIDriver objects.

use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use decide::node::csi_node::refresh_period;
use futures::StreamExt;
use k8s_openapi::api::storage::v1::CSIDriver;
use ports::api::{Feed, FeedStream};
use ports::plugins::csi::CsiNode;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long a volume waits for the first list of CSIDriver objects.
const FIRST_LIST_TIMEOUT: Duration = Duration::from_secs(5);

type Objects = BTreeMap<String, Arc<CSIDriver>>;

pub struct CsiDrivers {
    registered: RwLock<BTreeMap<String, Arc<dyn CsiNode>>>,
    objects: watch::Sender<Option<Objects>>,
    changes: watch::Sender<()>,
    asked: Mutex<BTreeSet<String>>,
}

impl Default for CsiDrivers {
    fn default() -> Self {
        Self {
            registered: RwLock::default(),
            objects: watch::Sender::new(None),
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
        let objects = self.objects.borrow();
        let registered = self.registered.read();
        let here = objects.iter().flatten().filter(|(name, _)| registered.contains_key(*name));
        here.filter_map(|(name, object)| Some((name.clone(), refresh_period(object)?))).collect()
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
        let mut objects = self.objects.subscribe();
        let spoken = tokio::time::timeout(FIRST_LIST_TIMEOUT, objects.wait_for(Option::is_some)).await;
        match spoken {
            Ok(Ok(objects)) => Ok(objects.as_ref().and_then(|objects| objects.get(name)).cloned()),
            Ok(Err(_)) | Err(_) => Err("the API server has not told of CSIDriver objects yet".to_owned()),
        }
    }

    fn apply(&self, item: Feed<CSIDriver>) {
        let named = |object: CSIDriver| (object.metadata.name.clone().unwrap_or_default(), Arc::new(object));
        self.objects.send_if_modified(|objects| {
            match item {
                Feed::Listed(list) => *objects = Some(list.into_iter().map(named).collect()),
                Feed::Applied(object) => {
                    let (name, object) = named(object);
                    objects.get_or_insert_default().insert(name, object);
                }
                Feed::Deleted(object) => {
                    objects.get_or_insert_default().remove(&named(object).0);
                }
                Feed::Failed(_) => return false,
            }
            true
        });
        self.changes.send_replace(());
    }
}

/// Watches CSIDriver objects.
pub async fn follow(drivers: Arc<CsiDrivers>, mut feed: FeedStream<CSIDriver>, cancel: CancellationToken) {
    while let Some(Some(item)) = cancel.run_until_cancelled(feed.next()).await {
        if let Feed::Failed(error) = &item {
            tracing::debug!(%error, "failed to watch CSIDriver objects, retrying");
        }
        drivers.apply(item);
    }
    cancel.cancelled().await;
}
