use async_trait::async_trait;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Secret};
use k8s_openapi::api::storage::v1::{CSIDriver, VolumeAttachment};
use model::PodSource;
use ports::api::FeedStream;
use serde_json::json;

use std::time::Duration;

use ports::api::ApiErrorKind;

use super::*;
use crate::test_checkpoints::Files;

#[derive(Default)]
struct Server {
    away: Mutex<Option<ApiErrorKind>>,
}

impl Server {
    fn answer<T: serde::de::DeserializeOwned>(&self, object: serde_json::Value) -> Result<T, ApiError> {
        match *self.away.lock() {
            Some(kind) => Err(ApiError { kind, message: "no".to_owned(), retry_after: None }),
            None => Ok(serde_json::from_value(object).unwrap()),
        }
    }
}

#[async_trait]
impl ApiVolumes for Server {
    async fn claim(&self, namespace: &str, name: &str) -> Result<PersistentVolumeClaim, ApiError> {
        self.answer(json!({
            "metadata": {"name": name, "namespace": namespace, "uid": "c-uid"},
            "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"},
        }))
    }

    async fn volume(&self, name: &str) -> Result<PersistentVolume, ApiError> {
        let spec = json!({"claimRef": {"uid": "c-uid"}, "accessModes": ["ReadWriteOncePod"]});
        self.answer(json!({"metadata": {"name": name}, "spec": spec}))
    }

    async fn attachment(&self, _name: &str) -> Result<VolumeAttachment, ApiError> {
        self.answer(json!({}))
    }

    async fn secret(&self, _namespace: &str, _name: &str) -> Result<Secret, ApiError> {
        self.answer(json!({}))
    }

    async fn patch_claim_status(
        &self,
        _namespace: &str,
        _name: &str,
        _patch: &serde_json::Value,
    ) -> Result<(), ApiError> {
        Ok(())
    }

    fn watch_drivers(&self) -> FeedStream<CSIDriver> {
        Box::pin(futures::stream::pending())
    }
}

fn pod(uid: &str) -> Pod {
    let object = json!({
        "metadata": {"name": "p", "namespace": "n", "uid": uid},
        "spec": {
            "containers": [{"name": "k", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
            "volumes": [
                {"name": "v", "persistentVolumeClaim": {"claimName": "c"}},
                {"name": "unused", "persistentVolumeClaim": {"claimName": "other"}},
            ],
        },
    });
    testkit::builders::parse_pod(object, PodSource::Api)
}

#[tokio::test]
async fn cached_claims_survive_api_outage_and_restart() {
    let (server, disk) = (Arc::new(Server::default()), Arc::new(Files::default()));
    let claims = Claims::new(server.clone(), disk.clone());
    let found = claims.resolve(&pod("u")).await.unwrap();
    assert_eq!(found.keys().collect::<Vec<_>>(), ["v"]);
    *server.away.lock() = Some(ApiErrorKind::Unreachable);
    assert_eq!(claims.resolve(&pod("u")).await.unwrap(), found);

    let next = Claims::new(server.clone(), disk.clone());
    assert_eq!(next.resolve(&pod("u")).await.unwrap(), found);
    // A pod without cached claims waits for the server, and so does one whose claim was deleted.
    let text = next.resolve(&pod("w")).await.unwrap_err().to_string();
    assert!(text.ends_with("error processing PVC n/c: failed to fetch PVC from API server: no"), "{text}");
    *server.away.lock() = Some(ApiErrorKind::NotFound);
    assert!(next.resolve(&pod("u")).await.is_err());
    *server.away.lock() = Some(ApiErrorKind::Server);
    next.release(&PodUid::from("u")).await;
    assert!(next.resolve(&pod("u")).await.is_err());
}

#[tokio::test]
async fn rwop_volume_waits_for_the_other_pod() {
    let claims = Claims::new(Arc::new(Server::default()), Arc::new(Files::default()));
    claims.resolve(&pod("one")).await.unwrap();
    claims.resolve(&pod("one")).await.unwrap();
    let text = claims.resolve(&pod("two")).await.unwrap_err().to_string();
    assert_eq!(
        text,
        "MountVolume.SetUp failed for volume \"pv\" : volume uses the ReadWriteOncePod access mode and is already in \
         use by another pod"
    );
    claims.release(&PodUid::from("one")).await;
    assert!(claims.resolve(&pod("two")).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn retries_failed_checkpoint_save() {
    let (server, disk) = (Arc::new(Server::default()), Arc::new(Files::default()));
    let claims = Claims::new(server.clone(), disk.clone());
    disk.fail_next_writes(3);
    let cancel = CancellationToken::new();
    let test = async {
        let found = claims.resolve(&pod("u")).await.unwrap();
        assert!(disk.read(VOLUME_CLAIMS.name).is_none());
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(disk.read(VOLUME_CLAIMS.name).unwrap().0, 1);
        *server.away.lock() = Some(ApiErrorKind::Unreachable);
        let next = Claims::new(server.clone(), disk.clone());
        assert_eq!(next.resolve(&pod("u")).await.unwrap(), found);
        cancel.cancel();
    };
    tokio::join!(claims.keep(cancel.clone()), test);
}
