//! The Node object as the API server reports it, published by the node watch.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, NodeAddress, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Annotation by which the control plane limits the age of cached ConfigMaps and Secrets.
const OBJECT_TTL: &str = "node.alpha.kubernetes.io/ttl";

/// Unknown until the API server has reported the node once. After a deletion the last version stays.
#[derive(Clone, Debug, Default)]
pub struct NodeView {
    node: Option<Arc<Node>>,
}

/// The initial view is unknown.
#[must_use]
pub fn channel() -> (watch::Sender<NodeView>, watch::Receiver<NodeView>) {
    watch::channel(NodeView::default())
}

/// Never returns if the sender is dropped before the node is known.
pub async fn wait_until_known(views: &mut watch::Receiver<NodeView>) -> NodeView {
    if let Ok(view) = views.wait_for(NodeView::is_known).await {
        return view.clone();
    }
    std::future::pending().await
}

/// Publishes the node's addresses whenever they change, until cancelled.
pub async fn publish_addresses(
    mut views: watch::Receiver<NodeView>,
    addresses: watch::Sender<Vec<NodeAddress>>,
    cancel: CancellationToken,
) {
    loop {
        let found = views.borrow_and_update().addresses().to_vec();
        addresses.send_if_modified(|current| {
            let changed = *current != found;
            *current = found;
            changed
        });
        tokio::select! {
            () = cancel.cancelled() => return,
            changed = views.changed() => if changed.is_err() {
                return cancel.cancelled().await;
            },
        }
    }
}

impl NodeView {
    #[must_use]
    pub fn of(node: Arc<Node>) -> Self {
        Self { node: Some(node) }
    }

    /// Name and UID of the node.
    #[must_use]
    pub fn identity(&self) -> Option<(String, String)> {
        let metadata = &self.node.as_ref()?.metadata;
        Some((metadata.name.clone()?, metadata.uid.clone()?))
    }

    #[must_use]
    pub fn is_known(&self) -> bool {
        self.node.is_some()
    }

    #[must_use]
    pub fn node(&self) -> Option<&Arc<Node>> {
        self.node.as_ref()
    }

    /// `None` while the node is unknown.
    #[must_use]
    pub fn labels(&self) -> Option<&BTreeMap<String, String>> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        let node = self.node.as_ref()?;
        Some(node.metadata.labels.as_ref().unwrap_or(&NONE))
    }

    /// Age limit of cached ConfigMaps and Secrets, set by the control plane.
    #[must_use]
    pub fn object_ttl(&self) -> Option<Duration> {
        let annotations = self.node.as_ref()?.metadata.annotations.as_ref()?;
        let seconds: i64 = annotations.get(OBJECT_TTL)?.parse().ok()?;
        Some(Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
    }

    #[must_use]
    pub fn taints(&self) -> &[Taint] {
        let spec = self.node.as_ref().and_then(|node| node.spec.as_ref());
        spec.and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
    }

    #[must_use]
    pub fn pod_cidrs(&self) -> &[String] {
        let spec = self.node.as_ref().and_then(|node| node.spec.as_ref());
        spec.and_then(|spec| spec.pod_cidrs.as_deref()).unwrap_or_default()
    }

    #[must_use]
    pub fn allocatable(&self) -> Option<&BTreeMap<String, Quantity>> {
        let status = self.node.as_ref().and_then(|node| node.status.as_ref());
        status.and_then(|status| status.allocatable.as_ref())
    }

    #[must_use]
    pub fn addresses(&self) -> &[NodeAddress] {
        let status = self.node.as_ref().and_then(|node| node.status.as_ref());
        status.and_then(|status| status.addresses.as_deref()).unwrap_or_default()
    }

    /// The values for `hostIPs` of pods: the first internal address, or else the first external one, and the first address
    /// of the other family.
    #[must_use]
    pub fn host_ips(&self) -> Vec<IpAddr> {
        let of_type = |type_: &'static str| {
            let found = self.addresses().iter().filter(move |address| address.type_ == type_);
            found.filter_map(|address| address.address.parse::<IpAddr>().ok())
        };
        let all: Vec<IpAddr> = of_type("InternalIP").chain(of_type("ExternalIP")).collect();
        let Some(primary) = all.first() else { return Vec::new() };
        let other = all.iter().find(|ip| ip.is_ipv6() != primary.is_ipv6());
        [Some(primary), other].into_iter().flatten().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::{NodeAddress, NodeSpec, NodeStatus};

    #[tokio::test]
    async fn view_is_unknown_until_published() {
        let (publish, mut views) = channel();
        assert!(views.borrow().labels().is_none() && views.borrow().taints().is_empty());
        let address =
            |type_: &str, address: &str| NodeAddress { type_: type_.into(), address: address.into() };
        let node = Node {
            spec: Some(NodeSpec { pod_cidrs: Some(vec!["10.1.0.0/24".into()]), ..NodeSpec::default() }),
            status: Some(NodeStatus {
                addresses: Some(vec![address("Hostname", "n"), address("InternalIP", "192.0.2.7")]),
                ..NodeStatus::default()
            }),
            ..Node::default()
        };
        publish.send_replace(NodeView::of(Arc::new(node)));
        let view = wait_until_known(&mut views).await;
        assert!(view.labels().unwrap().is_empty());
        assert_eq!(view.pod_cidrs(), ["10.1.0.0/24"]);
        assert_eq!(view.host_ips(), ["192.0.2.7".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn host_ips_have_at_most_one_address_per_family() {
        let internal = |address: &'static str| ("InternalIP", address);
        let external = |address: &'static str| ("ExternalIP", address);
        for (addresses, expected) in [
            (vec![], vec![]),
            (vec![("Hostname", "n")], vec![]),
            (vec![internal("192.0.2.7"), internal("192.0.2.8")], vec!["192.0.2.7"]),
            (
                vec![internal("192.0.2.7"), internal("192.0.2.8"), internal("2001:db8::7")],
                vec!["192.0.2.7", "2001:db8::7"],
            ),
            (vec![internal("2001:db8::7"), internal("192.0.2.7")], vec!["2001:db8::7", "192.0.2.7"]),
            (vec![external("2001:db8::7"), internal("192.0.2.7")], vec!["192.0.2.7", "2001:db8::7"]),
            (vec![external("203.0.113.7"), internal("192.0.2.7")], vec!["192.0.2.7"]),
            (vec![external("203.0.113.7")], vec!["203.0.113.7"]),
        ] {
            let listed = addresses.iter().map(|(type_, address)| NodeAddress {
                type_: (*type_).to_owned(),
                address: (*address).to_owned(),
            });
            let status = NodeStatus { addresses: Some(listed.collect()), ..NodeStatus::default() };
            let view = NodeView::of(Arc::new(Node { status: Some(status), ..Node::default() }));
            let ips: Vec<String> = view.host_ips().iter().map(ToString::to_string).collect();
            assert_eq!(ips, expected, "{addresses:?}");
        }
    }
}
