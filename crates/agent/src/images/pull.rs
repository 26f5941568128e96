use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use decide::credentials::image_auth;
use decide::image_pull::join_failures;
use futures::FutureExt;
use futures::future::BoxFuture;
use model::{ImageSpec, ImageStatus, RegistryCredential, SandboxSpec};
use tokio::time::Instant;

use super::Inner;

/// Annotations by which runtimes choose where an image goes begin with one of these. Others, of which most pods have
/// some of their own, do not keep pulls apart.
const PLACES: [&str; 2] = ["io.containerd.", "io.kubernetes.cri-o."];

/// Pulls that are one: the same image with the same credentials to the same place. Runtimes may check what they pull by
/// rules of the namespace.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct PullKey {
    pub(super) image: String,
    pub(super) handler: String,
    pub(super) namespace: String,
    pub(super) credentials: Vec<RegistryCredential>,
    pub(super) place: Vec<(String, String)>,
}

/// Those of a pod's annotations that say where its images go.
pub(super) fn place(annotations: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let chosen = annotations.iter().filter(|(key, _)| PLACES.iter().any(|prefix| key.starts_with(prefix)));
    chosen.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// What a pull brought.
#[derive(Clone, Debug)]
pub(super) struct Pulled {
    pub(super) reference: String,
    pub(super) status: ImageStatus,
    /// What opened the registry; `None` if nothing was needed.
    pub(super) used: Option<RegistryCredential>,
    /// Without the wait for a free slot.
    pub(super) took: Duration,
}

/// One pull, shared by all who wait for it.
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
        if !inner.limiter.take() {
            return Err("pull QPS exceeded".to_owned());
        }
        let started = Instant::now();
        let (reference, used) = try_each(&inner, &spec, &key.credentials, &sandbox).await?;
        let by_reference = ImageSpec { image: reference.clone(), ..spec };
        let status = inner.runtime.image_status(&by_reference).await.ok().flatten().unwrap_or_default();
        Ok(Pulled { reference, status, used, took: started.elapsed() })
    }
    .boxed()
}

/// Tries every credential in turn; without any, as anybody.
async fn try_each(
    inner: &Inner,
    spec: &ImageSpec,
    credentials: &[RegistryCredential],
    sandbox: &SandboxSpec,
) -> Result<(String, Option<RegistryCredential>), String> {
    if credentials.is_empty() {
        let pulled = inner.runtime.pull_image(spec, None, sandbox).await;
        return pulled.map(|reference| (reference, None)).map_err(|error| error.message);
    }
    let mut failures = Vec::new();
    for credential in credentials {
        match inner.runtime.pull_image(spec, Some(&image_auth(credential)), sandbox).await {
            Ok(reference) => return Ok((reference, Some(credential.clone()))),
            Err(error) => failures.push(error.message),
        }
    }
    Err(join_failures(&failures))
}
