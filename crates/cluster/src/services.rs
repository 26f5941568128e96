//! Watches Services and RuntimeClasses.

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::node::v1 as node;
use kube::runtime::watcher;
use model::{Service, ServicePort};
use ports::api::FeedStream;
use ports::api::runtime_classes::{ApiRuntimeClasses, RuntimeClass};
use ports::api::services::ApiServices;

use crate::ApiServerAdapter;
use crate::feed::{converted, feed};

impl ApiServices for ApiServerAdapter {
    fn watch(&self) -> FeedStream<Service> {
        converted(feed(self.all(), watcher::Config::default()), service)
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

impl ApiRuntimeClasses for ApiServerAdapter {
    fn watch(&self) -> FeedStream<RuntimeClass> {
        let class = |object: node::RuntimeClass| RuntimeClass {
            name: object.metadata.name.unwrap_or_default(),
            handler: object.handler,
        };
        converted(feed(self.all(), watcher::Config::default()), class)
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
