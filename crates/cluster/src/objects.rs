//! Gets and watches single ConfigMaps and Secrets.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1 as core;
use kube::runtime::watcher;
use model::{ConfigObject, ObjectKey, ObjectKind};
use ports::api::objects::ApiObjects;
use ports::api::{ApiError, FeedStream};

use crate::ApiServerAdapter;
use crate::errors::with_deadline;
use crate::feed::{converted, feed_with_backoff};
use crate::watch_backoff::WatchBackoff;

/// The initial backoff is short, because the node authorizer often permits access a few milliseconds after a rejection.
const INITIAL_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(30);

#[async_trait]
impl ApiObjects for ApiServerAdapter {
    async fn get(&self, key: &ObjectKey) -> Result<ConfigObject, ApiError> {
        match key.kind {
            ObjectKind::ConfigMap => {
                let object = with_deadline(self.namespaced(&key.namespace).get(&key.name)).await?;
                Ok(config_map(key, object))
            }
            ObjectKind::Secret => {
                let object = with_deadline(self.namespaced(&key.namespace).get(&key.name)).await?;
                Ok(secret(key, object))
            }
        }
    }

    fn watch(&self, key: &ObjectKey) -> FeedStream<ConfigObject> {
        let config = watcher::Config::default().fields(&format!("metadata.name={}", key.name));
        let backoff = WatchBackoff::new(INITIAL_BACKOFF, MAX_BACKOFF);
        let key = key.clone();
        match key.kind {
            ObjectKind::ConfigMap => {
                let items = feed_with_backoff(self.namespaced(&key.namespace), config, backoff);
                converted(items, move |object| config_map(&key, object))
            }
            ObjectKind::Secret => {
                let items = feed_with_backoff(self.namespaced(&key.namespace), config, backoff);
                converted(items, move |object| secret(&key, object))
            }
        }
    }
}

fn config_map(key: &ObjectKey, object: core::ConfigMap) -> ConfigObject {
    let text = object.data.unwrap_or_default().into_iter();
    let binary = object.binary_data.unwrap_or_default().into_iter();
    ConfigObject {
        key: key.clone(),
        uid: object.metadata.uid.unwrap_or_default(),
        data: text.map(|(name, value)| (name, value.into_bytes())).collect(),
        binary_data: binary.map(|(name, value)| (name, value.0)).collect(),
        secret_type: String::new(),
        immutable: object.immutable == Some(true),
    }
}

fn secret(key: &ObjectKey, object: core::Secret) -> ConfigObject {
    let data = object.data.unwrap_or_default().into_iter();
    ConfigObject {
        key: key.clone(),
        uid: object.metadata.uid.unwrap_or_default(),
        data: data.map(|(name, value)| (name, value.0)).collect(),
        binary_data: Default::default(),
        secret_type: object.type_.unwrap_or_default(),
        immutable: object.immutable == Some(true),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn decodes_config_maps_and_secrets() {
        let key = |kind| ObjectKey { kind, namespace: "ns".into(), name: "x".into() };
        let json = json!({"data": {"a": "text"}, "binaryData": {"b": "AAE="}, "immutable": true});
        let object = config_map(&key(ObjectKind::ConfigMap), serde_json::from_value(json).unwrap());
        assert_eq!(object.data.get("a").unwrap(), b"text");
        assert_eq!(object.binary_data.get("b").unwrap(), &[0, 1]);
        assert!(object.immutable);
        let json = json!({"metadata": {"uid": "7"}, "data": {"a": "dGV4dA=="}, "type": "Opaque"});
        let object = secret(&key(ObjectKind::Secret), serde_json::from_value(json).unwrap());
        assert_eq!(object.data.get("a").unwrap(), b"text");
        assert_eq!((object.secret_type.as_str(), object.immutable), ("Opaque", false));
        assert_eq!(object.uid, "7");
    }
}
