//! What a pod takes from the cluster besides ConfigMaps and Secrets.

use std::net::IpAddr;
use std::time::Duration;

use decide::pod_certificates::certificate_sources;
use decide::runtime_class::{cluster_handler, runtime_handler};
use decide::service_account_tokens::{token_request, token_wishes};
use decide::service_environment::service_environment;
use k8s_openapi::api::core::v1::Volume;
use model::{ReadCertificates, ReadTokens, ReadTrustBundles, RuntimeHandler, Timestamp};

use super::PodRuntime;
use super::sync::Pass;

/// How long a pass waits for sets of the API server that were never read.
const PATIENCE: Duration = Duration::from_secs(5);
/// Passes come at least so often anyway; a renewal further off needs no call of its own.
const USUAL_PERIOD: Duration = Duration::from_secs(60);

impl PodRuntime {
    /// The node's addresses as the API server shows them; none without one.
    pub(super) fn shown_host_ips(&self) -> Vec<IpAddr> {
        let supplies = self.parts.supplies.as_ref();
        supplies.map(|supplies| supplies.node.borrow().host_ips()).unwrap_or_default()
    }
}

impl Pass<'_> {
    /// The tokens that volumes ask for; `None` without an API server.
    pub(super) async fn read_tokens(&self, volumes: &[&Volume]) -> Option<ReadTokens> {
        let supplies = self.runtime.parts.supplies.as_ref()?;
        let wishes = token_wishes(volumes.iter().copied());
        let reads = wishes.into_iter().map(|wish| async {
            let token = supplies.tokens.get(&token_request(self.pod, wish.clone())).await;
            (wish, token)
        });
        Some(futures::future::join_all(reads).await.into_iter().collect())
    }

    /// The trust bundles of the cluster, if a volume asks for one; `None` where pods may not use them.
    pub(super) async fn read_trust_bundles(&self, volumes: &[&Volume]) -> Option<ReadTrustBundles> {
        let bundles = self.runtime.parts.supplies.as_ref()?.trust_bundles.as_ref()?;
        let projected = volumes.iter().filter_map(|volume| volume.projected.as_ref());
        let mut sources = projected.flat_map(|projected| projected.sources.iter().flatten());
        if !sources.any(|source| source.cluster_trust_bundle.is_some()) {
            return Some(Ok(Vec::new()));
        }
        if !bundles.is_read(PATIENCE).await {
            return Some(Err("ClusterTrustBundles have not yet been read from the API server".to_owned()));
        }
        Some(Ok(bundles.all()))
    }

    /// The certificates that volumes ask for; `None` where pods may not have any.
    pub(super) async fn read_certificates(&self, volumes: &[&Volume]) -> Option<ReadCertificates> {
        let certificates = self.runtime.parts.supplies.as_ref()?.certificates.as_ref()?;
        let reads = certificate_sources(volumes.iter().copied()).map(|(volume, place, source)| async move {
            let found = certificates.get(self.pod, (volume, place), source).await;
            ((volume.to_owned(), place), found)
        });
        Some(futures::future::join_all(reads).await.into_iter().collect())
    }

    /// When a token or certificate of the pod is renewed, if that is soon.
    pub(super) fn next_renewal(&self) -> Option<Timestamp> {
        let parts = &self.runtime.parts;
        let supplies = parts.supplies.as_ref()?;
        let certificate = supplies.certificates.as_ref().and_then(|all| all.due_at(&self.pod.uid));
        let at = supplies.tokens.renew_at(&self.pod.uid).into_iter().chain(certificate).min()?;
        (at.since(parts.clock.now()) < USUAL_PERIOD).then_some(at)
    }

    /// The variables of services. A pod of the API server waits for them to be known.
    pub(super) async fn service_variables(&self) -> Result<Vec<(String, String)>, String> {
        let Some(supplies) = &self.runtime.parts.supplies else { return Ok(Vec::new()) };
        if !self.pod.is_static() && !supplies.services.is_read(PATIENCE).await {
            return Err("services have not yet been read at least once, cannot construct envvars".to_owned());
        }
        let services = supplies.services.all();
        Ok(service_environment(self.pod, services.iter().map(AsRef::as_ref)))
    }

    /// Waits until the classes of the cluster are known, if the pod names one.
    pub(super) async fn wait_for_runtime_classes(&self) {
        let names_one = self.pod.spec.runtime_class_name.as_ref().is_some_and(|class| !class.is_empty());
        if let (true, Some(supplies)) = (names_one, &self.runtime.parts.supplies) {
            // A class that is not known by then is told as missing and looked up again by the next pass.
            let _ = supplies.runtime_classes.is_read(PATIENCE).await;
        }
    }

    /// The runtime's handler for the pod.
    pub(super) fn handler(&self, handlers: &[RuntimeHandler]) -> Result<String, String> {
        match &self.runtime.parts.supplies {
            None => runtime_handler(self.pod, handlers),
            Some(supplies) => cluster_handler(self.pod, |class| {
                supplies.runtime_classes.get(class).map(|class| class.handler.clone())
            }),
        }
    }
}
