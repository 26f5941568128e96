//! Watches Services and RuntimeClasses.

use futures::StreamExt;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::node::v1 as node;
use kube::runtime::watcher;
use kube::{Api, Client};
use model::{Service, ServicePort};
use ports::api::FeedStream;
use ports::api::runtime_classes::{ApiRuntimeClasses, RuntimeClass};
use ports::api::services::ApiServices;

use crate::Clients;
use crate::feed::feed;
use crate::objects::map_feed;

/// Implements [`ApiServices`].
pub struct ServicesAdapter {
    client: Client,
}

impl ServicesAdapter {
    #[must_use]
    pub fn new(clients: &Clients) -> Self {
        Self { client: clients.main.clone() }
    }
}

impl ApiServices for ServicesAdapter {
    fn watch(&self) -> FeedStream<Service> {
        let services: Api<core::Service> = Api::all(self.client.clone());
        feed(services, watcher::Config::default()).map(|item| map_feed(item, service)).boxed()
    }
}

fn service(object: core::Service) -> Service {
    let spec = object.spec.unwrap_or_default();
    let port = |port: core::ServicePort| ServicePort {
        name: port.name.unwrap_or_default(),
        protocol: port.protocol.unwrap_or_default(),
        port: port.port,
    };
    Service {
        namespace: object.metadata.namespace.unwrap_or_default(),
        name: object.metadata.name.unwrap_or_default(),
        cluster_ip: spec.cluster_ip.unwrap_or_default(),
        ports: spec.ports.into_iter().flatten().map(port).collect(),
    }
}

/// Implements [`ApiRuntimeClasses`].
pub struct RuntimeClassesAdapter {
    client: Client,
}

impl RuntimeClassesAdapter {
    #[must_use]
    pub fn new(clients: &Clients) -> Self {
        Self { client: clients.main.clone() }
    }
}

impl ApiRuntimeClasses for RuntimeClassesAdapter {
    fn watch(&self) -> FeedStream<RuntimeClass> {
        let classes: Api<node::RuntimeClass> = Api::all(self.client.clone());
        let class = |object: node::RuntimeClass| RuntimeClass {
            name: object.metadata.name.unwrap_or_default(),
            handler: object.handler,
        };
        feed(classes, watcher::Config::default()).map(move |item| map_feed(item, class)).boxed()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn converts_service_address_and_ports() {
        let object = json!({
            "metadata": {"name": "s", "namespace": "ns"},
            "spec": {"clusterIP": "10.0.0.1", "ports": [{"name": "http", "protocol": "TCP", "port": 80}]},
        });
        let port = ServicePort { name: "http".into(), protocol: "TCP".into(), port: 80 };
        let expected = Service {
            namespace: "ns".into(),
            name: "s".into(),
            cluster_ip: "10.0.0.1".into(),
            ports: vec![port],
        };
        assert_eq!(service(serde_json::from_value(object).unwrap()), expected);
    }
}
