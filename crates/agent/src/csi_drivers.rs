//! The CSI drivers of the node: which have registered, and what the cluster says of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use decide::csi_node::refresh_period;
use futures::StreamExt;
use k8s_openapi::api::storage::v1::CSIDriver;
use ports::api::{Feed, FeedStream};
use ports::csi::CsiNode;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long a volume waits for the cluster's first word on drivers.
const PATIENCE: Duration = Duration::from_secs(5);

type Objects = BTreeMap<String, Arc<CSIDriver>>;

/// The drivers.
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
    /// Takes a driver in.
    pub fn register(&self, name: &str, driver: Arc<dyn CsiNode>) {
        self.registered.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), driver);
        self.changes.send_replace(());
    }

    /// Lets a driver go.
    pub fn deregister(&self, name: &str) {
        self.registered.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        self.changes.send_replace(());
    }

    /// Wakes when a driver came or went, or the cluster says something else of one.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// How often drivers that are here are asked how many volumes the node can have; those that are not are left out.
    #[must_use]
    pub fn refresh_periods(&self) -> BTreeMap<String, Duration> {
        let objects = self.objects.borrow();
        let registered = self.registered.read().unwrap_or_else(PoisonError::into_inner);
        let here = objects.iter().flatten().filter(|(name, _)| registered.contains_key(*name));
        here.filter_map(|(name, object)| Some((name.clone(), refresh_period(object)?))).collect()
    }

    /// Has a driver asked at once how many volumes the node can have.
    pub fn ask_now(&self, name: &str) {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        self.changes.send_replace(());
    }

    /// The drivers that are to be asked at once; the next call knows nothing of them.
    #[must_use]
    pub fn take_asked(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.asked.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A driver by name.
    ///
    /// # Errors
    /// When it has not registered.
    pub fn get(&self, name: &str) -> Result<Arc<dyn CsiNode>, String> {
        let found = self.registered.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        found.ok_or_else(|| format!("driver name {name} not found in the list of registered CSI drivers"))
    }

    /// What the cluster says of a driver, `None` if it has no object.
    ///
    /// # Errors
    /// When the cluster has not spoken.
    pub async fn object(&self, name: &str) -> Result<Option<Arc<CSIDriver>>, String> {
        let mut objects = self.objects.subscribe();
        let spoken = tokio::time::timeout(PATIENCE, objects.wait_for(Option::is_some)).await;
        match spoken {
            Ok(Ok(objects)) => Ok(objects.as_ref().and_then(|objects| objects.get(name)).cloned()),
            Ok(Err(_)) | Err(_) => Err("the API server has not told of CSIDriver objects yet".to_owned()),
        }
    }

    fn apply(&self, news: Feed<CSIDriver>) {
        let named = |object: CSIDriver| (object.metadata.name.clone().unwrap_or_default(), Arc::new(object));
        self.objects.send_if_modified(|objects| {
            match news {
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

/// Follows what the cluster says of drivers.
pub async fn follow(drivers: Arc<CsiDrivers>, mut feed: FeedStream<CSIDriver>, cancel: CancellationToken) {
    loop {
        let news = tokio::select! {
            () = cancel.cancelled() => return,
            news = feed.next() => news,
        };
        match news {
            Some(news) => {
                if let Feed::Failed(error) = &news {
                    tracing::debug!(%error, "the watch of CSIDriver objects failed; it is begun again");
                }
                drivers.apply(news);
            }
            None => return cancel.cancelled().await,
        }
    }
}
