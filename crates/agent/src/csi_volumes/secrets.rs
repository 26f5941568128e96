//! Secrets and tokens that drivers are given.

use std::collections::BTreeMap;

use decide::volumes::terms::TokenTerms;
use model::{CsiPod, SecretReference};
use ports::pod_volumes::VolumeError;
use serde_json::json;

use super::{CsiVolumes, refused};

const TOKENS: &str = "csi.storage.k8s.io/serviceAccount.tokens";

impl CsiVolumes {
    /// The content of a secret; `field` is what names it, for messages.
    pub(super) async fn secret(
        &self,
        field: &str,
        reference: Option<&SecretReference>,
    ) -> Result<BTreeMap<String, String>, VolumeError> {
        let Some(SecretReference { namespace, name }) = reference else { return Ok(BTreeMap::new()) };
        let found = self.parts.api.secret(namespace, name).await;
        let found = found.map_err(|error| {
            refused(format!(
                "fetching {field} {namespace}/{name} failed: kubernetes.io/csi: failed to find the secret {name} in the \
                 namespace {namespace} with error: {error}"
            ))
        })?;
        let data = found.data.unwrap_or_default().into_iter();
        Ok(data.map(|(key, value)| (key, String::from_utf8_lossy(&value.0).into_owned())).collect())
    }

    /// Tokens of the pod's service account, as the one attribute or secret that carries them.
    pub(super) async fn tokens(
        &self,
        pod: &CsiPod,
        wanted: &[TokenTerms],
    ) -> Result<BTreeMap<String, String>, VolumeError> {
        if wanted.is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut tokens = serde_json::Map::new();
        for TokenTerms { audience, expiration_seconds } in wanted {
            let asked = self.parts.api.pod_token(pod, audience, *expiration_seconds).await;
            let status = asked.map_err(|error| {
                refused(format!(
                    "kubernetes.io/csi: mounter.SetUpAt failed to get service accoount token attributes: {error}"
                ))
            })?;
            tokens.insert(audience.clone(), json!(status));
        }
        Ok([(TOKENS.to_owned(), serde_json::Value::Object(tokens).to_string())].into())
    }
}
