use async_trait::async_trait;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::ResourceClaim;
use parking_lot::Mutex;
use ports::api::{ApiError, ApiErrorKind};

use super::*;

/// Records deletions with their time; the first one fails.
struct Api {
    started: Instant,
    deleted: Mutex<Vec<(u64, Option<String>)>>,
}

#[async_trait]
impl ApiResourceClaims for Api {
    async fn resource_claim(&self, _: &str, _: &str) -> Result<ResourceClaim, ApiError> {
        Ok(ResourceClaim::default())
    }

    async fn delete_slices(&self, driver: Option<&str>) -> Result<(), ApiError> {
        let mut deleted = self.deleted.lock();
        deleted.push((self.started.elapsed().as_secs(), driver.map(str::to_owned)));
        match deleted.len() {
            1 => Err(ApiError {
                kind: ApiErrorKind::Unreachable,
                message: "injected".to_owned(),
                retry_after: None,
            }),
            _ => Ok(()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn deletes_slices_at_start_and_after_a_driver_was_unusable_for_30_seconds() {
    let api = Arc::new(Api { started: Instant::now(), deleted: Mutex::default() });
    let (node, view) = node_view::channel();
    node.send_replace(NodeView::of(Arc::new(Node::default())));
    let (sender, usable) = watch::channel(UsableDrivers::new());
    let cancel = CancellationToken::new();
    let running = tokio::spawn(run(api.clone(), view, usable, cancel.clone()));
    let publish = |is_usable| sender.send_replace([("a".to_owned(), is_usable)].into());
    let seconds = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
    seconds(10).await;
    publish(true);
    seconds(10).await;
    publish(false);
    seconds(20).await;
    publish(true);
    seconds(60).await;
    let at_start = api.deleted.lock().clone();
    assert!(matches!(at_start.as_slice(), [(0, None), (1..=2, None)]), "{at_start:?}");
    publish(false);
    seconds(600).await;
    let all = api.deleted.lock().clone();
    assert_eq!(all[2..], [(130, Some("a".to_owned()))]);
    cancel.cancel();
    running.await.unwrap();
}
