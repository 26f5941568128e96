use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;
use ports::api::FeedStream;
use ports::plugins::csi::{CsiCapabilities, CsiError, CsiVolumeState, Expand, Publish, Stage};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;

/// A cluster with one node that can be slow or unreachable.
#[derive(Default)]
struct Cluster {
    csi_node: Mutex<Option<CSINode>>,
    hangs: AtomicBool,
    refusals: AtomicUsize,
}

impl Cluster {
    async fn answer(&self) -> Result<(), ApiError> {
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        let refused =
            self.refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if refused.is_ok() { Err(error(ApiErrorKind::Server)) } else { Ok(()) }
    }

    fn drivers(&self) -> Vec<String> {
        let object = self.csi_node.lock().clone();
        object.into_iter().flat_map(|object| object.spec.drivers).map(|driver| driver.name).collect()
    }
}

fn error(kind: ApiErrorKind) -> ApiError {
    ApiError { kind, message: "no".to_owned(), retry_after: None }
}

#[async_trait]
impl ApiNodes for Cluster {
    fn watch(&self) -> FeedStream<Node> {
        Box::pin(futures::stream::pending())
    }

    async fn get(&self) -> Result<Node, ApiError> {
        self.answer().await?;
        Ok(serde_json::from_value(json!({"metadata": {"name": "n", "uid": "node-uid"}})).unwrap())
    }

    async fn create(&self, node: &Node) -> Result<Node, ApiError> {
        Ok(node.clone())
    }

    async fn patch_status(&self, _: &Value) -> Result<Node, ApiError> {
        ApiNodes::get(self).await
    }
}

#[async_trait]
impl ApiCsiNodes for Cluster {
    async fn get(&self) -> Result<CSINode, ApiError> {
        self.answer().await?;
        self.csi_node.lock().clone().ok_or_else(|| error(ApiErrorKind::NotFound))
    }

    async fn create(&self, object: &CSINode) -> Result<(), ApiError> {
        self.replace(object).await
    }

    async fn replace(&self, object: &CSINode) -> Result<(), ApiError> {
        self.answer().await?;
        *self.csi_node.lock() = Some(object.clone());
        Ok(())
    }

    async fn delete(&self) -> Result<(), ApiError> {
        *self.csi_node.lock() = None;
        Ok(())
    }
}

/// A driver that only returns its node information.
struct Driver;

#[async_trait]
impl CsiNode for Driver {
    async fn info(&self) -> Result<CsiNodeInfo, CsiError> {
        Ok(CsiNodeInfo { node_id: "id".to_owned(), ..CsiNodeInfo::default() })
    }
    async fn capabilities(&self) -> Result<CsiCapabilities, CsiError> {
        Ok(CsiCapabilities::default())
    }
    async fn stage(&self, _: &Stage) -> Result<(), CsiError> {
        Ok(())
    }
    async fn unstage(&self, _: &str, _: &Path) -> Result<(), CsiError> {
        Ok(())
    }
    async fn publish(&self, _: &Publish) -> Result<(), CsiError> {
        Ok(())
    }
    async fn unpublish(&self, _: &str, _: &Path) -> Result<(), CsiError> {
        Ok(())
    }
    async fn expand(&self, order: &Expand) -> Result<i64, CsiError> {
        Ok(order.bytes)
    }
    async fn usage(&self, _: &str, _: &Path) -> Result<CsiVolumeState, CsiError> {
        Ok(CsiVolumeState::default())
    }
}

impl CsiConnector for Driver {
    fn connect(&self, _: &Path) -> Arc<dyn CsiNode> {
        Arc::new(Self)
    }
}

fn plugins() -> (CsiPlugins, Arc<Cluster>, Arc<CsiDrivers>) {
    let (cluster, drivers) = (Arc::new(Cluster::default()), Arc::new(CsiDrivers::default()));
    let api: (Arc<dyn ApiNodes>, Arc<dyn ApiCsiNodes>) = (cluster.clone(), cluster.clone());
    let plugins = CsiPlugins::new(drivers.clone(), Arc::new(Driver), api, "n".to_owned(), Arc::default());
    (plugins, cluster, drivers)
}

fn plugin() -> PluginInfo {
    PluginInfo {
        kind: "CSIPlugin".to_owned(),
        name: "d.example".to_owned(),
        endpoint: "/csi.sock".into(),
        versions: vec!["1.0.0".to_owned()],
    }
}

#[tokio::test(start_paused = true)]
async fn driver_removed_during_registration_can_register_again() {
    let (plugins, cluster, drivers) = plugins();
    cluster.hangs.store(true, Ordering::SeqCst);
    let cut_short = tokio::time::timeout(Duration::from_secs(1), plugins.register(&plugin())).await;
    assert!(cut_short.is_err(), "the cluster does not answer");
    assert!(drivers.get("d.example").is_err());
    cluster.hangs.store(false, Ordering::SeqCst);
    plugins.validate(&plugin()).unwrap();
    plugins.register(&plugin()).await.unwrap();
    assert!(drivers.get("d.example").is_ok());
    assert_eq!(cluster.drivers(), ["d.example"]);
}

#[tokio::test(start_paused = true)]
async fn reregistered_driver_stays_in_csi_node() {
    let (plugins, cluster, drivers) = plugins();
    plugins.register(&plugin()).await.unwrap();
    cluster.refusals.store(1, Ordering::SeqCst);
    let (old, new) = (plugin(), plugin());
    let back = async {
        tokio::time::sleep(UPDATE_BACKOFF.initial / 3).await;
        plugins.register(&new).await
    };
    let ((), registered) = tokio::join!(plugins.deregister(&old), back);
    registered.unwrap();
    assert!(drivers.get("d.example").is_ok());
    assert_eq!(cluster.drivers(), ["d.example"]);
    plugins.deregister(&plugin()).await;
    assert_eq!(cluster.drivers(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn delays_between_retries_have_jitter() {
    let (plugins, cluster, _) = plugins();
    let mut jitters = Vec::new();
    for _ in 0..10 {
        cluster.refusals.store(1, Ordering::SeqCst);
        let started_at = Instant::now();
        plugins.register(&plugin()).await.unwrap();
        let (delay, base) = (started_at.elapsed(), UPDATE_BACKOFF.initial);
        let rounding = Duration::from_millis(2);
        assert!(delay >= base && delay <= base.mul_f64(1.1) + rounding, "{delay:?}");
        jitters.push(delay - base);
        plugins.deregister(&plugin()).await;
    }
    assert!(jitters.iter().any(|jitter| *jitter > Duration::from_millis(1)), "{jitters:?}");
    assert_eq!(CREATE_BACKOFF.jitter, 0.5);
}
