//! Watches ClusterTrustBundles.

use futures::StreamExt;
use k8s_openapi::api::certificates::v1beta1::ClusterTrustBundle;
use kube::runtime::watcher;
use kube::{Api, Client};
use model::TrustBundle;
use ports::api::FeedStream;
use ports::api::trust_bundles::ApiTrustBundles;

use crate::Clients;
use crate::feed::feed;
use crate::objects::map_feed;

/// Implements [`ApiTrustBundles`].
pub struct TrustBundlesAdapter {
    client: Client,
}

impl TrustBundlesAdapter {
    #[must_use]
    pub fn new(clients: &Clients) -> Self {
        Self { client: clients.main.clone() }
    }
}

impl ApiTrustBundles for TrustBundlesAdapter {
    fn watch(&self) -> FeedStream<TrustBundle> {
        let bundles: Api<ClusterTrustBundle> = Api::all(self.client.clone());
        feed(bundles, watcher::Config::default()).map(|item| map_feed(item, bundle)).boxed()
    }
}

fn bundle(object: ClusterTrustBundle) -> TrustBundle {
    TrustBundle {
        name: object.metadata.name.unwrap_or_default(),
        signer: object.spec.signer_name.unwrap_or_default(),
        labels: object.metadata.labels.unwrap_or_default(),
        certificates: object.spec.trust_bundle,
    }
}
