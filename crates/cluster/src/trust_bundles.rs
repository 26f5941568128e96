//! Watches ClusterTrustBundles.

use k8s_openapi::api::certificates::v1beta1::ClusterTrustBundle;
use kube::runtime::watcher;
use model::TrustBundle;
use ports::api::FeedStream;
use ports::api::trust_bundles::ApiTrustBundles;

use crate::ApiServerAdapter;
use crate::feed::{converted, feed};

impl ApiTrustBundles for ApiServerAdapter {
    fn watch(&self) -> FeedStream<TrustBundle> {
        converted(feed(self.all(), watcher::Config::default()), bundle)
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
