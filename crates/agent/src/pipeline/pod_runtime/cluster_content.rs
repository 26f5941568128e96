//! Reads what a pod uses from the cluster besides ConfigMaps and Secrets.

use std::net::IpAddr;
use std::time::Duration;

use decide::projected::pod_certificates::certificate_sources;
use decide::projected::service_account_tokens::{token_request, token_specs};
use decide::runtime_spec::runtime_class::{cluster_handler, runtime_handler};
use decide::runtime_spec::service_environment::service_environment;
use k8s_openapi::api::core::v1::Volume;
use model::{ReadCertificates, ReadTokens, ReadTrustBundles, RuntimeHandler, Timestamp};

use super::PodRuntime;
use super::sync::PodSync;

/// How long a sync waits for the first list of an object kind from the API server.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);
/// Pods are synced at least this often, so a later renewal needs no requeue.
const MAX_SYNC_PERIOD: Duration = Duration::from_secs(60);

impl PodRuntime {
    /// The node's addresses from the Node object; empty without an API server.
    pub(super) fn api_host_ips(&self) -> Vec<IpAddr> {
        let cluster = self.deps.cluster.as_ref();
        cluster.map(|cluster| cluster.node.borrow().host_ips()).unwrap_or_default()
    }
}

impl PodSync<'_> {
    /// The service account tokens of projected volumes; `None` without an API server.
    pub(super) async fn read_tokens(&self, volumes: &[&Volume]) -> Option<ReadTokens> {
        let cluster = self.deps.cluster.as_ref()?;
        let requests = token_specs(volumes.iter().copied());
        let reads = requests.into_iter().map(|request| async {
            let token = cluster.tokens.get(&token_request(self.pod, request.clone())).await;
            (request, token)
        });
        Some(futures::future::join_all(reads).await.into_iter().collect())
    }

    /// The ClusterTrustBundles, if a volume projects one; `None` if the feature is disabled.
    pub(super) async fn read_trust_bundles(&self, volumes: &[&Volume]) -> Option<ReadTrustBundles> {
        let bundles = self.deps.cluster.as_ref()?.trust_bundles.as_ref()?;
        let projected = volumes.iter().filter_map(|volume| volume.projected.as_ref());
        let mut sources = projected.flat_map(|projected| projected.sources.iter().flatten());
        if !sources.any(|source| source.cluster_trust_bundle.is_some()) {
            return Some(Ok(Vec::new()));
        }
        if !bundles.wait_until_read(LIST_TIMEOUT).await {
            return Some(Err("ClusterTrustBundles have not yet been read from the API server".to_owned()));
        }
        Some(Ok(bundles.all()))
    }

    /// The certificates of projected volumes; `None` if the feature is disabled.
    pub(super) async fn read_certificates(&self, volumes: &[&Volume]) -> Option<ReadCertificates> {
        let certificates = self.deps.cluster.as_ref()?.certificates.as_ref()?;
        let reads = certificate_sources(volumes.iter().copied()).map(|(volume, index, source)| async move {
            let found = certificates.get(self.pod, (volume, index), source).await;
            ((volume.to_owned(), index), found)
        });
        Some(futures::future::join_all(reads).await.into_iter().collect())
    }

    /// When a token or certificate of the pod must be renewed, if that is before the next regular sync.
    pub(super) fn next_renewal(&self) -> Option<Timestamp> {
        let cluster = self.deps.cluster.as_ref()?;
        let certificate = cluster.certificates.as_ref().and_then(|all| all.due_at(&self.pod.uid));
        let renewal = cluster.tokens.renew_at(&self.pod.uid).into_iter().chain(certificate).min()?;
        (renewal.since(self.deps.clock.now()) < MAX_SYNC_PERIOD).then_some(renewal)
    }

    /// The environment variables of Services. A pod from the API server waits until Services have been listed.
    pub(super) async fn service_variables(&self) -> Result<Vec<(String, String)>, String> {
        let Some(cluster) = &self.deps.cluster else { return Ok(Vec::new()) };
        if !self.pod.is_static() && !cluster.services.wait_until_read(LIST_TIMEOUT).await {
            return Err("services have not yet been read at least once, cannot construct envvars".to_owned());
        }
        let services = cluster.services.all();
        Ok(service_environment(self.pod, services.iter().map(AsRef::as_ref)))
    }

    /// Waits until RuntimeClasses have been listed, if the pod names one.
    pub(super) async fn wait_for_runtime_classes(&self) {
        let names_one = self.pod.spec.runtime_class_name.as_ref().is_some_and(|class| !class.is_empty());
        if let (true, Some(cluster)) = (names_one, &self.deps.cluster) {
            // After the timeout the class counts as missing; the next sync looks it up again.
            let _ = cluster.runtime_classes.wait_until_read(LIST_TIMEOUT).await;
        }
    }

    pub(super) fn handler(&self, handlers: &[RuntimeHandler]) -> Result<String, String> {
        match &self.deps.cluster {
            None => runtime_handler(self.pod, handlers),
            Some(cluster) => cluster_handler(self.pod, |class| {
                cluster.runtime_classes.get(class).map(|class| class.handler.clone())
            }),
        }
    }
}
