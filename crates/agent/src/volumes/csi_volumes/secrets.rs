//! Secrets and tokens for drivers.

use std::collections::BTreeMap;

use decide::volumes::csi_driver::DriverTokenRequest;
use model::{CsiPod, SecretReference, TokenRequest, TokenSpec};
use ports::host::pod_volumes::VolumeResult;
use serde_json::json;

use super::{CsiVolumes, refused};

const TOKENS_ATTRIBUTE: &str = "csi.storage.k8s.io/serviceAccount.tokens";

impl CsiVolumes {
    /// Reads a secret; `field` is the referring field, for messages.
    pub(super) async fn secret(
        &self,
        field: &str,
        reference: Option<&SecretReference>,
    ) -> VolumeResult<BTreeMap<String, String>> {
        let Some(SecretReference { namespace, name }) = reference else { return Ok(BTreeMap::new()) };
        let found = self.deps.api.secret(namespace, name).await;
        let found = found.map_err(|error| {
            refused(format!(
                "fetching {field} {namespace}/{name} failed: kubernetes.io/csi: failed to find the secret {name} in the \
                 namespace {namespace} with error: {error}"
            ))
        })?;
        let data = found.data.unwrap_or_default().into_iter();
        Ok(data.map(|(key, value)| (key, String::from_utf8_lossy(&value.0).into_owned())).collect())
    }

    /// Service account tokens of the pod, encoded as one attribute or secret. The tokens are cached until they are due for renewal.
    pub(super) async fn tokens(
        &self,
        pod: &CsiPod,
        requests: &[DriverTokenRequest],
    ) -> VolumeResult<BTreeMap<String, String>> {
        if requests.is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut tokens = serde_json::Map::new();
        for DriverTokenRequest { audience, expiration_seconds } in requests {
            let audiences = Some(audience.clone()).filter(|audience| !audience.is_empty());
            let request = TokenRequest {
                namespace: pod.namespace.clone(),
                account: pod.service_account.clone(),
                account_uid: None,
                pod_name: pod.name.clone(),
                pod_uid: pod.uid.clone(),
                wish: TokenSpec {
                    audiences: audiences.into_iter().collect(),
                    expiration_seconds: *expiration_seconds,
                },
            };
            let issued = self.deps.tokens.get_on_demand(&request).await.map_err(|error| {
                refused(format!(
                    "kubernetes.io/csi: mounter.SetUpAt failed to get service accoount token attributes: {error}"
                ))
            })?;
            let status =
                json!({"token": issued.token, "expirationTimestamp": issued.expires_at.to_api_time()});
            tokens.insert(audience.clone(), status);
        }
        Ok([(TOKENS_ATTRIBUTE.to_owned(), serde_json::Value::Object(tokens).to_string())].into())
    }
}
