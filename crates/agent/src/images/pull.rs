//! One image pull, with all matching credentials.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use decide::images::credentials::image_auth;
use decide::images::image_pull::join_failures;
use futures::FutureExt;
use futures::future::BoxFuture;
use model::{ImageSpec, ImageStatus, RegistryCredential, SandboxSpec};
use tokio::time::Instant;

use super::Inner;

/// Prefixes of the annotations by which runtimes choose the storage of an image. Other annotations do not prevent sharing a
/// pull.
const STORAGE_PREFIXES: [&str; 2] = ["io.containerd.", "io.kubernetes.cri-o."];

/// Requests with the same key share one pull. The namespace is part of it, because runtimes may apply policies per
/// namespace.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct PullKey {
    pub(super) image: String,
    pub(super) handler: String,
    pub(super) namespace: String,
    pub(super) credentials: Vec<RegistryCredential>,
    pub(super) storage_annotations: Vec<(String, String)>,
}

pub(super) fn storage_annotations(annotations: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let chosen =
        annotations.iter().filter(|(key, _)| STORAGE_PREFIXES.iter().any(|prefix| key.starts_with(prefix)));
    chosen.map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[derive(Clone, Debug)]
pub(super) struct Pulled {
    pub(super) reference: String,
    pub(super) status: ImageStatus,
    /// `None` for an anonymous pull.
    pub(super) used: Option<RegistryCredential>,
    /// Excludes the wait for a free slot.
    pub(super) took: Duration,
}

pub(super) fn pull(
    inner: Arc<Inner>,
    spec: ImageSpec,
    key: PullKey,
    sandbox: SandboxSpec,
) -> BoxFuture<'static, Result<Pulled, String>> {
    async move {
        let _slot = match &inner.slots {
            Some(slots) => slots.acquire().await.ok(),
            None => None,
        };
        if !inner.limiter.try_acquire() {
            return Err("pull QPS exceeded".to_owned());
        }
        let started = Instant::now();
        let (reference, used) = try_credentials(&inner, &spec, &key.credentials, &sandbox).await?;
        let by_reference = ImageSpec { image: reference.clone(), ..spec };
        let status = inner.deps.runtime.image_status(&by_reference).await.ok().flatten().unwrap_or_default();
        Ok(Pulled { reference, status, used, took: started.elapsed() })
    }
    .boxed()
}

/// Tries the credentials in order; without any, pulls anonymously.
async fn try_credentials(
    inner: &Inner,
    spec: &ImageSpec,
    credentials: &[RegistryCredential],
    sandbox: &SandboxSpec,
) -> Result<(String, Option<RegistryCredential>), String> {
    if credentials.is_empty() {
        let pulled = inner.deps.runtime.pull_image(spec, None, sandbox).await;
        return pulled.map(|reference| (reference, None)).map_err(|error| error.message);
    }
    let mut failures = Vec::new();
    for credential in credentials {
        match inner.deps.runtime.pull_image(spec, Some(&image_auth(credential)), sandbox).await {
            Ok(reference) => return Ok((reference, Some(credential.clone()))),
            Err(error) => failures.push(error.message),
        }
    }
    Err(join_failures(&failures))
}
